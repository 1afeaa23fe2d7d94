"""How long a decision takes: features, class and route of one request."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from orchestrator.classify.classifier import classify
from orchestrator.classify.features import extract
from orchestrator.config.policy import Policy
from orchestrator.records import PoolTraits
from orchestrator.routing.router import Router

KIB = 1024
#: Size of a request's text in bytes of UTF-8, and the median time that is allowed.
TARGETS_US = {2 * KIB: 200.0, 200 * KIB: 2000.0}

_TEXTS = {
    "English": (
        "Summarise the following article in three sentences.\n\n",
        "The council met on Tuesday to discuss plan {n} for a new library near the "
        "river, which would cost {n} million euros and take two years to build. ",
    ),
    "Chinese": (
        "请用三句话总结下面的文章。\n\n",
        "市议会周二开会讨论了第{n}号方案，计划在河边新建一座图书馆，预计花费{n}百万欧元，工期两年。",
    ),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of request and what its decisions took, in microseconds."""

    language: str
    size_bytes: int
    target_us: float
    median_us: float
    p99_us: float

    @property
    def met(self) -> bool:
        """Whether the median is within the target."""
        return self.median_us <= self.target_us

    def as_json(self) -> dict[str, Any]:
        """The fields, and `met`."""
        return {
            "language": self.language,
            "size_bytes": self.size_bytes,
            "target_us": self.target_us,
            "median_us": round(self.median_us, 1),
            "p99_us": round(self.p99_us, 1),
            "met": self.met,
        }


def measure(policy: Policy, repeats: int) -> list[Case]:
    """Time `repeats` decisions for every language and size.

    The pools are those that the policy names, taken to serve every request: what a
    fleet adds is one comparison for each pool.
    """
    pools = {name: PoolTraits(name, "none") for name in policy.pools()}
    router = Router(policy, pools)
    cases = []
    for language in _TEXTS:
        for size, target in TARGETS_US.items():
            times = _times(_decision(router, request(language, size)), repeats)
            p99 = times[min(len(times) - 1, int(len(times) * 0.99))]
            cases.append(Case(language, size, target, statistics.median(times), p99))
    return cases


def request(language: str, size: int) -> dict[str, Any]:
    """A chat request whose user message has `size` bytes, but for a cut character."""
    ask, sentence = _TEXTS[language]
    count = size // len(sentence.encode()) + 1
    text = ask + "".join(sentence.format(n=n) for n in range(count))
    return {
        "model": "default",
        "temperature": 0.0,
        "messages": [
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": text.encode()[:size].decode(errors="ignore")},
        ],
    }


def _decision(router: Router, body: dict[str, Any]) -> Callable[[], object]:
    headers = {"Content-Type": "application/json", "X-Session-Id": "bench"}

    def decide() -> object:
        features = extract(body, headers)
        return router.decide(features, classify(features))

    return decide


def _times(run: Callable[[], object], repeats: int) -> list[float]:
    """Times of single runs in microseconds, sorted; the first runs only warm up."""
    times = []
    for _ in range(repeats + 10):
        start = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - start) / 1000)
    return sorted(times[10:])
