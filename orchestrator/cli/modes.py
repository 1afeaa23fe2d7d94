"""`orchestrator bench modes`: what each speculative mode gains, class by class."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from orchestrator.bench.workload import LABELLED, balanced, read_workload
from orchestrator.cli.fleet import LOCAL_CPU, started
from orchestrator.cli.json_output import JsonFile, write_json
from orchestrator.config.servefile import load_fleet

if TYPE_CHECKING:
    from orchestrator.bench.modes import Cell, Sample


def modes(
    requests: Annotated[
        Path,
        typer.Option(
            help='JSON Lines, each {"id", "label": CLASS, "request": CHAT BODY}.',
            exists=True,
            dir_okay=False,
        ),
    ] = LABELLED,
    cluster: Annotated[
        Path, typer.Option(help="A Ray Serve config file, as `serve deploy` takes it.")
    ] = LOCAL_CPU,
    each: Annotated[int, typer.Option(min=1, help="Requests of each class.")] = 5,
    temperatures: Annotated[
        str, typer.Option(help="Each request is sent at all of these.")
    ] = "0,0.7,1",
    rounds: Annotated[int, typer.Option(min=1, help="Times that all is sent.")] = 1,
    max_tokens: Annotated[int, typer.Option(min=2, help="Longest answer.")] = 128,
    json_file: JsonFile = None,
) -> None:
    """Send the same requests to every pool of a fleet, and show what each mode gains.

    Starts the fleet, sends one request at a time, and stops the fleet. The pools take
    turns at being first, and each round is compared with itself, since machines are
    noisy. The fleet's policy must let clients choose the pool.
    """
    # The client takes a second to import; every other command does without it.
    from orchestrator.bench.modes import measure, summarise
    from orchestrator.serving.memory import memory_gib

    warmth = _numbers(temperatures)
    chosen = balanced(read_workload(requests), each)
    file = load_fleet(cluster).fleet
    pools = list(file.pools)
    plain = next(p for p in pools if file.pools[p].speculation.method == "none")
    console = Console(stderr=json_file == "-")
    bar = Progress(
        SpinnerColumn(),
        "[progress.description]{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with started(cluster, console) as fleet, bar:
        total = len(chosen) * len(warmth) * len(pools) * rounds
        task = bar.add_task("Warming up", total=total)

        def progress(sample: Sample) -> None:
            text = f"{sample.label}, temperature {sample.temperature:g}, {sample.pool}"
            bar.update(task, advance=1, description=text)

        samples = measure(
            fleet.url,
            file.model.id,
            pools,
            chosen,
            warmth,
            rounds=rounds,
            max_tokens=max_tokens,
            progress=progress,
        )
        memory = memory_gib()
    cells = summarise(samples, plain)
    for temperature in warmth:
        console.print(_table([c for c in cells if c.temperature == temperature]))
    for pool, gib in memory.items():
        console.print(
            f"Memory of {pool}: {gib:.2f} GiB", highlight=False, soft_wrap=True
        )
    result = {
        "cells": [asdict(cell) for cell in cells],
        "samples": [asdict(sample) for sample in samples],
        "memory_gib": memory,
    }
    write_json(result, json_file)


def _numbers(text: str) -> list[float]:
    try:
        numbers = sorted({float(part) for part in text.split(",")})
    except ValueError:
        numbers = [-1.0]
    if not all(0 <= number <= 2 for number in numbers):
        raise typer.BadParameter(
            "numbers from 0 to 2, split by commas, such as 0,0.7,1",
            param_hint="--temperatures",
        )
    return numbers


def _table(cells: list[Cell]) -> Table:
    table = Table(
        title=f"Temperature {cells[0].temperature:g}",
        caption="ratio: tokens/s beside the plain pool. tokens/step: 1 is plain "
        "decoding. accepted: % of draft steps whose first 1, 2, ... tokens were right.",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for column in ("class", "pool"):
        table.add_column(column, no_wrap=True)
    for column in ("tok/s", "ratio", "tokens/step", "ms/step"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("accepted", no_wrap=True)
    before = ""
    for cell in cells:
        table.add_row(
            cell.label if cell.label != before else "",
            cell.pool,
            f"{cell.tokens_per_s:.1f}",
            f"{cell.ratio:.2f}",
            f"{cell.effective_tokens:.2f}",
            f"{1000 * cell.step_s:.0f}",
            " ".join(f"{100 * share:.0f}" for share in cell.acceptance),
            style="bold" if cell.label == "all" else "",
        )
        before = cell.label
    return table
