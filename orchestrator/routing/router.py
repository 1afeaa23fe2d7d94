"""From a request's features and class to a pool: pure, no I/O, microseconds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from orchestrator.config.policy import Policy, policy_hash
from orchestrator.errors import InfeasibleError, PoolForbiddenError, RequestError
from orchestrator.records import (
    Decision,
    Features,
    PoolRights,
    PoolTraits,
    RequestClass,
    RuleTrace,
)
from orchestrator.routing.conditions import Compiled, compile_condition
from orchestrator.routing.feasibility import infeasible

FORCE_HEADER = "x-spec-pool"


@dataclass(frozen=True, slots=True)
class PoolTrace:
    """One pool as `explain` shows it."""

    pool: str
    method: str
    feasible: bool
    #: Why the pool can't serve the request; empty where it can.
    why: str
    #: None where the pools' health is not known.
    healthy: bool | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole way of a decision."""

    features: Features
    #: As the policy's own classes have it.
    request_class: RequestClass
    #: None where the request is refused; `error` says why.
    decision: Decision | None
    error: str | None
    rules: tuple[RuleTrace, ...]
    pools: tuple[PoolTrace, ...]


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    #: None: always.
    condition: Compiled | None
    pool: str

    def explain(self, features: Features, class_name: str) -> tuple[bool, str]:
        if self.condition is None:
            return True, "it has no condition"
        return self.condition.explain(features, class_name)


class Router:
    """A policy on a fleet's pools, compiled once and asked for every request."""

    def __init__(self, policy: Policy, traits: Mapping[str, PoolTraits]) -> None:
        self.policy = policy
        self.policy_hash = policy_hash(policy)
        self._traits = dict(traits)
        self._rules = [
            _Rule(r.name, compile_condition(r.when) if r.when else None, r.use.pool)
            for r in policy.rules
        ]
        self._classes = [(c.name, compile_condition(c.when)) for c in policy.classes]
        plain_first = sorted(self._traits, key=lambda p: self._traits[p].speculative)
        #: For each pool that the policy names: the pools to try, in order.
        self._chains = {
            pool: tuple(
                dict.fromkeys(
                    p
                    for p in (pool, *policy.fallback, *plain_first)
                    if p in self._traits
                )
            )
            for pool in policy.pools()
        }

    def effective_class(
        self, features: Features, request_class: RequestClass
    ) -> RequestClass:
        """The policy's own class where one holds, else the classifier's."""
        for name, condition in self._classes:
            if condition.test(features, request_class.name):
                _, why = condition.explain(features, request_class.name)
                return RequestClass(name, 1.0, (f"policy: {why}",))
        return request_class

    def decide(
        self,
        features: Features,
        request_class: RequestClass,
        *,
        healthy: Collection[str] | None = None,
        forced: str | None = None,
        may_force: PoolRights = (),
    ) -> Decision:
        """Pick the pool, and those to try after it.

        `healthy`: the pools that can take requests now, None where that is not known.
        `forced`: the pool that the client asks for. `may_force`: the pools that its key
        lets it choose where the policy lets nobody. Where no feasible pool is healthy
        the decision is as if all were.

        Raises:
            InfeasibleError: no pool of the fleet can serve the request.
            PoolForbiddenError: neither the policy nor the key lets the client choose.
            RequestError: the forced pool does not exist or can't serve the request.
        """
        if forced is not None:
            return self._forced(features, forced, may_force)
        class_name = self.effective_class(features, request_class).name
        rule, wanted = "otherwise", self.policy.otherwise.pool
        for candidate in self._rules:
            condition = candidate.condition
            if condition is None or condition.test(features, class_name):
                rule, wanted = candidate.name, candidate.pool
                break
        refused = {
            name: why
            for name, pool in self._traits.items()
            if (why := infeasible(features, pool)) is not None
        }
        feasible = [pool for pool in self._chains[wanted] if pool not in refused]
        if not feasible:
            raise _no_pool(refused)
        if healthy is not None:
            # Where none is healthy, that may be out of date: all may be tried.
            feasible = [pool for pool in feasible if pool in healthy] or feasible
        chosen = feasible[0]
        matched = rule != "otherwise"
        reason = f"rule {rule} matched" if matched else "no rule matched"
        if chosen != wanted:
            reason += f"; {self._passed_over(wanted, refused)}, so {chosen}"
        return Decision(
            pool=chosen,
            rule=rule,
            reason=reason,
            policy=self.policy.name,
            policy_hash=self.policy_hash,
            policy_version=self.policy.version,
            alternatives=tuple(feasible[1:]),
            propensities={chosen: 1.0},
        )

    def explain(
        self,
        features: Features,
        request_class: RequestClass,
        *,
        healthy: Collection[str] | None = None,
        forced: str | None = None,
        may_force: PoolRights = (),
    ) -> Explanation:
        """What `decide` would say, with every rule and pool that it looked at.

        A request that `decide` refuses is explained too, with the refusal as `error`.
        """
        decision, error = None, None
        try:
            decision = self.decide(
                features,
                request_class,
                healthy=healthy,
                forced=forced,
                may_force=may_force,
            )
        except RequestError as refusal:
            error = refusal.message
        effective = self.effective_class(features, request_class)
        return Explanation(
            features=features,
            request_class=effective,
            decision=decision,
            error=error,
            rules=self._trace_rules(features, effective.name, forced),
            pools=tuple(
                PoolTrace(
                    pool=name,
                    method=pool.method,
                    feasible=(why := infeasible(features, pool)) is None,
                    why=why or "",
                    healthy=None if healthy is None else name in healthy,
                )
                for name, pool in self._traits.items()
            ),
        )

    def _trace_rules(
        self, features: Features, class_name: str, forced: str | None
    ) -> tuple[RuleTrace, ...]:
        earlier = None if forced is None else f"the header {FORCE_HEADER}"
        traces = []
        for rule in self._rules:
            holds, why = rule.explain(features, class_name)
            if holds and earlier is not None:
                why = f"{earlier} comes first; would match: {why}"
                holds = False
            elif holds:
                earlier = f"rule {rule.name}"
            traces.append(RuleTrace(rule.name, holds, why))
        return tuple(traces)

    def _forced(self, features: Features, pool: str, may_force: PoolRights) -> Decision:
        by_key = may_force == "all" or pool in may_force
        if not (self.policy.allow_forced_pool or by_key):
            raise PoolForbiddenError(
                f"The policy {self.policy.name} does not let clients choose the pool,"
                f" and this request has no API key that allows pool {pool[:64]!r};"
                f" leave out the header {FORCE_HEADER}, or use a key with that right.",
                param=FORCE_HEADER,
            )
        if pool not in self._traits:
            names = ", ".join(self._traits)
            raise RequestError(
                f"There is no pool {pool[:64]!r}; the pools are: {names}.",
                param=FORCE_HEADER,
            )
        why = infeasible(features, self._traits[pool])
        if why is not None:
            raise RequestError(
                f"Pool {pool} can't serve this request: {why}.", param=FORCE_HEADER
            )
        return Decision(
            pool=pool,
            rule="forced",
            reason=f"the header {FORCE_HEADER} asks for it",
            policy=self.policy.name,
            policy_hash=self.policy_hash,
            policy_version=self.policy.version,
            propensities={pool: 1.0},
        )

    def _passed_over(self, pool: str, refused: Mapping[str, str]) -> str:
        if pool not in self._traits:
            return f"pool {pool} is not in this fleet"
        if pool in refused:
            return f"pool {pool} can't serve it: {refused[pool]}"
        return f"pool {pool} is not healthy"


def _no_pool(refused: Mapping[str, str]) -> InfeasibleError:
    reasons = "; ".join(f"{pool}: {why}" for pool, why in refused.items())
    return InfeasibleError(f"No pool can serve this request: {reasons}.")
