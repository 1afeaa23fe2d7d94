"""Warnings: what is said never to match never does; the clear cases are found."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.config.policy import Policy, parse_policy
from orchestrator.records import CLASSES, Features
from orchestrator.routing.conditions import compile_condition
from orchestrator.routing.lint import dead_rules, unknown_pools
from tests.strategies import policies, requests


def warnings(*whens: str) -> list[str]:
    rules = "".join(
        f"  - {{name: r{i}, {f'when: {when}, ' if when else ''}use: ngram}}\n"
        for i, when in enumerate(whens)
    )
    policy = parse_policy(f"name: p\nrules:\n{rules}otherwise: plain\n")
    return [mistake.message for mistake in dead_rules(policy)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("", "{class: code}"),
        ("{class: code}", "{class: code}"),
        ("{class: code}", "{class: code, temperature: 0}"),
        ("{class: [code, open]}", "{class: code}"),
        ("{temperature: {gte: 0.5}}", "{temperature: {gte: 0.9}}"),
        ("{temperature: {gte: 0.5}}", "{temperature: {gt: 0.5}}"),
        ("{temperature: {lt: 1}}", "{temperature: {between: [0, 0.5]}}"),
        ("{temperature: {present: true}}", "{temperature: {gte: 0.9}}"),
        ("{any: [{class: code}, {class: open}]}", "{class: open}"),
        ("{class: [code, open]}", "{any: [{class: code}, {class: open}]}"),
        ("{not: {class: code}}", "{class: open}"),
        ("{not: {class: code}}", "{class: open, not: {class: code}}"),
        ("{not: {class: code}}", "{not: {class: [code, open]}}"),
        ("{all: [{stream: true}]}", "{stream: true, class: code}"),
        ("{header: {x-a: [a, b]}}", "{header: {X-A: a}}"),
        ("{last_message: {matches: a}}", "{last_message: {matches: a}, class: code}"),
        ("{system_prompt: {matches: '^a'}}", "{system_prompt: abc}"),
        ("{tools: true}", "{tools: f}"),
    ],
)
def test_covered(first: str, second: str) -> None:
    assert warnings(first, second) == [
        "`r1` can never match: `r0` before it takes all it would"
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("{class: code, temperature: 0}", "{class: code}"),
        ("{temperature: {gt: 0.5}}", "{temperature: {gte: 0.5}}"),
        ("{class: code}", "{not: {class: code}}"),
        ("{class: code}", "{any: [{class: code}, {class: open}]}"),
        ("{tools: {matches: a}}", "{tools: true}"),
        ("{header: {x-a: a}}", "{header: {x-b: a}}"),
        ("{temperature: {gte: 0}}", "{temperature: {present: true}}"),
        ("{not: {class: code, stream: true}}", "{not: {class: open}}"),
    ],
)
def test_not_covered(first: str, second: str) -> None:
    assert warnings(first, second) == []


@pytest.mark.parametrize(
    "when",
    [
        "{temperature: {gt: 0.9, lt: 0.5}}",
        "{temperature: {gt: 0.5, lte: 0.5}}",
        "{all: [{temperature: {gt: 0.9}}, {temperature: {lt: 0.5}}]}",
        "{class: code, all: [{class: open}]}",
        "{turns: {eq: 3, gt: 5}}",
        "{max_tokens: {present: false, lt: 5}}",
        "{class: code, not: {class: code}}",
        "{tools: {eq: a, matches: b}}",
    ],
)
def test_contradictions(when: str) -> None:
    [warning] = warnings(when)
    assert warning.startswith("`r0` can never match: ")


def test_two_tools_can_both_be_offered() -> None:
    assert warnings("{all: [{tools: a}, {tools: b}]}") == []


def test_unknown_pools() -> None:
    policy = parse_policy(
        "name: p\nrules: [{name: r, use: ngrm}]\notherwise: plain\nfallback: [x]\n"
    )
    found = [
        (m.at, m.message, m.hint) for m in unknown_pools(policy, ["plain", "ngram"])
    ]
    assert found[0] == (
        ("rules", 0, "use"),
        "the fleet has no pool `ngrm`; requests go to the fallback",
        "did you mean `ngram`? allowed: plain, ngram",
    )
    assert found[1][0] == ("fallback", 0)


@settings(deadline=None, max_examples=200)
@given(policies(), st.lists(requests(), min_size=5, max_size=10))
def test_a_dead_rule_never_decides(policy: Policy, sample: list[Features]) -> None:
    dead = {mistake.at[1] for mistake in dead_rules(policy)}
    tests = [
        compile_condition(rule.when).test if rule.when else lambda f, c: True
        for rule in policy.rules
    ]
    for request in sample:
        for name in CLASSES:
            first = next((i for i, t in enumerate(tests) if t(request, name)), None)
            assert first not in dead
