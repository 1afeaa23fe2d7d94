"""The ingress on a real Ray Serve with a fake engine: routes, streams, outcomes."""

from __future__ import annotations

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from openai import OpenAI

if TYPE_CHECKING:
    from .conftest import Fleet

pytestmark = pytest.mark.serve

CODE = "Write a Python function that adds two numbers."


def test_headers_say_where_and_why(fleet: Fleet) -> None:
    response = fleet.chat(CODE)
    assert response.status_code == 200
    assert response.headers["x-spec-class"] == "code"
    assert response.headers["x-spec-rule"] == "code"
    assert response.headers["x-spec-pool"] == "ngram"
    assert float(response.headers["x-spec-overhead-ms"]) > 0
    assert fleet.chat("Hello").headers["x-spec-rule"] == "otherwise"


def test_request_id_is_kept_or_made(fleet: Fleet) -> None:
    kept = fleet.chat("Hello", headers={"x-request-id": "mine-1"})
    assert kept.headers.get_list("x-request-id") == ["mine-1"]
    made = fleet.chat("Hello").headers["x-request-id"]
    assert made
    assert fleet.outcomes(made)


def test_hint_and_forced_pool(fleet: Fleet) -> None:
    hinted = fleet.chat("Hello", headers={"x-spec-class": "code"})
    assert hinted.headers["x-spec-pool"] == "ngram"
    forced = fleet.chat(CODE, headers={"x-spec-pool": "plain"})
    assert forced.headers["x-spec-pool"] == "plain"
    assert forced.headers["x-spec-rule"] == "forced"
    unknown = fleet.chat(CODE, headers={"x-spec-pool": "nowhere"})
    assert unknown.status_code == 400
    assert "plain" in unknown.json()["error"]["message"]


def test_an_infeasible_pool_is_passed_over(fleet: Fleet) -> None:
    assert fleet.chat(CODE).headers["x-spec-pool"] == "ngram"
    for parameter in ({"min_p": 0.1}, {"logit_bias": {"5": 1.0}}):
        response = fleet.chat(CODE, **parameter)
        assert response.headers["x-spec-rule"] == "code"
        assert response.headers["x-spec-pool"] == "plain"


def test_streams_end_with_done_and_hide_what_was_not_asked_for(fleet: Fleet) -> None:
    for asked in (False, True):
        options = {"stream_options": {"include_usage": True}} if asked else {}
        response = fleet.chat(CODE, stream=True, **options)
        assert response.headers["x-spec-pool"] == "ngram"
        events = [line for line in response.text.splitlines() if line]
        assert events[-1] == "data: [DONE]"
        chunks = [json.loads(event[6:]) for event in events[:-1]]
        assert len([c for c in chunks if c["choices"]]) == 5
        assert any("usage" in c for c in chunks) is asked
        (row,) = fleet.outcomes(response.headers["x-request-id"])
        assert row["completion_tokens"] == 5
        assert row["acceptance_histogram"] == [1, 0, 1]
        assert row["effective_tokens"] == pytest.approx(2.0)
        assert row["ttft_s"] > 0
        assert row["stream"] is True


def test_a_whole_answer_is_recorded_once(fleet: Fleet) -> None:
    response = fleet.chat(CODE)
    time.sleep(0.3)
    (row,) = fleet.outcomes(response.headers["x-request-id"])
    assert (row["status"], row["http_status"]) == ("end", 200)
    assert (row["pool"], row["method"], row["rule"]) == ("ngram", "ngram", "code")
    assert (row["drafts"], row["accepted"]) == (4, 2)
    assert row["policy"] == "test"
    assert row["ttft_s"] is None


def test_chunks_come_as_the_engine_makes_them(fleet: Fleet) -> None:
    """Ray's batching of chunks is off: words made 50 ms apart arrive apart."""
    message = {"role": "user", "content": "slow 6"}
    body = {"model": "fake", "messages": [message], "stream": True}
    times = []
    with fleet.client.stream("POST", "/v1/chat/completions", json=body) as response:
        times = [time.monotonic() for line in response.iter_lines() if "word" in line]
    assert len(times) == 6
    assert times[-1] - times[0] > 0.15


def test_a_client_that_leaves_is_recorded_as_cancelled(fleet: Fleet) -> None:
    message = {"role": "user", "content": "slow 100"}
    body = {"model": "fake", "messages": [message], "stream": True}
    with fleet.client.stream("POST", "/v1/chat/completions", json=body) as response:
        next(response.iter_lines())
    (row,) = fleet.outcomes(response.headers["x-request-id"])
    assert (row["status"], row["http_status"]) == ("cancel", 499)
    assert row["total_s"] < 3


def test_errors_are_recorded_and_have_openais_shape(fleet: Fleet) -> None:
    refused = fleet.chat("boom")
    assert refused.status_code == 400
    assert set(refused.json()["error"]) == {"message", "type", "param", "code"}
    assert refused.headers["x-spec-pool"] == "plain"
    (row,) = fleet.outcomes(refused.headers["x-request-id"])
    assert (row["status"], row["error"]) == ("error", "BadRequestError")
    unknown = fleet.client.post(
        "/v1/chat/completions", json={"model": "other", "messages": []}
    )
    assert unknown.status_code == 404
    assert "other" in unknown.json()["error"]["message"]


def test_an_error_in_a_stream_is_an_error_outcome(fleet: Fleet) -> None:
    response = fleet.chat("break 3", stream=True)
    (row,) = fleet.outcomes(response.headers["x-request-id"])
    assert (row["status"], row["error"]) == ("error", "engine_error")


def test_one_outcome_each_under_load(fleet: Fleet) -> None:
    def one(i: int) -> str:
        verb = ("words 3", "slow 4", "boom")[i % 3]
        response = fleet.chat(verb, stream=bool(i % 2))
        return response.headers["x-request-id"]

    with ThreadPoolExecutor(16) as pool:
        ids = list(pool.map(one, range(120)))
    time.sleep(0.5)
    counts = Counter(len(fleet.outcomes(i)) for i in ids)
    assert counts == {1: 120}


def test_completions_and_the_openai_client(fleet: Fleet) -> None:
    client = OpenAI(base_url=f"{fleet.url}/v1", api_key="none", max_retries=0)
    assert [m.id for m in client.models.list().data] == ["fake"]
    assert client.models.retrieve("fake").id == "fake"
    answer = client.completions.create(model="fake", prompt="words 4")
    assert answer.choices[0].text.split() == ["word"] * 4
    stream = client.completions.create(model="fake", prompt="words 3", stream=True)
    assert sum(len(chunk.choices) for chunk in stream) == 3
    chat: Any = client.chat.completions.create(
        model="fake", messages=[{"role": "user", "content": "words 2"}], stream=True
    )
    assert sum(len(chunk.choices) for chunk in chat) == 2


def test_explain_runs_nothing(fleet: Fleet) -> None:
    before = fleet.client.get("/router/status").json()["counts"]["by_status"]
    body = {"messages": [{"role": "user", "content": CODE}], "min_p": 0.2}
    got = fleet.client.post("/router/explain", json=body).json()
    assert got["request_class"]["name"] == "code"
    assert got["request_class"]["signals"]
    assert got["decision"]["pool"] == "plain"
    assert [r["rule"] for r in got["rules"] if r["matched"]] == ["code"]
    assert all(r["why"] for r in got["rules"])
    infeasible = {p["pool"]: p["why"] for p in got["pools"] if not p["feasible"]}
    assert "min_p" in infeasible["ngram"]
    after = fleet.client.get("/router/status").json()["counts"]["by_status"]
    assert before == after


@pytest.mark.parametrize("content", [b"", b"nonsense", b"[1, 2]", b"\xff\xfe"])
def test_explain_refuses_what_is_no_request(fleet: Fleet, content: bytes) -> None:
    response = fleet.client.post("/router/explain", content=content)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_status(fleet: Fleet) -> None:
    fleet.chat(CODE)
    got = fleet.client.get("/router/status").json()
    assert got["model"] == "fake"
    assert got["policy"]["name"] == "test"
    assert len(got["policy"]["hash"]) == 12
    assert got["policy"]["rejected"] is None
    assert got["pools"]["ngram"]["speculation"]["method"] == "ngram"
    assert all(p["healthy"] for p in got["pools"].values())
    assert got["counts"]["by_class"]["code"]["ngram"] >= 1
    assert "ingress replica" in got["counts"]["scope"]


def test_ray_exports_our_metrics(fleet: Fleet) -> None:
    import ray

    fleet.chat(CODE)
    port = ray.nodes()[0]["MetricsExportPort"]
    for _ in range(40):
        page = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text
        if "ray_orchestrator_draft_tokens_total" in page:
            break
        time.sleep(0.5)
    line = next(
        line
        for line in page.splitlines()
        if line.startswith("ray_orchestrator_requests_total")
    )
    assert 'class="' in line
    assert 'pool="' in line
    assert "ray_orchestrator_ttft_seconds_bucket" in page
