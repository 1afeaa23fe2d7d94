"""Which pool a request tries next: full ones are passed over, one failure retried."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence


class Attempts:
    """One request's way along the pools of its decision.

    >>> attempts = Attempts(["ngram", "plain"])
    >>> attempts.next(lambda pool: True), attempts.may_retry()
    ('ngram', True)
    >>> attempts.next(lambda pool: True), attempts.may_retry()
    ('plain', False)

    Args:
        pools: the decision's pool and its alternatives, best first.
    """

    def __init__(self, pools: Sequence[str]) -> None:
        self._left = deque(pools)
        #: The pool that is tried now.
        self.pool = ""
        #: The pool that failed before the first byte.
        self.failed: str | None = None

    def next(self, has_replica: Callable[[str], bool]) -> str | None:
        """The next pool that has a replica; None where none is left."""
        while self._left:
            pool = self._left.popleft()
            if has_replica(pool):
                self.pool = pool
                return pool
        return None

    def may_retry(self) -> bool:
        """Note that the pool failed; whether another may be tried.

        Once only: the request itself may be what kills engines. Where no other pool is
        left, it is another replica of the same one.
        """
        if self.failed is not None:
            return False
        self.failed = self.pool
        self._left.append(self.pool)
        return True
