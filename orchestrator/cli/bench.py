"""`orchestrator bench`: measurements that need no fleet."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from orchestrator.bench.decision import Case, measure
from orchestrator.config.document import Document
from orchestrator.config.policy import parse_policy
from orchestrator.config.shipped import find_policy

app = typer.Typer(help="Measure: what a routing decision costs.")


@app.callback()
def _group() -> None:
    """Keep `decision` a subcommand while it is the only one."""


@app.command()
def decision(
    repeats: Annotated[
        int, typer.Option(min=1, help="Decisions timed for each kind of request.")
    ] = 500,
    json_file: Annotated[
        str | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the result to FILE (- for stdout)."
        ),
    ] = None,
) -> None:
    """Time features, class and routing decision with the policy `default`.

    Targets: a median below 200 µs for a request of 2 KB, below 2 ms for 200 KB.
    Exit code: 0 whether met or not; timings of a busy machine prove nothing.
    """
    policy = parse_policy(Document.of_file(find_policy("default")))
    cases = measure(policy, repeats)
    Console(stderr=json_file == "-").print(_table(cases, repeats))
    if json_file is not None:
        result = {
            "policy": policy.name,
            "repeats": repeats,
            "cases": [case.as_json() for case in cases],
        }
        text = json.dumps(result, indent=2) + "\n"
        if json_file == "-":
            sys.stdout.write(text)
        else:
            Path(json_file).write_text(text, "utf-8")


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
