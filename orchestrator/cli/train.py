"""`orchestrator models train-draft`: from a target to a draft, step by step."""

from __future__ import annotations

import functools
import itertools
import json
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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

from orchestrator.classify.classifier import classify
from orchestrator.classify.features import extract
from orchestrator.errors import ModelBuildError
from orchestrator.models.corpus import Answer, append, held_out, read
from orchestrator.models.folder import models_dir
from orchestrator.models.prompts import Prompt, write_about, write_prompts
from orchestrator.models.target import ensure_target

if TYPE_CHECKING:
    from orchestrator.serving.generate import OfflineTarget

#: Of the prompts, the share that we write, and that the target does; the rest is about
#: texts, which come from the answers to these.
OWN_SHARE, INVENTED_SHARE = 0.4, 0.4
#: Characters of such a text, at least and at most.
PASSAGE_CHARS = (200, 900)
#: How many such texts make a passage, in turn.
JOINED = (1, 1, 1, 2, 4)
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
        int, typer.Option(min=600, help="Answers of the target to learn from.")
    ] = 9600,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over them.")] = 5,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Where all of it lies; ORCH_MODELS_DIR/training by default. 12 GB for "
            "9,600 answers.",
            file_okay=False,
        ),
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
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    target = ensure_target()
    place = folder or models_dir() / "training"
    try:
        place.mkdir(parents=True, exist_ok=True)
        _claim(place / "settings.json", answers)
        with _Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        ) as bar:
            said = _answers(bar, target, place, answers)
            _lessons(bar, target, said, place / "lessons")
            report = _train(bar, kind, target, said, place, epochs)
        text = json.dumps(report, indent=2) + "\n"
        (place / f"{kind}.json").write_text(text, "utf-8")
        _join(kind, target, place)
        if json_file is not None:
            json_file.write_text(text, "utf-8")
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


def _claim(file: Path, answers: int) -> None:
    """A folder's answers, hidden states and weights belong together."""
    settings = {"answers": answers}
    if not file.exists():
        file.write_text(json.dumps(settings), "utf-8")
    begun = json.loads(file.read_text("utf-8"))
    if begun != settings:
        raise ModelBuildError(
            f"{file.parent} was begun with --answers {begun['answers']}, not {answers}."
            " Give that number, or another --folder."
        )


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


def _answers(bar: Progress, target: Path, place: Path, wanted: int) -> list[Answer]:
    """The target's answers: to prompts of ours, of its own, and about answers."""
    # Made when first needed: it imports vLLM, and loads the target.
    engine = functools.cache(lambda: _engine(target))
    task = bar.add_task("The target answers", total=wanted, note="")
    said: list[Answer] = []

    def ask(file: Path, prompts: list[Prompt], seed: int) -> None:
        have = list(read(file))
        said.extend(have)
        bar.update(task, completed=len(said))
        left = prompts[len(have) :]
        if not left:
            return
        for some in engine().answer(left, max_tokens=256, seed=seed + len(have)):
            append(file, some)
            said.extend(some)
            bar.update(task, completed=len(said))

    own, invented = (int(wanted * share) for share in (OWN_SHARE, INVENTED_SHARE))
    ask(place / "answers.jsonl", write_prompts(own, seed=1), seed=0)
    requests = _requests(bar, engine, place / "requests-invented.json", invented)
    ask(place / "answers-invented.jsonl", requests, seed=own)
    about = _about(target, said, range(len(said), wanted))
    ask(place / "answers-about-texts.jsonl", about, seed=own + invented)
    bar.update(task, total=len(said))
    return said


def _engine(target: Path) -> OfflineTarget:
    from orchestrator.serving.generate import OfflineTarget

    return OfflineTarget(target)


def _requests(
    bar: Progress, engine: Callable[[], OfflineTarget], file: Path, wanted: int
) -> list[Prompt]:
    """Requests that the target writes itself, each of the class that fits it."""
    texts = json.loads(file.read_text("utf-8")) if file.exists() else []
    task = bar.add_task("The target writes requests", total=wanted, note="")
    bar.update(task, completed=min(len(texts), wanted))
    if len(texts) < wanted:
        for some in engine().invent(wanted, seed=3):
            texts += some
            bar.update(task, completed=min(len(texts), wanted))
        file.write_text(json.dumps(texts, ensure_ascii=False, indent=0), "utf-8")
    return [Prompt(_class_of(text), text) for text in texts[:wanted]]


def _class_of(text: str) -> str:
    return classify(extract({"messages": [{"role": "user", "content": text}]})).name


def _about(target: Path, said: list[Answer], numbers: range) -> list[Prompt]:
    """Prompts about earlier answers; about held-out ones where they are held out."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(target)
    texts: dict[bool, list[str]] = {False: [], True: []}
    for number, answer in enumerate(said):
        if answer.kind in _PROSE:
            text = tokenizer.decode(answer.answer, skip_special_tokens=True)
            if len(text) > PASSAGE_CHARS[0]:
                texts[held_out(number)].append(text[: PASSAGE_CHARS[1]].strip())
    written = {
        out: iter(write_about(_joined(some), len(numbers), seed=2))
        for out, some in texts.items()
    }
    prompts = []
    for number in numbers:
        prompt = next(written[held_out(number)], None)
        if prompt is None:  # fewer texts than wanted
            break
        prompts.append(prompt)
    return prompts


def _joined(texts: list[str]) -> list[str]:
    """Most texts alone, some joined to longer ones."""
    rest = iter(texts)
    lengths = itertools.cycle(JOINED)
    parts = iter(lambda: list(itertools.islice(rest, next(lengths))), [])
    return ["\n\n".join(part) for part in parts]


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


def _join(kind: Kind, target: Path, place: Path) -> None:
    from orchestrator.models.distil import join

    folder = place / kind
    folder.mkdir(exist_ok=True)
    join(kind.value, place / f"{kind}.safetensors", target, folder)


def _show(report: dict[str, Any]) -> None:
    table = Table(
        "class",
        *(f"first {n}" if n > 1 else "first" for n in range(1, 1 + _depth(report))),
        title="Held-out greedy answers: % of drafts whose first tokens are all right",
        box=None,
    )
    for name, shares in report["held_out"].items():
        table.add_row(name, *(f"{100 * share:.1f}" for share in shares))
    Console().print(table)


def _depth(report: dict[str, Any]) -> int:
    return len(report["held_out"]["all"])
