"""`orchestrator bench overhead` with a few requests: what it counts, not how fast."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from typer.testing import CliRunner

from orchestrator.bench import overhead
from orchestrator.bench.load import Load, Target
from orchestrator.cli.main import app

pytestmark = [pytest.mark.serve, pytest.mark.usefixtures("no_fleet")]


def test_both_ingresses_are_measured_in_front_of_one_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def few(requests: int) -> list[Load]:
        return [
            Load(1.0 if x.pace_ms else 0.0, x.tokens, x.stream, x.concurrency, 2)
            for x in plan(requests)
        ]

    def watched(ours: Target, stock: Target, *rest: Any) -> Any:
        seen["before"] = status(ours)
        cells = compare(ours, stock, *rest)
        seen["after"] = status(ours)
        seen["names"] = [
            " ".join(psutil.Process(target.pid).cmdline()) for target in (ours, stock)
        ]
        seen["stock"] = httpx.get(stock.url.replace("chat/completions", "models"))
        return cells

    plan, compare = overhead.plan, overhead.compare
    monkeypatch.setattr(overhead, "plan", few)
    monkeypatch.setattr(overhead, "compare", watched)
    file = tmp_path / "overhead.json"
    arguments = ["bench", "overhead", "--rounds", "1", "--json", str(file)]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "What the router costs" in result.output

    report = json.loads(file.read_text())
    for part in (report, report["same"]):
        for ratio in (part["throughput"], part["latency_p50"]):
            assert set(ratio) == {"c1", "c32"}
            assert all(value > 0 for value in ratio.values())
        assert set(part["cpu_us"]) == {"request", "chunk"}
    assert len(report["cells"]) == len(plan(1))
    assert all(
        cell[name]["requests_per_s"] > 0
        for cell in report["cells"]
        for name in overhead.NAMES
    )

    # Warm-up: 32 whole ones and 32 streams. Only what went to ours is counted by ours,
    # and it all went to the pool that Ray's ingress calls.
    assert counted(seen["before"]) == {}
    assert counted(seen["after"]) == {"plain": 64 + 2 * len(plan(1))}
    assert "router" in seen["names"][0]
    assert "stock" in seen["names"][1]
    assert seen["stock"].json()["data"][0]["id"] == "overhead"


def status(target: Target) -> dict[str, Any]:
    url = target.url.replace("/v1/chat/completions", "/router/status")
    found: dict[str, Any] = httpx.get(url, timeout=30).json()
    return found


def counted(status: dict[str, Any]) -> dict[str, int]:
    pools: Counter[str] = Counter()
    for by_pool in status["counts"]["by_class"].values():
        pools.update(by_pool)
    return dict(pools)
