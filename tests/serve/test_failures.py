"""Failures of pools, on a real Ray Serve with engines that fail when asked to."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest
from ray.dashboard.modules.serve.sdk import ServeSubmissionClient

from orchestrator.serving.apply import UP
from tests.waiting import until

from .conftest import Fleet

pytestmark = pytest.mark.serve

#: Goes to `ngram` by rule, and may be answered by `plain`.
TO_NGRAM = {"x-spec-class": "code"}
TO_TINY = {"x-spec-pool": "tiny"}


def all_healthy(fleet: Fleet) -> bool:
    pools = fleet.client.get("/health").json()["pools"]
    return all(pools.values())


def replicas(fleet: Fleet, pool: str) -> list[tuple[str, int]]:
    """Id and pid of the pool's running replicas."""
    client = ServeSubmissionClient(fleet.dashboard)
    deployments = client.get_serve_details()["applications"]["default"]["deployments"]
    (found,) = (d for name, d in deployments.items() if name.startswith(f"{pool}:"))
    return [(r["replica_id"], r["pid"]) for r in found["replicas"] if r["state"] in UP]


def leave(fleet: Fleet, *, stream: bool) -> None:
    """Ask the pool that takes one request at a time for ten seconds, and go away."""
    message = {"role": "user", "content": "slow 200"}
    body = {"model": "fake", "messages": [message], "stream": stream}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{fleet.url}/v1/chat/completions", json=body, headers=TO_TINY, timeout=1
        )


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_slot(fleet: Fleet, stream: bool) -> None:
    if stream:
        message = {"role": "user", "content": "slow 200"}
        body = {"model": "fake", "messages": [message], "stream": True}
        with fleet.client.stream(
            "POST", "/v1/chat/completions", json=body, headers=TO_TINY
        ) as response:
            next(response.iter_lines())
    else:
        leave(fleet, stream=False)
    after = fleet.chat("Hello", headers=TO_TINY)
    assert after.status_code == 200
    (row,) = fleet.outcomes(after.headers["x-request-id"])
    assert row["total_s"] < 5  # the slot would have been taken for ten


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("verb", ["crash", "break 1"])
def test_a_failure_before_the_first_byte_costs_a_retry(
    fleet: Fleet, verb: str, stream: bool
) -> None:
    if verb == "break 1" and not stream:
        verb = "boom500"
    response = fleet.chat(f"{verb}\nonly ngram", stream=stream, headers=TO_NGRAM)
    assert response.status_code == 200
    assert response.headers["x-spec-pool"] == "plain"
    assert "word" in response.text
    (row,) = fleet.outcomes(response.headers["x-request-id"])
    assert (row["status"], row["pool"], row["failed_pool"]) == ("end", "plain", "ngram")
    assert (row["method"], row["rule"]) == ("none", "code")


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_that_fails_everywhere_is_tried_twice(
    fleet: Fleet, stream: bool
) -> None:
    response = fleet.chat("crash", stream=stream, headers=TO_NGRAM)
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "The pool failed to answer."
    assert "secret" not in response.text
    (row,) = fleet.outcomes(response.headers["x-request-id"])
    assert (row["pool"], row["failed_pool"]) == ("plain", "ngram")
    assert row["error"] == "RayTaskError(RuntimeError)"


def test_an_error_of_the_request_in_a_stream_has_its_own_status(fleet: Fleet) -> None:
    response = fleet.chat("wrong", stream=True, headers=TO_NGRAM)
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "no such"
    (row,) = fleet.outcomes(response.headers["x-request-id"])
    assert (row["pool"], row["failed_pool"], row["http_status"]) == ("ngram", None, 400)


def test_an_engine_that_dies_takes_nobody_with_it(fleet: Fleet) -> None:
    """Streams end with an error event; whole answers come from the next pool."""
    before = replicas(fleet, "ngram")

    def bystander(stream: bool) -> httpx.Response:
        return fleet.chat("slow 60", stream=stream, headers=TO_NGRAM)

    with ThreadPoolExecutor(12) as pool:
        streams = [pool.submit(bystander, True) for _ in range(5)]
        whole = [pool.submit(bystander, False) for _ in range(5)]
        time.sleep(1.5)
        killer = fleet.chat("die 0\nonly ngram", headers=TO_NGRAM)
        # From here on nobody is sent there: not one of these fails and is retried.
        time.sleep(1)
        later = [fleet.chat("Hello", headers=TO_NGRAM) for _ in range(20)]
    assert (killer.status_code, killer.headers["x-spec-pool"]) == (200, "plain")
    for response in (f.result() for f in streams):
        events = [line for line in response.text.splitlines() if line]
        assert (response.status_code, events[-1]) == (200, "data: [DONE]")
        error = json.loads(events[-2][6:])["error"]
        assert error["message"] == "The pool failed; the answer is not complete."
        assert set(error) == {"message", "type", "param", "code"}
        (row,) = fleet.outcomes(response.headers["x-request-id"])
        assert (row["status"], row["pool"], row["failed_pool"]) == (
            "error",
            "ngram",
            None,
        )
    for response in (f.result() for f in whole):
        assert (response.status_code, response.headers["x-spec-pool"]) == (200, "plain")
        (row,) = fleet.outcomes(response.headers["x-request-id"])
        assert (row["status"], row["failed_pool"]) == ("end", "ngram")
    for response in later:
        assert (response.status_code, response.headers["x-spec-pool"]) == (200, "plain")
        (row,) = fleet.outcomes(response.headers["x-request-id"])
        assert row["failed_pool"] is None
    assert not [pid for _, pid in before if psutil.pid_exists(pid)]
    until(lambda: all_healthy(fleet))
    assert fleet.chat("Hello", headers=TO_NGRAM).headers["x-spec-pool"] == "ngram"
    assert {r for r, _ in replicas(fleet, "ngram")}.isdisjoint(r for r, _ in before)


def test_a_process_that_ends_costs_a_retry(fleet: Fleet) -> None:
    response = fleet.chat("exit\nonly ngram", stream=True, headers=TO_NGRAM)
    assert response.status_code == 200
    assert response.headers["x-spec-pool"] == "plain"
    (row,) = fleet.outcomes(response.headers["x-request-id"])
    assert (row["status"], row["failed_pool"]) == ("end", "ngram")
    until(lambda: all_healthy(fleet))


def test_a_request_that_kills_engines_is_stopped_after_two(fleet: Fleet) -> None:
    """Last in this file: for a while two of the three pools are dead."""
    tiny = replicas(fleet, "tiny")
    first = fleet.chat("die 0", headers=TO_NGRAM)
    assert first.status_code == 503
    assert first.headers["retry-after"] == "1"
    (row,) = fleet.outcomes(first.headers["x-request-id"])
    assert (row["pool"], row["failed_pool"]) == ("plain", "ngram")
    again = fleet.chat("die 0", headers=TO_NGRAM)
    assert again.status_code == 422
    assert again.json()["error"]["code"] == "quarantined"
    forced = fleet.chat("die 0", headers=TO_TINY)
    assert forced.status_code == 422
    time.sleep(1)
    # Everybody else goes on, on the pool that is left.
    other = fleet.chat("Hello", headers=TO_NGRAM)
    assert (other.status_code, other.headers["x-spec-pool"]) == (200, "tiny")
    # A pool that is down says so at once, where no other may stand in for it.
    down = fleet.chat("Hello", headers={"x-spec-pool": "plain"})
    assert (down.status_code, down.headers["retry-after"]) == (503, "1")
    assert replicas(fleet, "tiny") == tiny
    until(lambda: all_healthy(fleet))
    assert fleet.chat("Hello", headers=TO_NGRAM).headers["x-spec-pool"] == "ngram"
