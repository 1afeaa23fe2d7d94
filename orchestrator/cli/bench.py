"""`orchestrator bench`: what a decision, the router, and each mode cost and gain."""

from __future__ import annotations

import json
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TimeRemainingColumn
from rich.table import Table

from orchestrator.bench.decision import Case, measure
from orchestrator.cli.fleet import started
from orchestrator.cli.json_output import JsonFile, write_json
from orchestrator.cli.modes import modes
from orchestrator.config.document import Document
from orchestrator.config.policy import parse_policy
from orchestrator.config.shipped import find_policy

if TYPE_CHECKING:
    from orchestrator.bench.load import Load
    from orchestrator.bench.overhead import Cell

#: Beyond this share of a core the client may be what is measured.
CLIENT_CORES = 0.8

app = typer.Typer(
    help="Measure: what a decision and the router cost, what each mode gains.",
    no_args_is_help=True,
)

app.command()(modes)


@app.command()
def decision(
    repeats: Annotated[
        int, typer.Option(min=1, help="Decisions timed for each kind of request.")
    ] = 500,
    json_file: JsonFile = None,
) -> None:
    """Time features, class and routing decision with the policy `default`.

    Targets: a median below 200 µs for a request of 2 KB, below 2 ms for 200 KB.
    Exit code: 0 whether met or not; timings of a busy machine prove nothing.
    """
    policy = parse_policy(Document.of_file(find_policy("default")))
    cases = measure(policy, repeats)
    Console(stderr=json_file == "-").print(_table(cases, repeats))
    result = {
        "policy": policy.name,
        "repeats": repeats,
        "cases": [case.as_json() for case in cases],
    }
    write_json(result, json_file)


@app.command()
def overhead(
    rounds: Annotated[
        int, typer.Option(min=1, help="Times that each load goes to each ingress.")
    ] = 3,
    requests: Annotated[
        int, typer.Option(min=1, help="Paced requests of each client in one run.")
    ] = 10,
    json_file: JsonFile = None,
) -> None:
    """Compare our ingress with Ray's own, in front of the same engine.

    The engine has no model: it takes 20 ms for each token, or no time at all, so what
    differs is the ingress. Each load, from 1 and from 32 clients, streamed and not,
    goes to ours, to Ray's, and to Ray's again, in an order that changes with every
    round. `same` is Ray's beside itself: how far that is from 1, or from 0 µs, is
    noise, and no smaller difference means anything.

    Targets at 20 ms a token: throughput at least 0.97 of Ray's, median latency at most
    1.05. CPU is the processor time of the ingress's process. Takes ten minutes, during
    which nothing else should run. Exit code: 0 whether met or not.
    """
    # These take seconds to import; every other command does without them.
    from orchestrator.bench.overhead import NAMES, compare, plan, summary
    from orchestrator.serving.overhead import cluster, ingresses

    console = Console(stderr=json_file == "-")
    loads = plan(requests)
    bar = Progress(
        SpinnerColumn(),
        "[progress.description]{task.description}",
        BarColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.yaml"
        file.write_text(json.dumps(cluster(_free_port(), folder)), "utf-8")
        with started(file, console) as fleet:
            ours, stock = ingresses(fleet)
            with bar:
                total = len(loads) * rounds * len(NAMES)
                task = bar.add_task("Warming up", total=total)

                def progress(load: Load) -> None:
                    bar.update(task, advance=1, description=_describe(load))

                cells = compare(ours, stock, loads, rounds, progress)
    result = {
        **summary(cells),
        "rounds": rounds,
        "cells": [cell.as_json() for cell in cells],
    }
    console.print(cells_table(cells))
    console.print(summary_table(result))
    cores = max(cell.client_cores for cell in cells)
    console.print(
        f"The client took at most {cores:.2f} of a core.",
        style="yellow" if cores > CLIENT_CORES else "",
    )
    write_json(result, json_file)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _describe(load: Load) -> str:
    clients = "1 client" if load.concurrency == 1 else f"{load.concurrency} clients"
    kind = "streamed" if load.stream else "whole"
    return f"{load.pace_ms:.0f} ms a token, {load.tokens} tokens, {kind}, {clients}"


def cells_table(cells: list[Cell]) -> Table:
    """Every load's figures; it fits 80 columns."""
    table = Table(
        title="Our ingress beside Ray's; same: Ray's beside itself",
        caption="pace: of the engine, for a token. req/s, p50 (median latency, ms) and "
        "CPU (of the ingress's process for a request, µs) are ours; ratio and added "
        "say how that compares with Ray's.",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=0,
    )
    table.add_column("answer", no_wrap=True)
    for column in (
        "pace\nms",
        "cli-\nents",
        "req/s",
        "ratio",
        "same",
        "p50",
        "ratio",
        "same",
        "CPU",
        "added",
        "same",
    ):
        table.add_column(column, justify="right", no_wrap=True)
    for cell in cells:
        load, ours = cell.load, cell.as_json()["ours"]
        table.add_row(
            f"{load.tokens} {'chunks' if load.stream else 'tokens'}",
            f"{load.pace_ms:.0f}",
            str(load.concurrency),
            f"{ours['requests_per_s']:.1f}",
            f"{cell.throughput('ours'):.3f}",
            f"{cell.throughput('again'):.3f}",
            f"{ours['latency_p50_ms']:.4g}",
            f"{cell.latency('ours'):.3f}",
            f"{cell.latency('again'):.3f}",
            f"{ours['cpu_us']:.0f}",
            f"{cell.added_cpu_us('ours'):+.0f}",
            f"{cell.added_cpu_us('again'):+.0f}",
        )
    return table


def summary_table(result: dict[str, Any]) -> Table:
    """The figures that are promised, beside their bounds."""
    from orchestrator.bench.overhead import MAX_LATENCY, MIN_THROUGHPUT

    table = Table(title="What the router costs")
    table.add_column("beside Ray's ingress")
    for column in ("ours", "same", "target", "met"):
        table.add_column(column, justify="right")
    same = result["same"]
    for key, name, bound in (
        ("throughput", "throughput", MIN_THROUGHPUT),
        ("latency_p50", "median latency", MAX_LATENCY),
    ):
        for at, value in result[key].items():
            low = key == "throughput"
            met = value >= bound if low else value <= bound
            table.add_row(
                f"{name}, concurrency {at[1:]}",
                f"{value:.3f}",
                f"{same[key][at]:.3f}",
                f"{'≥' if low else '≤'} {bound}",
                "yes" if met else "no",
                style="" if met else "yellow",
            )
    for key, value in result["cpu_us"].items():
        table.add_row(
            f"CPU for a {key}", f"{value:+.0f} µs", f"{same['cpu_us'][key]:+.0f} µs"
        )
    return table


def _table(cases: list[Case], repeats: int) -> Table:
    table = Table(title=f"Time of one decision ({repeats} each)")
    for column in ("language", "request"):
        table.add_column(column)
    for column in ("median µs", "p99 µs", "target µs (median)", "met"):
        table.add_column(column, justify="right")
    for case in cases:
        table.add_row(
            case.language,
            f"{case.size_bytes // 1024} KB",
            f"{case.median_us:.0f}",
            f"{case.p99_us:.0f}",
            f"< {case.target_us:.0f}",
            "yes" if case.met else "no",
            style="" if case.met else "yellow",
        )
    return table
