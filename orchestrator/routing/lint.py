"""Warnings about a policy: rules that can never decide, pools that are not there.

A rule is dead when its own condition can't hold, or when one earlier rule takes every
request that it would take. What is found is certain; not every dead rule is found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from orchestrator.config.base import Mistake, suggest
from orchestrator.config.condition import Condition
from orchestrator.config.policy import Policy
from orchestrator.routing.domains import Facts, facts_of


def dead_rules(policy: Policy) -> Iterator[Mistake]:
    """The rules and classes of the policy that no request can ever reach."""
    yield from _dead("classes", [(c.name, c.when) for c in policy.classes])
    yield from _dead("rules", [(rule.name, rule.when) for rule in policy.rules])


def unknown_pools(policy: Policy, pools: Collection[str]) -> Iterator[Mistake]:
    """Where the policy names a pool that the fleet does not have."""
    named: list[tuple[tuple[str | int, ...], str]] = [
        (("rules", i, "use"), rule.use.pool) for i, rule in enumerate(policy.rules)
    ]
    named.append((("otherwise",), policy.otherwise.pool))
    named += [(("fallback", i), pool) for i, pool in enumerate(policy.fallback)]
    for at, pool in named:
        if pool not in pools:
            text = f"the fleet has no pool `{pool}`; requests go to the fallback"
            yield Mistake(text, at, suggest(pool, pools))


def _dead(
    section: str, items: Sequence[tuple[str, Condition | None]]
) -> Iterator[Mistake]:
    for i, (name, when) in enumerate(items):
        facts = facts_of(when)
        cover = next((n for n, earlier in items[:i] if implies(facts, earlier)), None)
        impossible = facts.impossible
        if any(implies(facts, excluded) for excluded in facts.excluded):
            impossible = "its `not` excludes all that it asks for"
        if impossible:
            text = f"`{name}` can never match: {impossible}"
            yield Mistake(text, (section, i, "when"))
        elif cover is not None:
            text = f"`{name}` can never match: `{cover}` before it takes all it would"
            yield Mistake(text, (section, i), "move it up, or narrow the earlier one")


def implies(facts: Facts, condition: Condition | None) -> bool:
    """Whether every request with these facts meets the condition.

    True is certain; False may also mean that it could not be proven.
    """
    if facts.impossible:
        return True
    branches = facts.branches()
    if branches:
        return all(implies(branch, condition) for branch in branches)
    if condition is None:
        return True
    wanted = facts_of(condition, split=False)
    return (
        all(facts.within(field, tests) for field, tests in wanted.fields.items())
        and all(
            any(implies(facts, choice) for choice in choices)
            for choices in wanted.choices
        )
        and all(_excludes(facts, excluded) for excluded in wanted.excluded)
    )


def _excludes(facts: Facts, condition: Condition) -> bool:
    """Whether no request with these facts can meet the condition."""
    if facts.joined(condition).impossible:
        return True
    inner = facts_of(condition)
    return any(implies(inner, excluded) for excluded in facts.excluded)
