"""A policy's own tests: its `examples`, run on the router without any engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from orchestrator.config.policy import Example, Policy
from orchestrator.errors import RequestError
from orchestrator.records import Endpoint, Features, PoolTraits, RequestClass
from orchestrator.routing.router import Router

Classify = Callable[[Features, str | None], RequestClass]


class Extract(Protocol):
    """`classify.features.extract`: a body and its headers to features."""

    def __call__(
        self,
        body: Mapping[str, object],
        headers: Mapping[str, str],
        *,
        endpoint: Endpoint,
    ) -> Features:
        """Raises RequestError for a body that is no request."""


@dataclass(frozen=True, slots=True)
class ExampleResult:
    """What one example came to."""

    #: Its place in the policy's `examples`.
    index: int
    #: Such as `pool is plain, expected ngram`; empty where all is as expected.
    failures: tuple[str, ...]


def run_examples(
    policy: Policy,
    traits: Mapping[str, PoolTraits] | None,
    extract: Extract,
    classify: Classify,
) -> list[ExampleResult]:
    """Route every example of the policy.

    `traits` are the fleet's pools. Where no fleet is known (None), each pool that the
    policy names is taken to exist and to serve every request.
    """
    if traits is None:
        traits = {name: PoolTraits(name, "none") for name in policy.pools()}
    router = Router(policy, traits)
    return [
        ExampleResult(i, tuple(_failures(router, example, extract, classify)))
        for i, example in enumerate(policy.examples)
    ]


def _failures(
    router: Router, example: Example, extract: Extract, classify: Classify
) -> list[str]:
    endpoint = example.endpoint or endpoint_of(example.request)
    headers = {name.lower(): value for name, value in example.headers.items()}
    try:
        features = extract(example.request, headers, endpoint=endpoint)
        request_class = classify(features, headers.get("x-spec-class"))
        decision = router.decide(
            features, request_class, forced=headers.get("x-spec-pool")
        )
    except RequestError as error:
        return [f"the request is refused: {error.message}"]
    got = {
        "class": router.effective_class(features, request_class).name,
        "rule": decision.rule,
        "pool": decision.pool,
    }
    expected = example.expect.model_dump(by_alias=True, exclude_none=True)
    return [
        f"{name} is {got[name]}, expected {value}" + _because(name, decision.reason)
        for name, value in expected.items()
        if got[name] != value
    ]


def _because(name: str, reason: str) -> str:
    return "" if name == "class" else f" ({reason})"


def endpoint_of(body: Mapping[str, object]) -> Endpoint:
    """The endpoint that a body is for: one with a `prompt` goes to completions."""
    if "prompt" in body and "messages" not in body:
        return "completions"
    return "chat"
