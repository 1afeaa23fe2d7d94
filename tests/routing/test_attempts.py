"""The order of a request's tries."""

from collections.abc import Collection

from orchestrator.routing.attempts import Attempts


def tries(pools: list[str], *, down: Collection[str] = (), fails: int = 0) -> list[str]:
    """The pools it is sent to, where the first `fails` fail and the others are full."""
    attempts, seen = Attempts(pools), []
    while (pool := attempts.next(lambda p: p not in down)) is not None:
        assert attempts.pool == pool
        seen.append(pool)
        if len(seen) <= fails and not attempts.may_retry():
            break
    return seen


def test_full_pools_are_passed_over_each_once() -> None:
    assert tries(["a", "b", "c"]) == ["a", "b", "c"]


def test_pools_without_a_replica_are_not_tried() -> None:
    assert tries(["a", "b", "c"], down={"a", "c"}) == ["b"]
    assert tries(["a"], down={"a"}) == []


def test_a_failure_is_retried_once() -> None:
    assert tries(["a", "b", "c"], fails=9) == ["a", "b"]
    assert tries(["a", "b", "c"], fails=1) == ["a", "b", "c", "a"]


def test_where_no_other_pool_is_left_another_replica_is_tried() -> None:
    assert tries(["a"], fails=9) == ["a", "a"]
    assert tries(["a", "b"], fails=9, down={"b"}) == ["a", "a"]


def test_the_pool_that_failed_is_named() -> None:
    attempts = Attempts(["a", "b"])
    assert attempts.failed is None
    attempts.next(lambda p: p == "b")
    assert attempts.may_retry()
    assert attempts.failed == "b"
    assert not attempts.may_retry()
