"""Remembers the requests that were in flight when engines died, and refuses killers."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field

#: A body that was in flight at this many deaths is refused.
DEATHS = 2
#: Seconds for which a death counts, and for which the body is refused after the last.
KEEP_S = 600.0
#: Equal bodies that fail within this many seconds saw one and the same death: that of a
#: node shows for several.
TOGETHER_S = 30.0
#: Bodies that are remembered; a death under load has some hundreds in flight.
CAPACITY = 10_000


@dataclass(slots=True)
class _Suspect:
    #: When each death was, by its pool and by which it was of the request's own.
    deaths: dict[tuple[str, int], float] = field(default_factory=dict)
    count: int = 0
    last: float = 0.0


class Quarantine:
    """Keeps one request from taking down pool after pool.

    A request can be what kills an engine, and a client sends it again. Of all requests
    in flight at one death nobody can tell which it was; the one that was there at two
    is refused for a while, wherever it comes from. Bodies are kept as SHA-256 only.

    Times are seconds on any clock that does not go back.
    """

    def __init__(self) -> None:
        self._suspects: OrderedDict[bytes, _Suspect] = OrderedDict()

    def died(self, body: bytes, pool: str, death: int, now: float) -> None:
        """Note that an engine of `pool` died with `body` in flight.

        `death` counts those that the request has met, from 1: its second, in the same
        pool, is another engine's.
        """
        self._forget(now)
        digest = hashlib.sha256(body).digest()
        suspect = self._suspects.setdefault(digest, _Suspect())
        seen = suspect.deaths.get((pool, death))
        if seen is None or now - seen > TOGETHER_S:
            suspect.count += 1
            suspect.deaths[pool, death] = now
        suspect.last = now
        self._suspects.move_to_end(digest)
        while len(self._suspects) > CAPACITY:
            self._suspects.popitem(last=False)

    def refused_for(self, body: bytes, now: float) -> float | None:
        """Seconds for which this body is refused from now; None where it is not."""
        if not self._suspects:  # as nearly always: nothing to hash
            return None
        suspect = self._suspects.get(hashlib.sha256(body).digest())
        if suspect is None or suspect.count < DEATHS:
            return None
        left = suspect.last + KEEP_S - now
        return left if left > 0 else None

    def _forget(self, now: float) -> None:
        """Drop what is too old to count; the oldest come first."""
        while self._suspects:
            digest, suspect = next(iter(self._suspects.items()))
            if suspect.last + KEEP_S > now:
                return
            del self._suspects[digest]
