"""Exports outcomes as Prometheus metrics through ray.util.metrics.

Labels are class, pool, status and kind: bounded sets. Useful questions in PromQL (Ray
prefixes every name with `ray_`):

- requests per second by class and pool:
  `sum by (class, pool) (rate(ray_orchestrator_requests_total[5m]))`
- acceptance rate by class:
  `sum by (class) (rate(ray_orchestrator_accepted_tokens_total[5m]))
  / sum by (class) (rate(ray_orchestrator_draft_tokens_total[5m]))`
- 95th percentile of the time to first token:
  `histogram_quantile(0.95,
  sum by (le) (rate(ray_orchestrator_ttft_seconds_bucket[5m])))`
"""

from __future__ import annotations

from ray.util.metrics import Counter, Histogram

from orchestrator.records import Outcome

_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120]
_TPOT = [0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5]
_OVERHEAD = [50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3]
_LABELS = ("class", "pool")


class OutcomeMetrics:
    """One instance for each ingress replica; `observe` costs some microseconds."""

    def __init__(self) -> None:
        self.requests = Counter(
            "orchestrator_requests",
            description="Requests by how they ended",
            tag_keys=(*_LABELS, "status"),
        )
        self.failures = Counter(
            "orchestrator_pool_failures",
            description="Answers that a pool failed to give, retried ones too",
            tag_keys=("pool", "kind"),
        )
        self.counters = {
            name: Counter(f"orchestrator_{name}", description=text, tag_keys=_LABELS)
            for name, text in (
                ("completion_tokens", "Tokens generated"),
                ("draft_tokens", "Draft tokens proposed"),
                ("accepted_tokens", "Draft tokens accepted"),
            )
        }
        self.histograms = {
            name: Histogram(
                f"orchestrator_{name}_seconds",
                description=text,
                boundaries=bounds,
                tag_keys=_LABELS,
            )
            for name, text, bounds in (
                ("ttft", "Time to first token of streams", _SECONDS),
                ("tpot", "Time per output token of streams", _TPOT),
                ("total", "Time of a whole request", _SECONDS),
                ("overhead", "Time to classify and decide", _OVERHEAD),
            )
        }

    def failed(self, pool: str, kind: str) -> None:
        """Count a failure: `died` with the replica or its engine, or `failed`."""
        self.failures.inc(tags={"pool": pool, "kind": kind})

    def observe(self, outcome: Outcome) -> None:
        """Count one outcome."""
        labels = {"class": outcome.request_class, "pool": outcome.pool}
        self.requests.inc(tags={**labels, "status": outcome.status})
        for name, count in (
            ("completion_tokens", outcome.completion_tokens),
            ("draft_tokens", outcome.drafts),
            ("accepted_tokens", outcome.accepted),
        ):
            if count:
                self.counters[name].inc(count, tags=labels)
        for name, seconds in (
            ("ttft", outcome.ttft_s),
            ("tpot", outcome.tpot_s),
            ("total", outcome.total_s),
            ("overhead", outcome.overhead_s),
        ):
            if seconds is not None:
                self.histograms[name].observe(seconds, tags=labels)
