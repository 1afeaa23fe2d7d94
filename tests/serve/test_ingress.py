"""The ingress on a real Ray Serve with a fake engine: routes, streams, outcomes."""

from __future__ import annotations

import copy
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI
from ray.dashboard.modules.serve.sdk import ServeSubmissionClient

from .conftest import POLICY, Fleet

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
    assert not fleet.outcomes(unknown.headers["x-request-id"])
    assert "`fake`" in unknown.json()["error"]["message"]


def test_a_refused_stream_is_an_error_outcome(fleet: Fleet) -> None:
    response = fleet.chat("boom", stream=True)
    assert response.status_code == 400
    (row,) = fleet.outcomes(response.headers["x-request-id"])
    assert (row["status"], row["http_status"]) == ("error", 400)


@pytest.mark.parametrize("stream", [False, True])
def test_a_crash_is_a_500_without_a_trace(fleet: Fleet, stream: bool) -> None:
    response = fleet.chat("crash", stream=stream)
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "The pool failed to answer."
    assert "secret" not in response.text
    assert response.headers["x-spec-pool"] in ("plain", "ngram")
    (row,) = fleet.outcomes(response.headers["x-request-id"])
    assert (row["status"], row["http_status"]) == ("error", 500)


def test_a_crash_in_a_stream_ends_it_with_an_error_event(fleet: Fleet) -> None:
    response = fleet.chat("fall 3", stream=True)
    events = [line for line in response.text.splitlines() if line]
    assert events[-1] == "data: [DONE]"
    assert json.loads(events[-2][6:])["error"]["type"] == "server_error"
    assert "secret" not in response.text
    assert sum("word" in event for event in events) == 3
    (row,) = fleet.outcomes(response.headers["x-request-id"])
    assert (row["status"], row["http_status"]) == ("error", 500)


def test_a_stream_without_done_has_ended_all_the_same(fleet: Fleet) -> None:
    response = fleet.chat("cut 3", stream=True)
    assert response.text.rstrip().endswith("data: [DONE]")
    (row,) = fleet.outcomes(response.headers["x-request-id"])
    assert row["status"] == "end"


def test_a_full_pool_is_passed_over_and_a_forced_one_says_when(fleet: Fleet) -> None:
    def small(**headers: str) -> httpx.Response:
        return fleet.chat("slow 120", headers={"x-team": "small", **headers})

    with ThreadPoolExecutor(8) as pool:
        first = []
        for _ in range(2):  # one runs, one waits
            first.append(pool.submit(small))
            time.sleep(1)
        third, forced = pool.submit(small), small(**{"x-spec-pool": "tiny"})
        assert forced.status_code == 503
        assert forced.headers["retry-after"] == "1"
        assert forced.json()["error"]["type"] == "server_error"
        assert third.result().headers["x-spec-pool"] == "plain"
        assert third.result().headers["x-spec-rule"] == "small"
        assert {f.result().headers["x-spec-pool"] for f in first} == {"tiny"}
    (row,) = fleet.outcomes(forced.headers["x-request-id"])
    assert (row["status"], row["http_status"]) == ("error", 503)
    (row,) = fleet.outcomes(third.result().headers["x-request-id"])
    assert (row["status"], row["pool"]) == ("end", "plain")


def test_a_number_written_as_text_is_no_way_around_feasibility(fleet: Fleet) -> None:
    assert fleet.chat(CODE, min_p="0.1").headers["x-spec-pool"] == "plain"


def test_an_error_in_a_stream_is_an_error_outcome(fleet: Fleet) -> None:
    response = fleet.chat("break 3", stream=True)
    (row,) = fleet.outcomes(response.headers["x-request-id"])
    assert (row["status"], row["error"]) == ("error", "server_error")


def test_a_body_that_is_too_large_is_refused(fleet: Fleet) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "x" * 5 * 2**20}]})
    chunks = (body.encode()[i : i + 2**20] for i in range(0, len(body), 2**20))
    for content in (body.encode(), chunks):  # with a length, and in chunks without
        response = fleet.client.post(
            "/v1/chat/completions",
            content=content,
            headers={"content-type": "application/json"},
        )
        assert response.status_code == 413
        assert "4 MiB" in response.json()["error"]["message"]
        assert "max_body_mib" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/v1/chat/completions", 405),
        ("GET", "/v1/models/other", 404),
        ("POST", "/v1/chat/completions", 400),
        ("POST", "/v1/completions", 400),
    ],
)
def test_every_error_has_openais_shape(
    fleet: Fleet, method: str, path: str, status: int
) -> None:
    response = fleet.client.request(method, path, json={"prompt": 7, "messages": 7})
    assert response.status_code == status
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error" or path.startswith("/v1/models")


def test_a_wrong_field_is_named_and_not_repeated(fleet: Fleet) -> None:
    response = fleet.chat("Hello", temperature="secret")
    assert response.json()["error"]["param"] == "temperature"
    assert "secret" not in response.text


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


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize"])
def test_a_field_that_an_endpoint_does_not_know_is_left_alone(
    fleet: Fleet, path: str
) -> None:
    body = {"prompt": "a b", "tokens": [1, 2], "stream": True}
    assert fleet.client.post(path, json=body).status_code == 200


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


NO_REQUESTS = [b"", b"nonsense", b"[1, 2]", b"\xff\xfe", b"[" * 100_000]


@pytest.mark.parametrize("content", NO_REQUESTS, ids=range(len(NO_REQUESTS)))
def test_explain_refuses_what_is_no_request(fleet: Fleet, content: bytes) -> None:
    response = fleet.client.post("/router/explain", content=content)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_explain_takes_text_that_is_no_unicode(fleet: Fleet) -> None:
    content = b'{"messages": [{"role": "user", "content": "\\ud800 \\u4f60"}]}'
    got = fleet.client.post("/router/explain", content=content)
    assert got.status_code == 200
    assert got.json()["decision"]["pool"] == "plain"


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


def test_a_new_policy_goes_live_and_restarts_nothing(
    fleet: Fleet, tmp_path: Path
) -> None:
    """Last in this file: it changes the policy, and puts it back."""
    client = ServeSubmissionClient(fleet.dashboard)

    def replicas() -> dict[str, list[str]]:
        deployments = client.get_serve_details()["applications"]["default"]
        return {
            name: [r["replica_id"] for r in d["replicas"]]
            for name, d in deployments["deployments"].items()
        }

    def deploy(policy: Any) -> dict[str, Any]:
        config = copy.deepcopy(fleet.config)
        config["applications"][0]["deployments"][0]["user_config"]["policy"] = policy
        before = status()["policy"]
        client.deploy_applications(config)
        for _ in range(100):
            if status()["policy"] != before:
                break
            time.sleep(0.1)
        return dict(status()["policy"])

    def status() -> dict[str, Any]:
        return dict(fleet.client.get("/router/status").json())

    running = replicas()
    good = {"name": "all-ngram", "otherwise": "ngram"}
    assert deploy(good)["name"] == "all-ngram"
    assert fleet.chat("Hello").headers["x-spec-pool"] == "ngram"
    bad = deploy({"name": "bad", "rules": [{"name": "x", "usee": "plain"}]})
    assert bad["name"] == "all-ngram"
    assert "did you mean `use`?" in bad["rejected"]["error"]
    assert fleet.chat("Hello").headers["x-spec-pool"] == "ngram"
    file = tmp_path / "mine.yaml"
    file.write_text("name: from-a-file\notherwise: tiny\n")
    assert deploy(str(file))["name"] == "from-a-file"
    assert fleet.chat("Hello").headers["x-spec-pool"] == "tiny"
    missing = deploy(str(tmp_path / "missing.yaml"))
    assert "no such file on the head node" in missing["rejected"]["error"]
    assert deploy(POLICY)["name"] == "test"
    assert replicas() == running
