"""Which bodies are refused after engines died, and for how long."""

import pytest

from orchestrator.routing import quarantine
from orchestrator.routing.quarantine import KEEP_S, Quarantine


def test_one_death_refuses_nobody() -> None:
    guard = Quarantine()
    guard.died(b"x", "ngram", 1, 100.0)
    assert guard.refused_for(b"x", 100.0) is None


def test_the_second_death_refuses_that_body_for_a_while() -> None:
    guard = Quarantine()
    for pool, death in (("ngram", 1), ("plain", 2)):
        guard.died(b"x", pool, death, 100.0)
    guard.died(b"bystander", "ngram", 1, 100.0)
    assert guard.refused_for(b"x", 101.0) == KEEP_S - 1
    assert guard.refused_for(b"bystander", 101.0) is None
    assert guard.refused_for(b"other", 101.0) is None
    assert guard.refused_for(b"x", 100.0 + KEEP_S) is None


def test_equal_bodies_at_one_death_saw_one_death() -> None:
    guard = Quarantine()
    for i in range(32):
        guard.died(b"x", "ngram", 1, 100.0 + i / 100)
    assert guard.refused_for(b"x", 101.0) is None
    guard.died(b"x", "ngram", 1, 160.0)  # the pool was up again, and died again
    assert guard.refused_for(b"x", 160.0) is not None


def test_a_second_replica_of_the_same_pool_is_a_second_death() -> None:
    guard = Quarantine()
    guard.died(b"x", "ngram", 1, 100.0)
    guard.died(b"x", "ngram", 2, 100.5)
    assert guard.refused_for(b"x", 101.0) is not None


def test_old_deaths_do_not_count() -> None:
    guard = Quarantine()
    guard.died(b"x", "ngram", 1, 100.0)
    guard.died(b"x", "plain", 1, 101.0 + KEEP_S)
    assert guard.refused_for(b"x", 101.0 + KEEP_S) is None


def test_it_forgets_the_oldest_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quarantine, "CAPACITY", 2)
    guard = Quarantine()
    for body in (b"a", b"b", b"c"):
        guard.died(body, "ngram", 1, 100.0)
    for body in (b"a", b"c"):
        guard.died(body, "plain", 2, 101.0)
    assert guard.refused_for(b"a", 102.0) is None
    assert guard.refused_for(b"c", 102.0) is not None
