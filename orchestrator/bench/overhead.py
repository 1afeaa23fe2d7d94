"""What our ingress costs beside Ray's own, in front of the same engine."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import aiohttp

from orchestrator.bench.load import Load, Sample, Target, run

#: Our ingress, Ray's, and Ray's once more: the ratio of `again` to `stock` is 1 but for
#: noise.
Name = Literal["ours", "stock", "again"]
Compared = Literal["ours", "again"]
NAMES: tuple[Name, ...] = get_args(Name)
#: One load, sent to each in turn.
Round = Mapping[Name, Sample]
#: A usual engine's time for one token, in milliseconds.
PACE_MS = 20.0
TOKENS = 32
#: Tokens of the streams whose cost beside those of `TOKENS` is that of their chunks.
MANY_TOKENS = 256
CONCURRENCIES = (1, 32)
#: The bounds that hold at `PACE_MS`, as ratios ours to stock.
MIN_THROUGHPUT = 0.97
MAX_LATENCY = 1.05


@dataclass(frozen=True, slots=True)
class Cell:
    """One load and its rounds.

    Every figure is a median of the rounds' own: what changes the machine's speed from
    one round to the next changes neither ratio nor difference.
    """

    load: Load
    rounds: tuple[Round, ...]

    def throughput(self, which: Compared) -> float:
        """Requests a second as a ratio to stock."""
        return statistics.median(
            r["stock"].wall_s / r[which].wall_s for r in self.rounds
        )

    def latency(self, which: Compared) -> float:
        """The median latency as a ratio to stock's."""
        return statistics.median(
            p50_s(r[which]) / p50_s(r["stock"]) for r in self.rounds
        )

    def added_cpu_us(self, which: Compared) -> float:
        """Microseconds of processor time for a request beyond stock's."""
        return statistics.median(self._added_cpu_us(r, which) for r in self.rounds)

    def chunk_cpu_us(self, longer: Cell, which: Compared) -> float:
        """Microseconds for a chunk beyond stock's, from a cell with longer streams."""
        chunks = longer.load.tokens - self.load.tokens
        return statistics.median(
            (longer._added_cpu_us(many, which) - self._added_cpu_us(few, which))
            / chunks
            for few, many in zip(self.rounds, longer.rounds, strict=True)
        )

    def _added_cpu_us(self, r: Round, which: Compared) -> float:
        added_s = r[which].ingress_cpu_s - r["stock"].ingress_cpu_s
        return added_s / self.load.requests * 1e6

    @property
    def client_cores(self) -> float:
        """The largest share of a core that sending and reading took in any run."""
        return max(s.client_cpu_s / s.wall_s for r in self.rounds for s in r.values())

    def as_json(self) -> dict[str, Any]:
        """The load, the figures of each ingress, and how they compare."""
        return {
            "pace_ms": self.load.pace_ms,
            "tokens": self.load.tokens,
            "stream": self.load.stream,
            "concurrency": self.load.concurrency,
            "requests": self.load.requests,
            **{name: self._figures(name) for name in NAMES},
            "throughput": round(self.throughput("ours"), 4),
            "same_throughput": round(self.throughput("again"), 4),
            "latency_p50": round(self.latency("ours"), 4),
            "same_latency_p50": round(self.latency("again"), 4),
            "added_cpu_us": round(self.added_cpu_us("ours"), 1),
            "same_added_cpu_us": round(self.added_cpu_us("again"), 1),
            "client_cores": round(self.client_cores, 3),
        }

    def _figures(self, name: Name) -> dict[str, float]:
        samples = [r[name] for r in self.rounds]
        requests, median = self.load.requests, statistics.median
        return {
            "requests_per_s": round(median(requests / s.wall_s for s in samples), 2),
            "latency_p50_ms": round(median(p50_s(s) * 1e3 for s in samples), 3),
            "cpu_us": round(median(s.ingress_cpu_s / requests * 1e6 for s in samples)),
        }


def p50_s(sample: Sample) -> float:
    """The median latency in seconds."""
    return statistics.median(sample.latencies_s)


def plan(requests: int) -> list[Load]:
    """All loads; `requests` is how many paced ones each client sends in a run.

    Of the others there are more, since they take a hundredth of the time and the
    system counts processor time in steps of 10 ms.
    """
    paced = [
        Load(PACE_MS, TOKENS, stream, clients, requests * clients)
        for stream in (False, True)
        for clients in CONCURRENCIES
    ]
    instant = [
        Load(0.0, tokens, stream, clients, requests * count)
        for tokens, stream, count in (
            (TOKENS, False, 32),
            (TOKENS, True, 8),
            (MANY_TOKENS, True, 2),
        )
        for clients in CONCURRENCIES
    ]
    return paced + instant


def compare(
    ours: Target,
    stock: Target,
    loads: Sequence[Load],
    rounds: int,
    progress: Callable[[Load], None],
) -> list[Cell]:
    """Send every load to both ingresses `rounds` times, in turn.

    `progress` is called before each run. Raises FleetError when a request fails.
    """
    return asyncio.run(_compare(ours, stock, loads, rounds, progress))


async def _compare(
    ours: Target,
    stock: Target,
    loads: Sequence[Load],
    rounds: int,
    progress: Callable[[Load], None],
) -> list[Cell]:
    targets: dict[Name, Target] = {"ours": ours, "stock": stock, "again": stock}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        headers={"Content-Type": "application/json"},
    ) as session:
        # Connections, and what an ingress makes at its first requests.
        for target in (ours, stock):
            for stream in (False, True):
                clients = max(load.concurrency for load in loads)
                await run(session, target, Load(0.0, TOKENS, stream, clients, clients))
        cells = []
        for load in loads:
            done = []
            for number in range(rounds):
                # Each is first, second and third in turn.
                first = number % len(NAMES)
                samples: dict[Name, Sample] = {}
                for name in NAMES[first:] + NAMES[:first]:
                    progress(load)
                    samples[name] = await run(session, targets[name], load)
                done.append(samples)
            cells.append(Cell(load, tuple(done)))
    return cells


def summary(cells: Sequence[Cell]) -> dict[str, Any]:
    """The figures that are promised; `same` has those of stock beside itself.

    Throughput and latency are those with the paced engine, streaming or not, whichever
    is worse. Processor time is that with the instant engine and many clients: for a
    request that is not streamed, and for each chunk of a stream.
    """
    worst_throughput, worst_latency = {}, {}
    for clients in CONCURRENCIES:
        paced = [c for c in cells if c.load.pace_ms and c.load.concurrency == clients]
        worst_throughput[f"c{clients}"] = min(paced, key=lambda c: c.throughput("ours"))
        worst_latency[f"c{clients}"] = max(paced, key=lambda c: c.latency("ours"))
    instant = {
        (c.load.stream, c.load.tokens): c
        for c in cells
        if not c.load.pace_ms and c.load.concurrency == max(CONCURRENCIES)
    }
    whole, few = instant[False, TOKENS], instant[True, TOKENS]
    many = instant[True, MANY_TOKENS]

    def figures(which: Compared) -> dict[str, Any]:
        return {
            "throughput": {
                at: round(cell.throughput(which), 4)
                for at, cell in worst_throughput.items()
            },
            "latency_p50": {
                at: round(cell.latency(which), 4) for at, cell in worst_latency.items()
            },
            "cpu_us": {
                "request": round(whole.added_cpu_us(which), 1),
                "chunk": round(few.chunk_cpu_us(many, which), 2),
            },
        }

    return {**figures("ours"), "same": figures("again")}
