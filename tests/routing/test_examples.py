"""A policy's examples: what passes, what fails and why."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.config.policy import parse_policy
from orchestrator.errors import RequestError
from orchestrator.records import Endpoint, Features, PoolTraits, RequestClass
from orchestrator.routing.examples import endpoint_of, run_examples
from tests.strategies import features

TRAITS = {
    "plain": PoolTraits("plain", "none"),
    "ngram": PoolTraits("ngram", "ngram"),
}


def extract(
    body: Mapping[str, object], headers: Mapping[str, str], *, endpoint: Endpoint
) -> Features:
    if "bad" in body:
        raise RequestError("bad body")
    min_p = 0.1 if "min_p" in body else None
    return features(endpoint=endpoint, headers=headers, min_p=min_p)


def classify(request: Features, hint: str | None) -> RequestClass:
    return RequestClass(hint or "code", 1.0)


POLICY = """\
name: p
rules: [{name: code, when: {class: code}, use: ngram}]
otherwise: plain
examples:
  - {request: {}, expect: {class: code, rule: code, pool: ngram}}
  - {request: {}, headers: {X-Spec-Class: open}, expect: {class: open, pool: plain}}
  - {request: {min_p: 1}, expect: {pool: ngram}}
  - {request: {}, expect: {class: open, pool: plain}}
  - {request: {bad: 1}, expect: {pool: plain}}
  - {request: {}, headers: {x-spec-pool: plain}, expect: {pool: plain}}
"""


def test_examples() -> None:
    results = run_examples(parse_policy(POLICY), TRAITS, extract, classify)
    assert [r.failures for r in results] == [
        (),
        (),
        (
            "pool is plain, expected ngram (rule code matched; pool ngram can't serve"
            " it: vLLM refuses min_p on an engine with speculation, so plain)",
        ),
        (
            "class is code, expected open",
            "pool is ngram, expected plain (rule code matched)",
        ),
        ("the request is refused: bad body",),
        (
            "the request is refused: The policy p does not let clients choose the pool,"
            " and this request has no API key that allows pool 'plain'; leave out the"
            " header x-spec-pool, or use a key with that right.",
        ),
    ]


def test_without_a_fleet_every_pool_serves_everything() -> None:
    results = run_examples(parse_policy(POLICY), None, extract, classify)
    assert results[2].failures == ()


def test_endpoint() -> None:
    assert endpoint_of({"prompt": "x"}) == "completions"
    assert endpoint_of({"messages": [], "prompt": "x"}) == "chat"
    assert endpoint_of({}) == "chat"
