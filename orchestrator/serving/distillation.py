"""From the demo target to a trained draft; goes on where it was broken off.

It lies here because the target answers in a vLLM engine; the training does not.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from orchestrator.bench.workload import LABELLED, read_workload
from orchestrator.classify.classifier import classify
from orchestrator.classify.features import extract
from orchestrator.errors import ModelBuildError
from orchestrator.models.corpus import (
    Answer,
    append,
    fingerprint,
    held_out,
    read,
    replace_text,
)
from orchestrator.models.distil import Kind, join, train
from orchestrator.models.prompts import Prompt, write_about, write_prompts
from orchestrator.models.teacher import Lessons, prepare
from orchestrator.serving.generate import BATCH, OfflineTarget

#: Of the prompts, the share that we write, and that the target does; the rest is about
#: texts, which come from the answers to these.
OWN_SHARE, INVENTED_SHARE = 0.4, 0.4
#: Prompts whose answers come together: what is lost when a run is broken off.
ROUND = 5 * BATCH
#: Tokens at which an answer is cut.
ANSWER_TOKENS = 256
#: Characters of a text to be asked about, at least and at most.
PASSAGE_CHARS = (200, 900)
#: How many such texts make a passage, in turn.
JOINED = (1, 1, 1, 2)
#: Kinds of answers that make such a text.
_PROSE = ("creative", "open")


class Progress(Protocol):
    """Told how far a step is: its name, what is done, of how much, and a remark."""

    def __call__(self, step: str, done: int, total: int, note: str = "") -> None:
        """Show it."""


def distil(
    kind: Kind,
    target: Path,
    folder: Path,
    *,
    answers: int,
    epochs: int,
    progress: Progress,
) -> dict[str, Any]:
    """Train a draft for the model in `target` on `answers` of its own; the report.

    `folder` then holds KIND.safetensors (the trained parameters), KIND.json (the
    report) and KIND/ (a model that vLLM loads), and all that led there.

    Raises:
        ModelBuildError: the folder is in use, was begun with another number of answers,
            or has no room.
        OSError: it can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _claimed(folder, answers):
        said = _answers(progress, target, folder, answers)
        lessons = _lessons(progress, target, said, folder / "lessons")

        def trained(done: int, steps: int, loss: float) -> None:
            progress(f"Training ({kind})", done, steps, f"loss {loss:.3f}")

        report = train(kind, target, said, lessons, folder, epochs, trained)
        replace_text(folder / f"{kind}.json", json.dumps(report, indent=2) + "\n")
        model = folder / kind
        model.mkdir(exist_ok=True)
        join(kind, folder / f"{kind}.safetensors", target, model)
    return report


@contextlib.contextmanager
def _claimed(folder: Path, answers: int) -> Iterator[None]:
    """A folder's answers, hidden states and weights belong together, and to one run."""
    with (folder / "settings.json").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ModelBuildError(
                f"Another train-draft works in {folder}. Wait for its end, or give"
                " another --folder."
            ) from error
        file.seek(0)
        begun = file.read()
        if not begun:
            file.write(json.dumps({"answers": answers}))
            file.flush()
        elif (before := json.loads(begun)["answers"]) != answers:
            raise ModelBuildError(
                f"{folder} was begun with --answers {before}, not {answers}. Give that"
                " number, or another --folder."
            )
        yield


def _answers(
    progress: Progress, target: Path, folder: Path, wanted: int
) -> list[Answer]:
    """The target's answers: to prompts of ours, of its own, and about answers."""
    said: list[Answer] = []
    with contextlib.ExitStack() as stack:
        # Made when first needed: it imports vLLM, and loads the target.
        engine = functools.cache(
            lambda: stack.enter_context(contextlib.closing(OfflineTarget(target)))
        )

        def ask(name: str, prompts: list[Prompt]) -> None:
            file = folder / f"{name}.jsonl"
            have = list(read(file))
            said.extend(have)
            progress("The target answers", len(said), wanted)
            for first in range(len(have), len(prompts), ROUND):
                some = prompts[first : first + ROUND]
                new = engine().answer(some, ANSWER_TOKENS, seed=len(said))
                append(file, new)
                said.extend(new)
                progress("The target answers", len(said), wanted)

        own, invented = (int(wanted * share) for share in (OWN_SHARE, INVENTED_SHARE))
        ask("answers", write_prompts(own, seed=1))
        ask("answers-invented", _requests(progress, engine, folder, invented))
        about = _about(target, said, range(own + invented, wanted))
        ask("answers-about-texts", about)
    return said


def _requests(
    progress: Progress, engine: Callable[[], OfflineTarget], folder: Path, wanted: int
) -> list[Prompt]:
    """Requests that the target writes itself, each of the class that fits it."""
    file = folder / "requests-invented.json"
    rounds: list[list[str]] = (
        json.loads(file.read_text("utf-8")) if file.exists() else []
    )
    labelled = {
        message["content"]
        for row in read_workload(LABELLED)
        for message in row.request["messages"]
    }
    while True:
        texts = dict.fromkeys(itertools.chain.from_iterable(rounds))
        # Those stay for measuring.
        fresh = [text for text in texts if text not in labelled][:wanted]
        progress("The target writes requests", len(fresh), wanted)
        if len(fresh) == wanted:
            return [Prompt(_class_of(text), text) for text in fresh]
        rounds.append(engine().invent(ROUND, seed=ROUND * len(rounds)))
        replace_text(file, json.dumps(rounds, ensure_ascii=False, indent=0))


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


def _lessons(
    progress: Progress, target: Path, answers: list[Answer], folder: Path
) -> Lessons:
    """The target's hidden states for these answers."""
    if (folder / "texts.json").exists():
        lessons = Lessons(folder)
        if lessons.texts["answers"] == fingerprint(answers):
            return lessons
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.bfloat16)
    step = functools.partial(progress, "The target's hidden states")
    prepare(model, answers, folder, step)
    return Lessons(folder)
