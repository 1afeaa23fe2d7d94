"""`orchestrator models train-draft`: from a target to a draft, step by step."""

from __future__ import annotations

import hashlib
import json
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
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from orchestrator.models.corpus import Answer, append, read
from orchestrator.models.folder import models_dir
from orchestrator.models.prompts import Prompt, write_about, write_prompts
from orchestrator.models.target import ensure_target

#: Of the prompts, the share that is about a text; it comes from earlier answers.
ABOUT_SHARE = 0.25
#: Characters of such a text.
PASSAGE_CHARS = 900
#: Seconds between two lines of progress where there is no terminal.
LINE_EVERY_S = 60.0
#: Kinds of answers that make a text to be asked about.
_PROSE = ("creative", "open")


class Kind(StrEnum):
    """A small Llama of its own, or a head on the target's hidden states (EAGLE-3)."""

    draft = "draft"
    eagle = "eagle"


def train_draft(
    kind: Annotated[Kind, typer.Option(help="What to train.")] = Kind.draft,
    answers: Annotated[
        int, typer.Option(min=60, help="Answers of the target to learn from.")
    ] = 6000,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over them.")] = 5,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where all of it lies; ORCH_MODELS_DIR/training by default."),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the report to FILE."),
    ] = None,
) -> None:
    """Distil a draft from the demo target; goes on where it was broken off.

    The target answers prompts of every class (greedy and sampled), its hidden states
    for these answers are kept, and the draft learns the target's distribution of the
    next tokens. docs/drafts.md says how to do the same for a target of your own.
    """
    console = Console(stderr=True)
    place = folder or models_dir() / "training"
    place.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    target = ensure_target()
    with _Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    ) as bar:
        said = _answers(bar, target, place / "answers.jsonl", answers)
        _lessons(bar, target, said, place / "lessons")
        report = _train(bar, kind, target, said, place, epochs)
    file = place / f"{kind}.safetensors"
    report["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    text = json.dumps(report, indent=2) + "\n"
    (place / f"{kind}.json").write_text(text, "utf-8")
    if json_file is not None:
        json_file.write_text(text, "utf-8")
    _show(report, file)


class _Bar(Progress):
    """Progress that, where there is no terminal, prints a line now and then."""

    _printed = -LINE_EVERY_S

    def update(self, task_id: TaskID, **fields: Any) -> None:
        """Move on."""
        super().update(task_id, **fields)
        now = self.get_time()
        if self.console.is_terminal or now < self._printed + LINE_EVERY_S:
            return
        self._printed = now
        task = self.tasks[task_id]
        note = task.fields["note"]
        line = f"{task.description}: {task.completed:.0f} of {task.total or 0:.0f}"
        self.console.print(f"{line} {note}".rstrip(), highlight=False)


def _answers(bar: Progress, target: Path, file: Path, wanted: int) -> list[Answer]:
    task = bar.add_task("The target answers", total=wanted, note="")
    have = list(read(file))
    own = wanted - int(wanted * ABOUT_SHARE)

    def ask(prompts: list[Prompt], before: int) -> None:
        # Imported here: it needs vLLM, which takes seconds to import.
        from orchestrator.serving.generate import generate

        left = prompts[len(have) - before :]
        for some in generate(target, left, max_tokens=256, seed=len(have)):
            append(file, some)
            have.extend(some)
            bar.update(task, completed=len(have))

    bar.update(task, completed=min(len(have), wanted))
    if len(have) < own:
        ask(write_prompts(own, seed=1), 0)
    if len(have) < wanted:
        passages = _passages(target, have[:own])
        ask(write_about(passages, wanted - own, seed=2), own)
    return have[:wanted]


def _passages(target: Path, answers: list[Answer]) -> list[str]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(target)
    prose = [answer.answer for answer in answers if answer.kind in _PROSE]
    texts = tokenizer.batch_decode(prose, skip_special_tokens=True)
    return [text[:PASSAGE_CHARS].strip() for text in texts if len(text) > 200]


def _lessons(bar: Progress, target: Path, answers: list[Answer], folder: Path) -> None:
    from orchestrator.models.teacher import Lessons, prepare

    task = bar.add_task("The target's hidden states", total=len(answers), note="")
    if (folder / "texts.json").exists() and Lessons(folder).count == len(answers):
        bar.update(task, completed=len(answers))
        return
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.bfloat16)
    prepare(model, answers, folder, lambda done, _: bar.update(task, completed=done))


def _train(
    bar: Progress,
    kind: Kind,
    target: Path,
    answers: list[Answer],
    folder: Path,
    epochs: int,
) -> dict[str, Any]:
    from orchestrator.models.distil import train
    from orchestrator.models.teacher import Lessons

    task = bar.add_task(f"Training ({kind})", total=None, note="")

    def progress(done: int, steps: int, loss: float) -> None:
        bar.update(task, completed=done, total=steps, note=f"loss {loss:.3f}")

    lessons = Lessons(folder / "lessons")
    return train(kind.value, target, answers, lessons, folder, epochs, progress)


def _show(report: dict[str, Any], file: Path) -> None:
    console = Console()
    table = Table(
        "class",
        *(f"first {n}" if n > 1 else "first" for n in range(1, 1 + _depth(report))),
        title="Held-out greedy answers: % of drafts whose first tokens are all right",
        box=None,
    )
    for name, shares in report["held_out"].items():
        table.add_row(name, *(f"{100 * share:.1f}" for share in shares))
    console.print(table)
    console.print(f"Weights: {file}", soft_wrap=True, highlight=False)


def _depth(report: dict[str, Any]) -> int:
    return len(report["held_out"]["all"])
