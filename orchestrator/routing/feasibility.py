"""Which pools can serve a request at all, whatever the policy says."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.records import Features, PoolTraits

#: What vLLM samples with where the request sets none.
_DEFAULT_TEMPERATURE = 1.0


def _min_p(features: Features, pool: PoolTraits) -> str | None:
    if pool.speculative and features.min_p:
        return "vLLM refuses min_p on an engine with speculation"
    return None


def _logit_bias(features: Features, pool: PoolTraits) -> str | None:
    if pool.speculative and features.logit_bias:
        return "vLLM refuses logit_bias on an engine with speculation"
    return None


def _sampling(features: Features, pool: PoolTraits) -> str | None:
    temperature = features.temperature
    if temperature is None:
        temperature = _DEFAULT_TEMPERATURE
    if not pool.sampling and temperature > 0:
        return (
            f"sampling (temperature {temperature:g}) with speculation gives wrong text"
            " on this engine"
        )
    return None


#: Each tells why not, or None; the first that objects is the reason.
_RULES: tuple[Callable[[Features, PoolTraits], str | None], ...] = (
    _min_p,
    _logit_bias,
    _sampling,
)


def infeasible(features: Features, pool: PoolTraits) -> str | None:
    """Why the pool can't serve the request; None where it can."""
    for rule in _RULES:
        why = rule(features, pool)
        if why is not None:
            return why
    return None
