from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from orchestrator.bench.modes import ALL, Sample, measure, summarise, survival
from orchestrator.bench.workload import Labelled
from orchestrator.errors import FleetError


def sample(
    round: int, label: str, pool: str, tokens: int, seconds: float, steps: float
) -> Sample:
    histogram = () if pool == "plain" else (1, 0, 1)
    return Sample(round, label, 0.0, pool, tokens, seconds, steps, histogram)


SAMPLES = [
    sample(0, "code", "ngram", 101, 1.0, 50),
    sample(0, "code", "plain", 101, 2.0, 100),
    sample(0, "open", "ngram", 51, 3.0, 50),
    sample(0, "open", "plain", 51, 1.0, 50),
    # A round in which the machine was half as fast.
    sample(1, "code", "ngram", 101, 2.0, 50),
    sample(1, "code", "plain", 101, 4.0, 100),
    sample(1, "open", "ngram", 51, 6.0, 50),
    sample(1, "open", "plain", 51, 2.0, 50),
]


def test_each_round_is_compared_with_itself() -> None:
    cells = {(c.label, c.pool): c for c in summarise(SAMPLES, "plain")}
    code = cells["code", "ngram"]
    assert code.ratio == pytest.approx(2.0)
    assert code.tokens_per_s == pytest.approx((101 + 50.5) / 2)
    assert code.effective_tokens == pytest.approx(2.0)
    assert code.step_s == pytest.approx(3.0 / 100)
    assert cells["open", "ngram"].ratio == pytest.approx(1 / 3)
    assert cells[ALL, "plain"].ratio == 1.0
    assert cells[ALL, "plain"].effective_tokens == pytest.approx(1.0)
    # All requests together count by their tokens: 152 in 4 s beside 152 in 3 s.
    assert cells[ALL, "ngram"].ratio == pytest.approx(3 / 4)


def test_the_plain_pool_stands_first_and_all_classes_together_last() -> None:
    cells = summarise(SAMPLES, "plain")
    assert [(c.label, c.pool) for c in cells] == [
        ("code", "plain"),
        ("code", "ngram"),
        ("open", "plain"),
        ("open", "ngram"),
        (ALL, "plain"),
        (ALL, "ngram"),
    ]


def test_survival_counts_the_steps_that_had_drafts() -> None:
    assert survival([(2, 1, 1), (0, 0, 4)]) == pytest.approx((6 / 8, 5 / 8))
    assert survival([(), (1, 1)]) == pytest.approx((0.5,))
    assert survival([()]) == ()
    assert survival([(0, 0)]) == ()


class Handler(BaseHTTPRequestHandler):
    """Every pool answers alike; the pool `ngram` says what was drafted."""

    asked: list[tuple[str, dict[str, Any]]]
    status = 200

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        pool = self.headers["x-spec-pool"]
        self.asked.append((pool, json.loads(self.rfile.read(length))))
        answer: dict[str, Any] = {"usage": {"completion_tokens": 11}, "choices": []}
        if pool == "ngram":
            answer["metrics"] = {
                "speculative_decoding": {
                    "num_accepted_draft_tokens": 5,
                    "num_spec_steps": 4,
                    "acceptance_histogram": [1, 1, 2],
                }
            }
        content = json.dumps(answer).encode()
        self.send_response(self.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[tuple[str, type[Handler]]]:
    class Own(Handler):
        asked: list[tuple[str, dict[str, Any]]] = []  # noqa: RUF012

    http = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}", Own
    http.shutdown()
    thread.join()
    http.server_close()


REQUESTS = [
    Labelled(
        name,
        "code",
        {
            "messages": [{"role": "user", "content": name}],
            "top_k": 3,
            # What the bench decides, whatever the file says.
            "model": "another",
            "temperature": 0.3,
            "max_tokens": 77,
            "max_completion_tokens": 78,
            "stream": True,
            "stream_options": {"include_usage": True},
        },
    )
    for name in "ab"
]


def test_every_request_goes_to_every_pool_which_take_turns(
    server: tuple[str, type[Handler]],
) -> None:
    url, handler = server
    shown: list[Sample] = []
    samples = measure(
        url,
        "m",
        ["plain", "ngram"],
        REQUESTS,
        [0.0, 1.0],
        rounds=2,
        max_tokens=11,
        progress=shown.append,
    )
    assert samples == shown
    warm_up, sent = handler.asked[:4], handler.asked[4:]
    assert {pool for pool, _ in warm_up} == {"plain", "ngram"}
    told = [
        (pool, body["messages"][0]["content"], body["temperature"])
        for pool, body in sent
    ]
    assert len(set(told)) == 8
    assert told[:4] == [
        ("plain", "a", 0.0),
        ("ngram", "a", 0.0),
        ("plain", "a", 1.0),
        ("ngram", "a", 1.0),
    ]
    assert [pool for pool, *_ in told[4:6]] == ["ngram", "plain"]
    assert [pool for pool, *_ in told[8:10]] == ["ngram", "plain"]
    for _, body in sent:
        assert (body["top_k"], body["max_tokens"], body["model"]) == (3, 11, "m")
        assert not body.get("stream")
        assert not {"stream_options", "max_completion_tokens"} & body.keys()
    ngram = next(s for s in samples if s.pool == "ngram")
    assert (ngram.steps, ngram.histogram) == (5.0, (1, 1, 2))
    assert next(s for s in samples if s.pool == "plain").steps == 10.0


def test_a_request_that_fails_is_named(server: tuple[str, type[Handler]]) -> None:
    url, handler = server
    handler.status = 403
    with pytest.raises(
        FleetError, match=r"Request warm-up failed on pool plain: .*403"
    ):
        measure(
            url,
            "m",
            ["plain"],
            REQUESTS,
            [0.0],
            rounds=1,
            max_tokens=2,
            progress=lambda sample: None,
        )
