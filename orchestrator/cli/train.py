"""`orchestrator models train-draft`: distils a draft from the demo target."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from orchestrator.errors import ModelBuildError
from orchestrator.models.folder import models_dir
from orchestrator.models.target import ensure_target

#: Seconds between two lines of progress where there is no terminal.
LINE_EVERY_S = 60.0


class Kind(StrEnum):
    """A small Llama of its own, or a head on the target's hidden states (EAGLE-3)."""

    draft = "draft"
    eagle = "eagle"


def train_draft(
    kind: Annotated[Kind, typer.Option(help="What to train.")] = Kind.draft,
    answers: Annotated[
        int, typer.Option(min=600, help="Answers of the target to learn from.")
    ] = 9600,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over them.")] = 5,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Where all of it lies; ORCH_MODELS_DIR/training by default. 14 GB for "
            "9,600 answers.",
            file_okay=False,
        ),
    ] = None,
) -> None:
    """Distil a draft from the demo target; goes on where it was broken off.

    The target answers prompts of every class (greedy and sampled), its hidden states
    for these answers are kept, and the draft learns the target's distribution of the
    next tokens. The folder then has KIND.safetensors, the trained weights, KIND.json,
    the report, and KIND/, a model for `speculation.model` in a fleet file.
    docs/drafts.md says how to do the same for a target of your own.
    """
    console = Console(stderr=True)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    target = ensure_target()
    # Imported here: it imports PyTorch, which takes seconds.
    from orchestrator.serving.distillation import distil

    place = folder or models_dir() / "training"
    try:
        with _Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        ) as bar:
            report = distil(
                kind.value,
                target,
                place,
                answers=answers,
                epochs=epochs,
                progress=bar.show,
            )
    except OSError as error:
        raise ModelBuildError(
            f"{error}. Mend that or take another --folder."
        ) from error
    _show(report)
    console.print(
        f"Weights: {place / kind}.safetensors\n"
        f"Model, for `speculation.model`: {place / kind}",
        soft_wrap=True,
        highlight=False,
    )


class _Bar(Progress):
    """Progress that, where there is no terminal, prints a line now and then."""

    _printed = -LINE_EVERY_S

    def show(self, step: str, done: int, total: int, note: str = "") -> None:
        """Move a step on; it gets its bar when it begins."""
        known = (task.id for task in self.tasks if task.description == step)
        task = next(known, None)
        if task is None:
            task = self.add_task(step, note="")
        self.update(task, completed=done, total=total, note=note)
        now = self.get_time()
        if not self.console.is_terminal and now >= self._printed + LINE_EVERY_S:
            self._printed = now
            line = f"{step}: {done} of {total} {note}".rstrip()
            self.console.print(line, highlight=False)


def _show(report: dict[str, Any]) -> None:
    shares = report["held_out"]
    table = Table(
        "class",
        *(f"first {n}" if n > 1 else "first" for n in range(1, 1 + len(shares["all"]))),
        title="Held-out greedy answers: % of drafts whose first tokens are all right",
        box=None,
    )
    for name, row in shares.items():
        table.add_row(name, *(f"{100 * share:.1f}" for share in row))
    Console().print(table)
