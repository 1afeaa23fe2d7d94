"""kill -9 on the real local fleet, under load: what each request in flight gets."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import psutil
import pytest
from ray.dashboard.modules.serve.sdk import ServeSubmissionClient

from orchestrator.serving.apply import UP
from tests.waiting import until

from .conftest import MODEL, LocalFleet

pytestmark = pytest.mark.engine

PROMPT = (
    "Translate into French: The captain reads the weather report. The crew checks the "
    "sails. The ship leaves the harbour at nine in the morning. Number {}."
)


@dataclass
class Answer:
    """What one client got."""

    pool: str
    stream: bool
    started: float
    status: int | None = None
    request_id: str | None = None
    events: list[str] = field(default_factory=list)
    #: Monotonic times of the first and of the last byte.
    first: float | None = None
    ended: float = 0.0
    #: Class of the exception where the connection broke.
    broken: str | None = None

    @property
    def error(self) -> dict[str, Any] | None:
        """The error event of a stream, or the error of a whole answer."""
        for event in self.events:
            if event.startswith('data: {"error"'):
                return dict(json.loads(event[6:])["error"])
        return None

    @property
    def complete(self) -> bool:
        """Whether the client got all that it asked for."""
        if self.status != 200 or self.broken or self.error:
            return False
        return not self.stream or self.events[-1] == "data: [DONE]"


def send(fleet: LocalFleet, pool: str, stream: bool, number: int) -> Answer:
    """One request for about four seconds of work, by rule to `pool`."""
    message = {"role": "user", "content": PROMPT.format(number)}
    body = {
        "model": MODEL,
        "messages": [message],
        # The default policy sends what is hot to `plain`.
        "temperature": 0.0 if pool == "ngram" else 1.0,
        "max_tokens": 48,
        "ignore_eos": True,
        "stream": stream,
    }
    answer = Answer(pool, stream, time.monotonic())
    try:
        with httpx.stream(
            "POST",
            f"{fleet.url}/v1/chat/completions",
            json=body,
            headers={"x-spec-class": "translation"},
            timeout=120,
        ) as response:
            answer.status = response.status_code
            answer.request_id = response.headers.get("x-request-id")
            for line in response.iter_lines():
                if line:
                    answer.first = answer.first or time.monotonic()
                    answer.events.append(line)
    except httpx.HTTPError as error:
        answer.broken = type(error).__name__
    answer.ended = time.monotonic()
    return answer


@contextmanager
def load(fleet: LocalFleet, threads: int = 10) -> Iterator[list[Answer]]:
    """Requests to both pools, streamed and whole, one after the other per thread."""
    answers: list[Answer] = []
    stop = threading.Event()

    def work(number: int) -> None:
        pool, stream = ("ngram", "plain")[number % 2], number % 4 < 2
        while not stop.is_set():
            answers.append(send(fleet, pool, stream, number))

    with ThreadPoolExecutor(threads) as executor:
        running: list[Future[None]] = [
            executor.submit(work, number) for number in range(threads)
        ]
        try:
            yield answers
        finally:
            stop.set()
            for future in running:
                future.result()


def replica_pids(fleet: LocalFleet, prefix: str) -> dict[str, int]:
    """Pids of the running replicas of a deployment, by replica id."""
    details = ServeSubmissionClient(fleet.dashboard).get_serve_details()
    return {
        replica["replica_id"]: replica["pid"]
        for name, deployment in details["applications"]["default"][
            "deployments"
        ].items()
        if name.startswith(prefix)
        for replica in deployment["replicas"]
        if replica["state"] in UP
    }


def engine_of(fleet: LocalFleet, pool: str) -> int:
    (replica,) = replica_pids(fleet, f"{pool}:").values()
    (engine,) = [
        child.pid
        for child in psutil.Process(replica).children()
        if "EngineCore" in " ".join(child.cmdline())
    ]
    return engine


def rows(fleet: LocalFleet) -> dict[str, list[dict[str, Any]]]:
    """All outcomes by request id."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in fleet.data.glob("outcomes/*.jsonl"):
        for line in file.read_text("utf-8").splitlines():
            row = json.loads(line)
            found.setdefault(row["request_id"], []).append(row)
    return found


def healthy(fleet: LocalFleet) -> bool:
    pools = httpx.get(f"{fleet.url}/health", timeout=30).json()["pools"]
    return bool(pools["plain"] and pools["ngram"])


def report(title: str, answers: list[Answer], killed: float) -> None:
    """Counts for the person who reads the log."""
    in_flight = [a for a in answers if a.started < killed < a.ended]
    print(
        f"\n{title}: {len(answers)} requests, {len(in_flight)} in flight at the kill; "
        f"complete {sum(a.complete for a in answers)}, "
        f"ended by an error event {sum(a.error is not None for a in answers)}, "
        f"connection broken {sum(a.broken is not None for a in answers)}"
    )


def test_an_engine_is_killed(fleet: LocalFleet) -> None:
    """Nobody loses more than the rest of a stream that had begun on that engine."""
    until(lambda: healthy(fleet))
    with load(fleet) as answers:
        time.sleep(12)
        os.kill(engine_of(fleet, "ngram"), signal.SIGKILL)
        killed = time.monotonic()
        time.sleep(12)
    report("engine killed", answers, killed)
    time.sleep(1)
    outcomes = rows(fleet)
    cut = 0
    for answer in answers:
        assert answer.status == 200
        assert answer.broken is None
        assert answer.request_id is not None
        (row,) = outcomes[answer.request_id]
        begun = answer.first is not None and answer.first < killed < answer.ended
        if answer.pool == "ngram" and answer.stream and begun and not answer.complete:
            cut += 1
            assert answer.error is not None
            assert answer.error["type"] == "server_error"
            assert answer.events[-1] == "data: [DONE]"
            assert (row["status"], row["pool"]) == ("error", "ngram")
            continue
        assert answer.complete
        assert row["status"] == "end"
        if row["failed_pool"] is not None:
            assert (row["failed_pool"], row["pool"]) == ("ngram", "plain")
            assert answer.started < killed + 1  # nobody is sent there any more
    retried = [a for a in answers if outcomes[a.request_id or ""][0]["failed_pool"]]
    assert cut + len(retried) > 0, "the kill hit no request: no proof"
    until(lambda: healthy(fleet))
    after = send(fleet, "ngram", True, 0)
    assert after.complete
    assert rows_of(fleet, after)[0]["pool"] == "ngram"


def rows_of(fleet: LocalFleet, answer: Answer) -> list[dict[str, Any]]:
    until(lambda: answer.request_id in rows(fleet), 10)
    return rows(fleet)[answer.request_id or ""]


def test_a_router_replica_is_killed(fleet: LocalFleet) -> None:
    """What was under way through it is lost, and is told; all else goes on."""
    before = replica_pids(fleet, "router")
    assert len(before) == 2
    with load(fleet) as answers:
        time.sleep(8)
        name, pid = sorted(before.items())[0]
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        time.sleep(8)
    report("router replica killed", answers, killed)
    time.sleep(1)
    outcomes = rows(fleet)
    for answer in answers:
        in_flight = answer.started < killed < answer.ended
        if answer.complete:
            # Outcomes are written together with those of the next moment.
            if not killed - 0.2 < answer.ended < killed:
                assert len(outcomes[answer.request_id or ""]) == 1
        else:
            assert in_flight, answer
            # The client is told at once, and does not wait for what never comes.
            assert answer.ended < killed + 5
            assert answer.broken or (answer.status or 0) >= 500
    assert any(not a.complete for a in answers), "the kill hit no request: no proof"
    until(lambda: len(replica_pids(fleet, "router")) == 2)
    assert name not in replica_pids(fleet, "router")
    status = until(lambda: full_status(fleet))
    assert status["consistent"] is True


def full_status(fleet: LocalFleet) -> dict[str, Any] | None:
    """The router's status once both replicas are in it."""
    status = httpx.get(f"{fleet.url}/router/status", timeout=30).json()
    return status if len(status["replicas"]) == 2 else None
