"""Counts of one ingress replica, for `/router/status`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.records import Outcome


class Tally:
    """Requests by class and pool, and by how they ended."""

    def __init__(self) -> None:
        self._routes: Counter[tuple[str, str]] = Counter()
        self._statuses: Counter[str] = Counter()

    def add(self, outcome: Outcome) -> None:
        """Count one outcome."""
        self._routes[outcome.request_class, outcome.pool] += 1
        self._statuses[outcome.status] += 1

    def status(self) -> dict[str, Any]:
        """`{by_class: {CLASS: {POOL: n}}, by_status: {STATUS: n}}`."""
        by_class: dict[str, dict[str, int]] = {}
        for (name, pool), count in sorted(self._routes.items()):
            by_class.setdefault(name, {})[pool] = count
        return {"by_class": by_class, "by_status": dict(sorted(self._statuses.items()))}


def add_up(counts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The counts of several replicas in one: nested mappings of numbers, summed.

    >>> add_up([{"end": 1, "by": {"code": 2}}, {"by": {"code": 1, "open": 1}}])
    {'end': 1, 'by': {'code': 3, 'open': 1}}
    """
    total: dict[str, Any] = {}
    for one in counts:
        for key, value in one.items():
            if isinstance(value, Mapping):
                total[key] = add_up([total.get(key, {}), value])
            else:
                total[key] = total.get(key, 0) + value
    return total
