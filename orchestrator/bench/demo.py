"""Sends the demo's requests to a fleet and measures each beside the plain pool."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from openai import OpenAI

from orchestrator.bench.demo_requests import REQUESTS, DemoRequest
from orchestrator.routing.speed import effective_tokens


@dataclass(frozen=True, slots=True)
class Run:
    """One answer: where it came from, what it says, how fast it came."""

    request: str
    request_class: str
    rule: str
    pool: str
    text: str
    completion_tokens: int
    #: Completion tokens over the whole time, from sending to the last byte.
    tokens_per_s: float
    #: Accepted over proposed draft tokens; None on a pool without speculation.
    acceptance_rate: float | None
    effective_tokens: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The routed answer, and the same request on the plain pool."""

    routed: Run
    plain: Run


def send(client: OpenAI, model: str, request: DemoRequest, pool: str | None) -> Run:
    """Send one request, to `pool` where one is named, and measure the answer."""
    headers = {"x-spec-pool": pool} if pool else {}
    create = client.chat.completions.with_raw_response.create
    started = time.perf_counter()
    if request.stream:
        raw = create(
            model=model,
            stream=True,
            stream_options={"include_usage": True},
            extra_headers=headers,
            **request.body(),
        )
        parts, last = [], None
        for chunk in raw.parse():
            last = chunk
            if chunk.choices and chunk.choices[0].delta.content:
                parts.append(chunk.choices[0].delta.content)
        text, answer = "".join(parts), last
    else:
        raw = create(model=model, extra_headers=headers, **request.body())
        answer = raw.parse()
        message = answer.choices[0].message
        text = message.content or str(
            [call.function.arguments for call in message.tool_calls or []]
        )
    elapsed = time.perf_counter() - started
    assert answer is not None
    assert answer.usage is not None
    tokens = answer.usage.completion_tokens
    drafts = _drafts(answer)
    return Run(
        request=request.name,
        request_class=raw.headers["x-spec-class"],
        rule=raw.headers["x-spec-rule"],
        pool=raw.headers["x-spec-pool"],
        text=text,
        completion_tokens=tokens,
        tokens_per_s=tokens / elapsed,
        acceptance_rate=drafts["draft_acceptance_rate"] if drafts else None,
        effective_tokens=effective_tokens(
            tokens,
            accepted=drafts["num_accepted_draft_tokens"] if drafts else 0,
            draft_steps=drafts["num_spec_steps"] if drafts else 0,
        ),
    )


def _drafts(answer: Any) -> dict[str, Any] | None:
    """vLLM's speculation metrics, an extra field that the client's types don't know."""
    metrics = (answer.model_extra or {}).get("metrics") or {}
    drafts: dict[str, Any] | None = metrics.get("speculative_decoding")
    return drafts


def compare(
    url: str,
    model: str,
    pools: Iterable[str],
    plain: str,
    requests: Iterable[DemoRequest] = REQUESTS,
) -> Iterator[Comparison]:
    """Warm every pool up, then send each request routed and to the pool `plain`.

    The fleet's policy must allow forced pools. Raises `openai.APIError`.
    """
    client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=300)
    for pool in pools:
        # An engine's first greedy and its first sampled request are slow.
        for temperature in (0.0, 1.0):
            warm_up = DemoRequest("warm-up", "Count to 10.", temperature, max_tokens=16)
            send(client, model, warm_up, pool)
    for request in requests:
        routed = send(client, model, request, None)
        # Where the router chose the plain pool there is nothing to compare.
        same = routed.pool == plain
        beside = routed if same else send(client, model, request, plain)
        yield Comparison(routed, beside)
