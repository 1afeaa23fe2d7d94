"""Every speculative mode of a fleet beside plain decoding, by class and temperature."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from openai import APIError, OpenAI

from orchestrator.bench.workload import Labelled
from orchestrator.errors import FleetError
from orchestrator.routing.speed import effective_tokens

#: All classes together, as a row of the results.
ALL = "all"


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer of one pool; `seconds` from sending to the last byte."""

    round: int
    label: str
    temperature: float
    pool: str
    tokens: int
    seconds: float
    #: Steps of the engine after the prefill.
    steps: float
    #: How many verification steps accepted 0, 1, 2, ... draft tokens.
    histogram: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """What one pool showed for one class at one temperature."""

    label: str
    temperature: float
    pool: str
    #: Completion tokens over seconds, of all requests together; median of the rounds.
    tokens_per_s: float
    #: That beside the plain pool's, round by round; median.
    ratio: float
    #: Tokens that a step yields; 1.0 is plain decoding.
    effective_tokens: float
    #: Of the steps that had drafts, the share whose first 1, 2, ... were accepted.
    acceptance: tuple[float, ...]
    #: Seconds of a request over its steps: prefill and HTTP are in it.
    step_s: float


def measure(
    url: str,
    model: str,
    pools: Sequence[str],
    requests: Sequence[Labelled],
    temperatures: Sequence[float],
    *,
    rounds: int,
    max_tokens: int,
    progress: Callable[[Sample], None],
) -> list[Sample]:
    """Send every request at every temperature to every pool, one at a time.

    Which pool comes first changes from request to request, so that what slows the
    machine down for a while slows all pools down. The fleet's policy must let clients
    choose the pool. Raises FleetError where a request fails.
    """
    client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=300)
    for pool in pools:
        # An engine's first greedy and its first sampled request are slow.
        for temperature in (0.0, 1.0):
            body = {"messages": [{"role": "user", "content": "Count to 10."}]}
            warm_up = Labelled("warm-up", "open", body)
            _send(client, model, warm_up, pool, temperature, 0, 16)
    samples = []
    for number in range(rounds):
        for place, request in enumerate(requests):
            for temperature in temperatures:
                first = (place + number) % len(pools)
                for pool in [*pools[first:], *pools[:first]]:
                    sample = _send(
                        client, model, request, pool, temperature, number, max_tokens
                    )
                    samples.append(sample)
                    progress(sample)
    return samples


def _send(
    client: OpenAI,
    model: str,
    request: Labelled,
    pool: str,
    temperature: float,
    number: int,
    max_tokens: int,
) -> Sample:
    ours = {"model": model, "temperature": temperature, "max_tokens": max_tokens}
    left_out = {"stream", "stream_options", "max_completion_tokens"}
    body = {k: v for k, v in request.request.items() if k not in left_out} | ours
    started = time.perf_counter()
    try:
        answer = client.chat.completions.create(
            model=model,
            messages=body["messages"],
            # It wins over the rest. The file may have fields that only vLLM knows.
            extra_body=body,
            extra_headers={"x-spec-pool": pool},
        )
    except APIError as error:
        raise FleetError(
            f"Request {request.id} failed on pool {pool}: {error}"
        ) from error
    seconds = time.perf_counter() - started
    assert answer.usage is not None
    tokens = answer.usage.completion_tokens
    drafts = _drafts(answer)
    gained = effective_tokens(
        tokens,
        accepted=drafts.get("num_accepted_draft_tokens", 0),
        draft_steps=drafts.get("num_spec_steps", 0),
    )
    return Sample(
        round=number,
        label=request.label,
        temperature=temperature,
        pool=pool,
        tokens=tokens,
        seconds=seconds,
        steps=(tokens - 1) / gained if gained else 0.0,
        histogram=tuple(drafts.get("acceptance_histogram", ())),
    )


def _drafts(answer: Any) -> dict[str, Any]:
    """vLLM's speculation metrics, an extra field that the client's types don't know."""
    metrics = (answer.model_extra or {}).get("metrics") or {}
    return metrics.get("speculative_decoding") or {}


def summarise(samples: Sequence[Sample], plain: str) -> list[Cell]:
    """Every class, and all together, at every temperature, for every pool."""
    labels = [*sorted({sample.label for sample in samples}), ALL]
    temperatures = sorted({sample.temperature for sample in samples})
    pools = list(dict.fromkeys(sample.pool for sample in samples))
    return [
        _cell(label, temperature, pool, samples, plain)
        for label in labels
        for temperature in temperatures
        for pool in sorted(pools, key=lambda p: (p != plain, p))
    ]


def _cell(
    label: str, temperature: float, pool: str, samples: Sequence[Sample], plain: str
) -> Cell:
    here = [
        s for s in samples if label in (s.label, ALL) and s.temperature == temperature
    ]
    speeds = dict(_speeds(here, pool))
    beside = dict(_speeds(here, plain))
    own = [s for s in here if s.pool == pool]
    steps = sum(s.steps for s in own)
    decoded = sum(s.tokens - 1 for s in own)
    return Cell(
        label=label,
        temperature=temperature,
        pool=pool,
        tokens_per_s=median(speeds.values()),
        ratio=median(speeds[number] / beside[number] for number in speeds),
        effective_tokens=decoded / steps if steps else 1.0,
        acceptance=survival([s.histogram for s in own]),
        step_s=sum(s.seconds for s in own) / steps if steps else 0.0,
    )


def _speeds(samples: Sequence[Sample], pool: str) -> Iterator[tuple[int, float]]:
    for number in sorted({s.round for s in samples}):
        own = [s for s in samples if s.pool == pool and s.round == number]
        yield number, sum(s.tokens for s in own) / sum(s.seconds for s in own)


def survival(histograms: Sequence[tuple[int, ...]]) -> tuple[float, ...]:
    """The share of draft steps whose first 1, 2, ... tokens were accepted.

    >>> survival([(1, 1, 2), (0, 0, 4)])
    (0.875, 0.75)
    """
    longest = max(map(len, histograms), default=0)
    counts = [sum(h[k] for h in histograms if len(h) > k) for k in range(longest)]
    steps = sum(counts)
    return tuple(sum(counts[k:]) / steps for k in range(1, longest) if steps)
