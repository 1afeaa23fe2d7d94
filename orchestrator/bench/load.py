"""Sends one kind of request again and again, and times the answers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import aiohttp
import psutil

from orchestrator.errors import FleetError

#: Of a request's `vllm_xargs`: milliseconds that the paced engine takes for a token.
PACE = "pace_ms"
#: The longest that one answer may take, in seconds.
ANSWER_S = 120.0

#: An open question: policies send it to the pool without speculation.
MESSAGES = [
    {"role": "system", "content": "You are a helpful assistant. Be brief and exact."},
    {"role": "user", "content": "Which city is the capital of Australia?"},
    {"role": "assistant", "content": "Canberra, since 1913."},
    {
        "role": "user",
        "content": "And why was it not Sydney or Melbourne? A friend of mine says that "
        "the two could not agree, which sounds too simple to me.",
    },
]


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of request, how many of them, and how many at once."""

    #: Milliseconds that the engine takes for each token; 0 is at once.
    pace_ms: float
    #: Tokens of an answer; a stream has one chunk for each, and two more.
    tokens: int
    stream: bool
    concurrency: int
    #: Requests in total.
    requests: int

    def body(self) -> bytes:
        """The request as JSON."""
        return json.dumps(
            {
                "messages": MESSAGES,
                "temperature": 0.0,
                "max_tokens": self.tokens,
                "stream": self.stream,
                "vllm_xargs": {PACE: self.pace_ms},
            }
        ).encode()


@dataclass(frozen=True, slots=True)
class Target:
    """An ingress: the address of its chat completions, and its process."""

    url: str
    pid: int


@dataclass(frozen=True, slots=True)
class Sample:
    """What one run of a load took, in seconds."""

    wall_s: float
    #: From sending to the last byte, for each request.
    latencies_s: tuple[float, ...]
    #: Processor time of the ingress's process, and of this one.
    ingress_cpu_s: float
    client_cpu_s: float


async def run(session: aiohttp.ClientSession, target: Target, load: Load) -> Sample:
    """Send the load's requests, each lane its next one when the last has ended.

    Raises:
        FleetError: an answer is not what was asked for.
    """
    body = load.body()
    turns = iter(range(load.requests))
    ingress, client = psutil.Process(target.pid), psutil.Process()
    ingress_before, client_before = _cpu_s(ingress), _cpu_s(client)
    started = time.perf_counter()
    # Clients of an engine that takes its time do not all come at one moment.
    apart_s = load.pace_ms / 1000 * load.tokens / load.concurrency
    lanes = await asyncio.gather(
        *(
            _lane(session, target.url, load, body, turns, number * apart_s)
            for number in range(load.concurrency)
        )
    )
    return Sample(
        wall_s=time.perf_counter() - started,
        latencies_s=tuple(latency for lane in lanes for latency in lane),
        ingress_cpu_s=_cpu_s(ingress) - ingress_before,
        client_cpu_s=_cpu_s(client) - client_before,
    )


async def _lane(
    session: aiohttp.ClientSession,
    url: str,
    load: Load,
    body: bytes,
    turns: Iterator[int],
    wait_s: float,
) -> list[float]:
    await asyncio.sleep(wait_s)
    latencies = []
    for _ in turns:
        started = time.perf_counter()
        try:
            async with session.post(url, data=body) as response:
                # Chunk by chunk as a client of streams does, but parsed only at the
                # end: this process shares the machine with what it measures.
                answer = b"".join(
                    [chunk async for chunk in response.content.iter_any()]
                )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise FleetError(f"A request to {url} failed: {error!r}") from error
        latencies.append(time.perf_counter() - started)
        check(load, url, response.status, answer)
    return latencies


def check(load: Load, url: str, status: int, answer: bytes) -> None:
    """Raise FleetError unless the whole answer came."""
    if status == 200:
        if load.stream:
            # The role and [DONE] come as events of their own.
            whole = answer.count(b"data: ") == load.tokens + 2
            whole = whole and answer.endswith(b"data: [DONE]\n\n")
        else:
            whole = json.loads(answer)["usage"]["completion_tokens"] == load.tokens
        if whole:
            return
    text = answer.decode(errors="replace")
    raise FleetError(
        f"{url} answered with status {status} and not with {load.tokens} tokens: "
        f"{text[:300]}"
    )


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
