from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from orchestrator.errors import ModelBuildError
from orchestrator.models import distil
from orchestrator.models import train as train_module
from orchestrator.models.corpus import Answer, held_out
from orchestrator.models.distil import choose_vocabulary, join, new_draft, train
from orchestrator.models.drafts import EagleHead
from orchestrator.models.export import EMBEDDING
from orchestrator.models.teacher import AUX_LAYERS, Lessons, prepare
from orchestrator.models.train import Lesson, Plan, Trainer


def quiet(done: int, count: int, loss: float = 0.0) -> None:
    """A progress that shows nothing."""


@pytest.fixture(scope="module")
def answers(small_target: Path) -> list[Answer]:
    """The target's own greedy answers to 60 short prompts."""
    model = AutoModelForCausalLM.from_pretrained(small_target, dtype=torch.bfloat16)
    said = []
    for number in range(60):
        prompt = [1, 3 + number % 8, 3 + number // 8]
        whole = model.generate(
            torch.tensor([prompt]),
            max_new_tokens=10 + number % 3,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=2,
        )[0].tolist()
        kind = "code" if number < 30 else "open"
        said.append(Answer(kind, 0.0, prompt, whole[len(prompt) :]))
    return said


@pytest.fixture(scope="module")
def lessons(
    small_target: Path,
    answers: list[Answer],
    tmp_path_factory: pytest.TempPathFactory,
) -> Lessons:
    folder = tmp_path_factory.mktemp("lessons")
    model = AutoModelForCausalLM.from_pretrained(small_target, dtype=torch.bfloat16)
    prepare(model, answers, folder, quiet)
    return Lessons(folder)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distil, "VOCABULARY", 40)
    monkeypatch.setattr(distil, "SPECIAL", 3)


def test_lessons_hold_what_the_target_thought(
    small_target: Path, answers: list[Answer], lessons: Lessons
) -> None:
    model = AutoModelForCausalLM.from_pretrained(small_target, dtype=torch.bfloat16)
    batch = lessons.load([5, 6])
    text = answers[5].prompt + answers[5].answer
    assert batch.lengths[0] == len(text)
    assert batch.tokens[0, : len(text)].tolist() == text
    assert batch.starts == [3, 3]
    with torch.inference_mode():
        states = model.model(torch.tensor([text]), output_hidden_states=True)
    # Other rows in the batch may round differently.
    near = {"rtol": 0.1, "atol": 0.1}
    last = states.last_hidden_state[0]
    torch.testing.assert_close(batch.last[0, : len(text)], last, **near)
    high = torch.cat([states.hidden_states[layer][0] for layer in AUX_LAYERS], -1)
    torch.testing.assert_close(batch.features[0, : len(text)], high, **near)


def test_texts_that_are_too_long_are_not_trained_on(
    small_target: Path, lessons: Lessons, tmp_path: Path
) -> None:
    embed = load_file(small_target / "model.safetensors")[EMBEDDING]
    lengths = lessons.texts["lengths"]
    limit = sorted(lengths)[30]

    def steps(longest: int) -> int:
        draft = new_draft("eagle", small_target)
        # As many steps as texts.
        plan = Plan(1, streams=2, rate=1e-3, batch_tokens=1, longest=longest)
        state = tmp_path / f"{longest}.pt"
        trainer = Trainer(draft, embed, torch.arange(5), lessons, plan, state)
        counts: list[int] = []
        trainer.run(lambda done, count, loss: counts.append(count))
        return counts[-1]

    short = sum(length <= limit and not held_out(n) for n, length in enumerate(lengths))
    assert 25 < steps(limit) == short < steps(99)


def test_batches_hold_every_text_once(lessons: Lessons) -> None:
    batches = list(lessons.batches(range(lessons.count), 50))
    assert sorted(text for batch in batches for text in batch) == list(range(60))
    assert max(len(batch) for batch in batches) <= 4
    assert len(batches) > 15


@pytest.mark.parametrize("kind", ["draft", "eagle"])
def test_each_stream_is_judged_by_the_token_that_it_drafts(
    kind: Any, small_target: Path, lessons: Lessons
) -> None:
    draft = new_draft(kind, small_target)
    batch = lessons.load([5])
    lesson = Lesson(batch, draft, 3)
    text = batch.tokens[0].tolist()
    start, end = batch.starts[0], batch.lengths[0]
    # The first token of an answer is the target's own.
    assert lesson.next_tokens().tolist() == text[start + 1 : end]
    # The target judges where it stood just before each token.
    assert torch.equal(lesson.truth(), batch.last[0, start : end - 1])
    bases = torch.arange(len(text)).float()[None, :, None]
    aligned = lesson.aligned([bases] * 3)[..., 0]
    for stream in range(3):
        judged = lesson.judged[stream][0].nonzero().flatten().tolist()
        assert judged == list(range(start + stream, end - 1))
        # A stream's state at base b drafts the token at b + first + stream.
        drafted = (aligned[stream, stream:] + draft.first + stream).tolist()
        assert drafted == list(range(start + 1 + stream, end))


def test_a_thinned_lesson_judges_every_stream_at_the_same_places(
    small_target: Path, lessons: Lessons
) -> None:
    torch.manual_seed(3)
    lesson = Lesson(lessons.load(list(range(40))), new_draft("eagle", small_target), 3)
    before = lesson.judged.clone()
    lesson.thin(0.5)
    places = lesson.judged[0]
    assert 0.4 < places.sum() / before[0].sum() < 0.6
    assert torch.equal(lesson.judged, before & places)
    assert len(lesson.truth()) == len(lesson.next_tokens()) == places.sum()


@pytest.mark.parametrize("kind", ["draft", "eagle"])
def test_training_learns_and_writes_what_can_be_joined(
    kind: Any,
    small_target: Path,
    answers: list[Answer],
    lessons: Lessons,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(distil.RATES, kind, 3e-3)
    args = (kind, small_target, answers, lessons, tmp_path)
    first = train(*args, epochs=2, progress=quiet)
    # It goes on where it was: two epochs are left.
    steps: list[int] = []
    report = train(*args, epochs=4, progress=lambda done, *_: steps.append(done))
    assert [epoch["epoch"] for epoch in report["epochs"]] == [1, 2, 3, 4]
    assert report["epochs"][:2] == first["epochs"]
    assert steps[0] == len(steps) + 1
    assert report["epochs"][-1]["loss"] < report["epochs"][0]["loss"]
    survival = report["held_out"]["all"]
    assert survival == sorted(survival, reverse=True)
    assert set(report["held_out"]) == {"all", "code", "open"}

    folder = tmp_path / "joined"
    folder.mkdir()
    join(kind, tmp_path / f"{kind}.safetensors", small_target, folder)
    assert (folder / "config.json").is_file()
    assert "vocabulary" not in load_file(folder / "model.safetensors")


def test_weights_of_other_answers_are_not_trained_on(
    small_target: Path, answers: list[Answer], lessons: Lessons, tmp_path: Path
) -> None:
    train("eagle", small_target, answers, lessons, tmp_path, 1, quiet)
    # As long, and of the same tokens.
    others = [replace(a, answer=a.answer[::-1]) for a in answers]
    model = AutoModelForCausalLM.from_pretrained(small_target, dtype=torch.bfloat16)
    prepare(model, others, tmp_path, quiet)
    with pytest.raises(ModelBuildError, match=r"eagle\.pt is of other answers"):
        train("eagle", small_target, others, Lessons(tmp_path), tmp_path, 2, quiet)


def test_fewer_epochs_than_were_trained_are_refused(
    small_target: Path, answers: list[Answer], lessons: Lessons, tmp_path: Path
) -> None:
    train("eagle", small_target, answers, lessons, tmp_path, 2, quiet)
    with pytest.raises(ModelBuildError, match="has 2 epochs already, more than 1"):
        train("eagle", small_target, answers, lessons, tmp_path, 1, quiet)


def test_a_run_that_was_broken_off_goes_on_as_if_it_had_not(
    small_target: Path,
    answers: list[Answer],
    lessons: Lessons,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(train_module, "SAVE_STEPS", 2)
    monkeypatch.setattr(distil, "Plan", partial(Plan, batch_tokens=100))

    def train_in(name: str, progress: Any) -> dict[str, Any]:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return train("eagle", small_target, answers, lessons, folder, 2, progress)

    def break_off(done: int, count: int, loss: float) -> None:
        if done == count - 2:
            raise KeyboardInterrupt

    whole = train_in("whole", quiet)
    with pytest.raises(KeyboardInterrupt):
        train_in("broken", break_off)
    steps: list[int] = []
    broken = train_in("broken", lambda done, count, loss: steps.append(count - done))
    assert steps[-1] == 0
    assert 2 <= steps[0] <= 4  # only what was not kept is done again
    assert broken["sha256"] == whole["sha256"]
    assert [e["loss"] for e in broken["epochs"]] == [e["loss"] for e in whole["epochs"]]


def test_nothing_of_a_held_out_answer_is_learned() -> None:
    rare = Answer("open", 0.0, [1], [50] * 100)
    common = Answer("open", 0.0, [1], [40])
    answers = [rare if held_out(n) else common for n in range(60)]
    assert sum(map(held_out, range(60))) == 2
    learned = [a for n, a in enumerate(answers) if not held_out(n)]
    assert choose_vocabulary(learned, 5, special=3).tolist() == [0, 1, 2, 3, 40]


def test_hidden_states_that_do_not_fit_are_refused_before_they_are_made(
    small_target: Path,
    answers: list[Answer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = AutoModelForCausalLM.from_pretrained(small_target, dtype=torch.bfloat16)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=9))
    # What a run that was broken off has written makes room.
    (tmp_path / "last.bf16").write_bytes(b"x")
    with pytest.raises(ModelBuildError, match=r"hidden states need .* GB"):
        prepare(model, answers, tmp_path, quiet)
    assert not list(tmp_path.iterdir())


def test_a_draft_that_knows_the_text_is_always_right(
    small_target: Path, lessons: Lessons, tmp_path: Path
) -> None:
    embed = load_file(small_target / "model.safetensors")[EMBEDDING]
    trainer = Trainer(
        _Oracle(),
        embed,
        torch.arange(embed.shape[0]),
        lessons,
        Plan(epochs=1, streams=2, rate=1e-3),
        tmp_path / "state.pt",
    )
    assert trainer.evaluate()["all"] == [1.0, 1.0]


class _Oracle(EagleHead):
    """Says the token that comes: its output is that token's row, far out."""

    def __init__(self) -> None:
        torch.nn.Module.__init__(self)
        self.unused = torch.nn.Parameter(torch.zeros(1))

    def forward(self, embed: Any, tokens: Any, *args: Any) -> list[torch.Tensor]:
        rows = embed / embed.float().norm(dim=-1, keepdim=True) ** 2
        return [100 * rows[torch.roll(tokens, -2 - stream, 1)] for stream in range(2)]
