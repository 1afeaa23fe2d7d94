"""The router: order of decision, feasibility, health, forced pools, words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.config.policy import Policy, parse_policy
from orchestrator.errors import InfeasibleError, PoolForbiddenError, RequestError
from orchestrator.records import (
    Decision,
    Features,
    PoolRights,
    PoolTraits,
    RequestClass,
)
from orchestrator.routing.feasibility import infeasible
from orchestrator.routing.router import Router
from tests.strategies import features, policies, requests

OPEN = RequestClass("open", 0.5)
CODE = RequestClass("code", 0.9)
TRAITS = {
    "ngram": PoolTraits("ngram", "ngram"),
    "draft": PoolTraits("draft", "draft_model"),
    "plain": PoolTraits("plain", "none"),
}
POLICY = """\
name: p
rules:
  - {name: hot, when: {temperature: {gte: 0.9}}, use: plain}
  - {name: code, when: {class: code}, use: ngram}
  - {name: gone, when: {tenant: t}, use: eagle}
otherwise: draft
fallback: [draft, ngram]
"""


def decide(
    request_class: RequestClass = OPEN,
    healthy: Any = None,
    forced: str | None = None,
    text: str = POLICY,
    traits: dict[str, PoolTraits] = TRAITS,
    **request: Any,
) -> Decision:
    router = Router(parse_policy(text), traits)
    return router.decide(
        features(**request), request_class, healthy=healthy, forced=forced
    )


@pytest.mark.parametrize(
    ("pool", "request_", "why"),
    [
        ("ngram", {"min_p": 0.1}, "min_p"),
        ("ngram", {"min_p": 0.0}, None),
        ("plain", {"min_p": 0.1}, None),
        ("draft", {"logit_bias": True}, "logit_bias"),
        ("ngram", {"temperature": 1.0}, None),
        ("greedy", {"temperature": 0.1}, "sampling (temperature 0.1)"),
        ("greedy", {}, "sampling (temperature 1)"),
        ("greedy", {"temperature": 0.0}, None),
    ],
)
def test_feasibility(pool: str, request_: dict[str, Any], why: str | None) -> None:
    traits = TRAITS | {"greedy": PoolTraits("greedy", "ngram", sampling=False)}
    said = infeasible(features(**request_), traits[pool])
    assert said is None if why is None else why in str(said)


def test_the_first_rule_that_matches_decides() -> None:
    made = decide(CODE)
    assert (made.pool, made.rule, made.reason) == ("ngram", "code", "rule code matched")
    assert made.alternatives == ("draft", "plain")
    assert made.propensities == {"ngram": 1.0}
    assert (made.policy, len(made.policy_hash)) == ("p", 12)
    assert decide(CODE, temperature=1.0).rule == "hot"


def test_otherwise() -> None:
    made = decide()
    assert (made.pool, made.rule, made.reason) == (
        "draft",
        "otherwise",
        "no rule matched",
    )


def test_infeasible_pools_are_passed_over() -> None:
    made = decide(CODE, min_p=0.1)
    assert (made.pool, made.rule, made.alternatives) == ("plain", "code", ())
    assert made.reason == (
        "rule code matched; pool ngram can't serve it: vLLM refuses min_p on an engine"
        " with speculation, so plain"
    )


def test_unknown_pools_are_passed_over() -> None:
    made = decide(tenant="t")
    assert (made.pool, made.rule) == ("draft", "gone")
    assert made.reason == "rule gone matched; pool eagle is not in this fleet, so draft"


def test_unhealthy_pools_are_passed_over() -> None:
    made = decide(CODE, healthy={"plain", "draft"})
    assert (made.pool, made.alternatives) == ("draft", ("plain",))
    assert made.reason == "rule code matched; pool ngram is not healthy, so draft"
    assert decide(CODE, healthy={"plain"}).pool == "plain"
    assert decide(CODE, healthy=()).pool == "ngram", "the caller's retry deals with it"


def test_plain_comes_first_after_the_fallback() -> None:
    text = "name: p\notherwise: ngram\n"
    assert decide(text=text).alternatives == ("plain", "draft")


def test_nothing_is_feasible() -> None:
    traits = {"ngram": TRAITS["ngram"]}
    with pytest.raises(InfeasibleError, match="ngram: vLLM refuses min_p") as caught:
        decide(traits=traits, min_p=0.5)
    assert caught.value.status == 400


def test_forced_pools() -> None:
    with pytest.raises(PoolForbiddenError, match="does not let clients") as forbidden:
        decide(forced="plain")
    assert (forbidden.value.status, forbidden.value.param) == (403, "x-spec-pool")
    text = POLICY + "allow_forced_pool: true\n"
    made = decide(CODE, forced="draft", healthy=(), text=text)
    assert (made.pool, made.rule, made.alternatives) == ("draft", "forced", ())
    with pytest.raises(RequestError, match="the pools are: ngram, draft, plain"):
        decide(forced="nope", text=text)
    with pytest.raises(RequestError, match="can't serve this request: vLLM refuses"):
        decide(forced="ngram", text=text, logit_bias=True)


@pytest.mark.parametrize(
    ("may_force", "pool", "allowed"),
    [
        ("all", "draft", True),
        (("ngram", "draft"), "draft", True),
        (("ngram",), "draft", False),
        ((), "draft", False),
        # No part of a name is a name: "all" is a word here, not a list of letters.
        (("drafts",), "draft", False),
    ],
)
def test_a_key_may_let_its_caller_choose(
    may_force: PoolRights, pool: str, allowed: bool
) -> None:
    router = Router(parse_policy(POLICY), TRAITS)
    explained = router.explain(features(), CODE, forced=pool, may_force=may_force)
    if allowed:
        made = router.decide(features(), CODE, forced=pool, may_force=may_force)
        assert (made.pool, made.rule) == (pool, "forced")
        assert explained.decision == made
        return
    with pytest.raises(PoolForbiddenError) as caught:
        router.decide(features(), CODE, forced=pool, may_force=may_force)
    assert caught.value.message == explained.error
    assert caught.value.message == (
        "The policy p does not let clients choose the pool, and this request has no API"
        " key that allows pool 'draft'; leave out the header x-spec-pool, or use a key"
        " with that right."
    )


def test_a_key_for_all_pools_makes_no_pool() -> None:
    router = Router(parse_policy(POLICY), TRAITS)
    for name in ("a", "l", "al", "nope"):
        with pytest.raises(RequestError, match="There is no pool"):
            router.decide(features(), CODE, forced=name, may_force="all")
    with pytest.raises(RequestError, match="can't serve this request: vLLM refuses"):
        router.decide(features(min_p=0.5), CODE, forced="ngram", may_force="all")


def test_own_classes() -> None:
    text = """\
name: p
classes:
  - {name: legal, when: {header: {x-team: law}, class: [open, code]}}
rules:
  - {name: legal, when: {class: legal}, use: ngram}
otherwise: plain
"""
    router = Router(parse_policy(text), TRAITS)
    request = features(headers={"x-team": "law"})
    made = router.effective_class(request, OPEN)
    assert (made.name, made.confidence) == ("legal", 1.0)
    assert made.signals[0].startswith("policy: ")
    assert "header x-team is law" in made.signals[0]
    assert router.decide(request, OPEN).rule == "legal"
    assert router.effective_class(features(), OPEN) is OPEN


def test_explain() -> None:
    router = Router(parse_policy(POLICY), TRAITS)
    request = features(temperature=1.0, min_p=0.2)
    made = router.explain(request, CODE, healthy={"plain"})
    assert made.decision == router.decide(request, CODE, healthy={"plain"})
    assert [(t.rule, t.matched, t.why) for t in made.rules] == [
        ("hot", True, "temperature is 1 (>= 0.9)"),
        ("code", False, "rule hot comes first; would match: class is code"),
        ("gone", False, "tenant is not given"),
    ]
    assert [(t.pool, t.feasible, t.healthy) for t in made.pools] == [
        ("ngram", False, False),
        ("draft", False, False),
        ("plain", True, True),
    ]
    assert "min_p" in made.pools[0].why
    refused = router.explain(request, CODE, forced="plain")
    assert refused.decision is None
    assert "does not let clients" in str(refused.error)
    assert not any(trace.matched for trace in refused.rules)


@settings(deadline=None)
@given(policies(), requests(), st.none() | st.sets(st.sampled_from(["plain", "ngram"])))
def test_no_decision_breaks_the_promises(
    policy: Policy, request_: Features, healthy: set[str] | None
) -> None:
    traits = {name: TRAITS[name] for name in ("plain", "ngram")}
    router = Router(policy, traits)
    made = router.decide(request_, OPEN, healthy=healthy)
    pools = (made.pool, *made.alternatives)
    assert len(set(pools)) == len(pools)
    assert all(infeasible(request_, traits[pool]) is None for pool in pools)
    if not healthy or "plain" in healthy:
        assert "plain" in pools, "plain can serve everything"
    elif healthy & {p for p in traits if infeasible(request_, traits[p]) is None}:
        assert set(pools) <= healthy
    explained = router.explain(request_, OPEN, healthy=healthy)
    assert explained.decision == made
    matched = [trace.rule for trace in explained.rules if trace.matched]
    assert matched == ([] if made.rule == "otherwise" else [made.rule])
