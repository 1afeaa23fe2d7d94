"""A node dies while requests run: what every client gets, and that the pool heals."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product

import pytest

from .conftest import CLASS, Answer, TwoNodes, wait_until

pytestmark = pytest.mark.cluster

#: `slow` ones take 50 ms for each word.
QUICK, SLOW, LONG = "words 4", "slow 10", "slow 60"

ANY_POOL = {"answered by ngram", "answered by plain"}
#: What may become of a request that the rules send to the pool on the dying node.
PROMISES = {
    ("before", "whole"): {"answered by ngram"},
    ("before", "stream"): {"answered by ngram"},
    ("in flight", "whole"): ANY_POOL,
    ("in flight", "stream"): {*ANY_POOL, "broken off"},
    ("without", "whole"): {"answered by plain"},
    ("without", "stream"): {"answered by plain"},
    ("healing", "whole"): ANY_POOL,
    ("healing", "stream"): ANY_POOL,
    ("healed", "whole"): {"answered by ngram"},
    ("healed", "stream"): {"answered by ngram"},
}


@dataclass(frozen=True)
class Times:
    """The moments of the test, on the clock of the answers, in seconds."""

    kill: float
    killed: float
    added: float
    healed: float

    def phase(self, answer: Answer) -> tuple[str, str]:
        """When a request was under way, and its kind: a key of PROMISES."""
        kind = "stream" if answer.stream else "whole"
        if answer.ended < self.kill:
            return "before", kind
        if answer.begun < self.killed:
            return "in flight", kind
        if answer.ended < self.added:
            return "without", kind
        return ("healing" if answer.begun < self.healed else "healed"), kind


class Load:
    """Requests of each kind to both pools, one after the other, until `end`."""

    def __init__(self, fleet: TwoNodes) -> None:
        self._fleet = fleet
        self._stop = threading.Event()
        self._threads = ThreadPoolExecutor(8)
        self._clients = [
            self._threads.submit(self._repeat, pool, text, stream)
            for pool, text, stream in product(CLASS, (QUICK, SLOW), (False, True))
        ]

    def _repeat(self, pool: str, text: str, stream: bool) -> list[Answer]:
        answers = []
        while not self._stop.wait(0.2):
            answers.append(self._fleet.chat(pool, text, stream=stream))
        return answers

    def end(self) -> list[Answer]:
        self._stop.set()
        return [answer for client in self._clients for answer in client.result()]


def test_requests_go_on_when_a_node_dies(two_nodes: TwoNodes) -> None:
    (other,) = two_nodes.nodes("ngram")
    assert two_nodes.nodes("plain") == [two_nodes.head] != [other]
    assert set(two_nodes.nodes("router")) == {two_nodes.head, other}

    load = Load(two_nodes)
    time.sleep(3)
    with ThreadPoolExecutor(8) as threads:
        under_way = []
        for pool in CLASS:
            for stream in (True, True, False):
                word = threading.Event()
                sent = threads.submit(
                    two_nodes.chat, pool, LONG, stream=stream, on_word=word.set
                )
                under_way.append(sent)
                assert not stream or word.wait(10)
        time.sleep(0.5)  # the whole answers have no first word to wait for
        kill = time.monotonic()
        two_nodes.kill_node()
        killed = time.monotonic()
        passed_over = wait_until(lambda: not two_nodes.chosen("ngram"))
        long = [sent.result() for sent in under_way]
    time.sleep(3)
    added = time.monotonic()
    two_nodes.add_node()
    heals = wait_until(lambda: two_nodes.chosen("ngram"))
    times = Times(kill, killed, added, time.monotonic())
    time.sleep(3)
    answers = [*load.end(), *long]

    for kind, count in sorted(
        Counter((a.wanted, *times.phase(a), a.how) for a in answers).items()
    ):
        print(f"{count:4}", *kind)
    hit = [a for a in answers if a.wanted == "ngram" and kill < a.ended < added]
    print(f"The routers chose the dead pool for {passed_over:.1f} s.")
    print(f"Its slowest request took {max(a.ended - a.begun for a in hit):.1f} s.")
    print(f"They chose it again {heals:.1f} s after a new node came.")

    # The pool that lives answers all that is meant for it.
    assert {a.how for a in answers if a.wanted == "plain"} == {"answered by plain"}
    for phase, promised in PROMISES.items():
        ends = {
            a.how for a in answers if a.wanted == "ngram" and times.phase(a) == phase
        }
        assert ends, phase
        assert ends <= promised, phase
    # A whole answer can be asked for again; a stream that has begun can't.
    assert Counter((a.wanted, a.stream, a.how) for a in long) == {
        ("plain", True, "answered by plain"): 2,
        ("plain", False, "answered by plain"): 1,
        ("ngram", True, "broken off"): 2,
        ("ngram", False, "answered by plain"): 1,
    }
    for answer in answers:
        if answer.how == "broken off":
            assert answer.words > 0
            assert answer.error is not None
            assert answer.error["type"] == "server_error"
            assert set(answer.error) == {"message", "type", "param", "code"}

    # One outcome each, and it says what the client saw.
    wait_until(lambda: len(two_nodes.outcomes()) >= len(answers))
    rows = two_nodes.outcomes()
    assert Counter(row["request_id"] for row in rows) == Counter(a.id for a in answers)
    recorded = {row["request_id"]: row for row in rows}
    for answer in answers:
        row = recorded[answer.id]
        if answer.how == "broken off":
            assert (row["status"], row["pool"]) == ("error", "ngram")
        else:
            assert (row["status"], f"answered by {row['pool']}") == ("end", answer.how)
    (again,) = [a for a in long if a.wanted == "ngram" and not a.stream]
    assert recorded[again.id]["failed_pool"] == "ngram"
