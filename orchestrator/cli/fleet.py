"""`orchestrator serve` and `orchestrator demo`: a fleet on this machine."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn
from rich.status import Status
from rich.table import Table

from orchestrator.bench.demo_requests import REQUESTS
from orchestrator.config.servefile import load_fleet
from orchestrator.config.shipped import shipped_dir
from orchestrator.errors import FleetError

if TYPE_CHECKING:
    from orchestrator.bench.demo import Comparison
    from orchestrator.serving.launcher import RunningFleet

LOCAL_CPU = shipped_dir("clusters") / "local-cpu.yaml"

Cluster = Annotated[
    Path, typer.Argument(help="A Ray Serve config file, as `serve deploy` takes it.")
]


@contextlib.contextmanager
def started(cluster: Path, console: Console) -> Iterator[RunningFleet]:
    """The fleet of `cluster`, started with its progress shown, stopped at the end."""
    # Ray takes seconds to import; every other command does without it.
    from orchestrator.serving.launcher import running_fleet

    begun = time.monotonic()
    status = Status("Starting Ray …", console=console)

    def progress(states: dict[str, str]) -> None:
        ready = [name for name, state in states.items() if state == "HEALTHY"]
        waiting = [name for name in states if name not in ready]
        status.update(
            f"{len(ready)} of {len(states)} deployments ready; "
            f"waiting for {', '.join(waiting) or 'the application'} …"
        )

    status.start()
    try:
        with running_fleet(cluster, progress) as fleet:
            status.stop()
            console.print(f"The fleet is ready after {time.monotonic() - begun:.0f} s.")
            try:
                yield fleet
            finally:
                status.update("Stopping the fleet …")
                status.start()
    finally:
        status.stop()


def serve(cluster: Cluster = LOCAL_CPU) -> None:
    """Start a fleet and keep it in the foreground; Ctrl-C ends it."""
    console = Console()
    with contextlib.suppress(KeyboardInterrupt), started(cluster, console) as fleet:
        console.print(
            f"It answers at {fleet.url}/v1, for example:\n\n"
            f"  curl -si {fleet.url}/v1/chat/completions "
            "-H 'content-type: application/json' \\\n"
            '    -d \'{"messages": [{"role": "user", '
            '"content": "Return a JSON array of 3 users"}]}\'\n'
            f"  curl -s {fleet.url}/router/status\n\n"
            f"Ray's dashboard is at {fleet.dashboard}. Ctrl-C ends the fleet.",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        threading.Event().wait()
    console.print("The fleet has ended.")


def demo(
    cluster: Cluster = LOCAL_CPU,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the results here; - is stdout.")
    ] = None,
) -> None:
    """Start a fleet, route a dozen requests, compare each with plain decoding, stop.

    Every request is sent twice: once routed by the policy, once to the pool without
    speculation, so that the table shows what routing gained on this machine.
    """
    # The client takes a second to import; every other command does without it.
    from openai import APIError

    from orchestrator.bench.demo import compare

    console = Console(stderr=json_file == Path("-"))
    fleet_file = load_fleet(cluster).fleet
    plain = next(
        name for name, p in fleet_file.pools.items() if p.speculation.method == "none"
    )
    bar = Progress(
        SpinnerColumn(),
        "[progress.description]{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
        transient=True,
    )
    with started(cluster, console) as fleet:
        with bar:
            task = bar.add_task("Warming up", total=len(REQUESTS))
            results: list[Comparison] = []
            try:
                for done in compare(
                    fleet.url, fleet_file.model.id, fleet_file.pools, plain
                ):
                    results.append(done)
                    name = done.routed.request
                    bar.update(task, advance=1, description=f"Sent: {name}")
            except APIError as error:
                raise FleetError(f"A request of the demo failed: {error}") from error
        console.print(comparison_table(results))
    if json_file is not None:
        text = json.dumps([asdict(r) for r in results], ensure_ascii=False, indent=2)
        if json_file == Path("-"):
            print(text)
        else:
            json_file.write_text(text + "\n", encoding="utf-8")


def comparison_table(results: list[Comparison]) -> Table:
    """The demo's table; it fits 80 columns."""
    table = Table(
        title="Each request as it was routed, and the same on the plain pool",
        caption="tok/s: completion tokens over the request's whole time. acc.: share "
        "of the draft tokens accepted. tok/step: what one step of the engine yields. "
        "One run each: this is no benchmark.",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=0,
    )
    table.add_column("request", overflow="fold", min_width=12)
    for name in ("class", "rule", "pool"):
        table.add_column(name, no_wrap=True)
    for name in ("tok/s", "acc.", "tok/\nstep", "plain\ntok/s", "gain"):
        table.add_column(name, justify="right", no_wrap=True)
    for result in results:
        run, plain = result.routed, result.plain
        same = run is plain
        gain = run.tokens_per_s / plain.tokens_per_s
        table.add_row(
            run.request,
            run.request_class,
            run.rule,
            run.pool,
            f"{run.tokens_per_s:.1f}",
            "–" if run.acceptance_rate is None else f"{run.acceptance_rate:.0%}",
            "–" if run.effective_tokens is None else f"{run.effective_tokens:.2f}",
            f"{plain.tokens_per_s:.1f}",
            "–" if same else f"{gain:.2f}×",
            style="" if same else "green" if gain > 1 else "yellow",
        )
    return table
