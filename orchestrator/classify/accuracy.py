"""How often the classifier is right: counts of (label, predicted) and what they say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Confusion counts: how many requests with this label were given that class."""

    counts: Counter[tuple[str, str]]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Accuracy:
        """From (label, predicted class) of each request."""
        return cls(Counter(pairs))

    @property
    def labels(self) -> list[str]:
        """The labels that occur, sorted."""
        return sorted({label for label, _ in self.counts})

    def n(self, label: str | None = None) -> int:
        """Requests with this label, or all."""
        return sum(n for (true, _), n in self.counts.items() if label in (None, true))

    def share(self, label: str | None = None) -> float | None:
        """Share of right answers, 0..1; None where there are no requests."""
        total = self.n(label)
        right = sum(
            n
            for (true, predicted), n in self.counts.items()
            if true == predicted and label in (None, true)
        )
        return right / total if total else None

    def confusion(self, label: str) -> dict[str, int]:
        """What the requests with this label were taken for, most often first."""
        of_label = Counter({p: n for (t, p), n in self.counts.items() if t == label})
        return dict(of_label.most_common())

    def as_json(self) -> dict[str, Any]:
        """Accuracy, `by_class` (n and accuracy), `confusion` (label -> class -> n)."""
        return {
            "accuracy": self.share(),
            "by_class": {
                label: {"n": self.n(label), "accuracy": self.share(label)}
                for label in self.labels
            },
            "confusion": {label: self.confusion(label) for label in self.labels},
        }
