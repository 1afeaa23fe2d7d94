from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestrator.bench.workload import LABELLED, read_workload
from orchestrator.cli.models import app
from orchestrator.errors import ModelBuildError
from orchestrator.models.corpus import Answer, append, held_out, read
from orchestrator.models.prompts import Prompt, write_prompts
from orchestrator.serving import distillation

TEXT = "A harbour that froze in January. " * 10


class Words:
    """A tokenizer whose every token is a whole text."""

    @classmethod
    def from_pretrained(cls, folder: Path) -> Words:
        return cls()

    def decode(self, tokens: list[int], skip_special_tokens: bool) -> str:
        return f"{tokens[0]}: {TEXT}"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Prompt]:
    """The prompts that the target was asked; it answers with their numbers."""
    asked: list[Prompt] = []

    class Target:
        def __init__(self, model: Path) -> None:
            """No engine."""

        def invent(self, count: int, seed: int) -> list[str]:
            some = [f"What is number {seed // 100 + n}?" for n in range(50)]
            labelled = read_workload(LABELLED)[seed // 100].request["messages"]
            return [some[0], *some, labelled[-1]["content"]]

        def answer(self, prompts: list[Prompt], max_tokens: int, seed: int) -> Any:
            first = len(asked)
            asked.extend(prompts)
            return [
                Answer(p.kind, 0.0, [1], [first + n]) for n, p in enumerate(prompts)
            ]

        def close(self) -> None:
            """Nothing."""

    monkeypatch.setattr(distillation, "OfflineTarget", Target)
    monkeypatch.setattr(distillation, "ROUND", 100)
    monkeypatch.setattr("transformers.AutoTokenizer", Words)
    return asked


def quiet(step: str, done: int, total: int, note: str = "") -> None:
    """A progress that shows nothing."""


def answers_of(folder: Path, wanted: int) -> list[Answer]:
    return distillation._answers(quiet, Path("target"), folder, wanted)


def test_prompts_are_ours_the_targets_and_about_answers(
    asked: list[Prompt], tmp_path: Path
) -> None:
    said = answers_of(tmp_path, 1000)
    assert [p.text for p in asked[:400]] == [p.text for p in write_prompts(400, 1)]
    assert {p.kind for p in asked[400:800]} == {"open"}
    # Each once, and none of those that the benches send.
    invented = [f"What is number {n}?" for n in range(400)]
    assert sorted(p.text for p in asked[400:800]) == sorted(invented)
    about = asked[800:]
    assert 100 < len(about) <= 200
    assert len(said) == len(asked)
    for number, prompt in enumerate(about, 800):
        # A text is `NUMBER: ...`, the number of the answer that it was made of.
        sources = re.findall(rf"(\d+): {TEXT[:20]}", prompt.text)
        assert {held_out(int(source)) for source in sources} == {held_out(number)}
    assert any(map(held_out, range(800, len(said))))
    lengths = {prompt.text.count(TEXT.strip()) for prompt in about}
    assert lengths == {1, 2}


def test_what_was_answered_is_not_asked_again(
    asked: list[Prompt], tmp_path: Path
) -> None:
    whole = answers_of(tmp_path, 1000)
    before = len(asked)
    asked.clear()
    file = tmp_path / "answers.jsonl"
    file.unlink()
    append(file, whole[:300])
    with file.open("a") as cut_off:
        cut_off.write('{"kind": "co')
    again = answers_of(tmp_path, 1000)
    assert len(asked) == 100
    assert before == len(again) == len(whole)
    assert [a.kind for a in again] == [a.kind for a in whole]
    assert len(list(read(file))) == 400


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch, small_target: Path) -> Path:
    monkeypatch.setattr("orchestrator.cli.train.ensure_target", lambda: small_target)
    return small_target


def run(folder: Path, *options: str) -> Any:
    arguments = ["train-draft", "--kind", "eagle", "--folder", str(folder), *options]
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of the size of the small target, without an engine."""

    class Target:
        def __init__(self, model: Path) -> None:
            """No engine."""

        def invent(self, count: int, seed: int) -> list[str]:
            return [f"Number {seed + n}, please." for n in range(count)]

        def answer(self, prompts: list[Prompt], max_tokens: int, seed: int) -> Any:
            numbers = range(seed, seed + len(prompts))
            return [
                Answer(p.kind, 0.0, [1, 3 + n % 8], [5, 6, 7, 8, 2])
                for n, p in zip(numbers, prompts, strict=True)
            ]

        def close(self) -> None:
            """Nothing."""

    monkeypatch.setattr(distillation, "OfflineTarget", Target)
    monkeypatch.setattr("orchestrator.models.distil.VOCABULARY", 40)
    monkeypatch.setattr("orchestrator.models.distil.SPECIAL", 3)


@pytest.mark.usefixtures("few", "target")
def test_the_command_goes_from_answers_to_a_model(tmp_path: Path) -> None:
    result = run(tmp_path, "--answers", "600", "--epochs", "1")
    assert result.exit_code == 0, result.output
    assert "Held-out greedy answers" in result.stdout
    assert "The target answers: 0 of 600" in result.stderr
    assert f"Model, for `speculation.model`: {tmp_path / 'eagle'}" in result.stderr
    report = json.loads((tmp_path / "eagle.json").read_text())
    assert report["epochs"][0]["epoch"] == 1
    assert (tmp_path / "eagle" / "model.safetensors").is_file()
    # Hidden states are kept as long as the answers are the same.
    states = tmp_path / "lessons" / "last.bf16"
    before = states.stat().st_ino
    assert run(tmp_path, "--answers", "600", "--epochs", "1").exit_code == 0
    assert states.stat().st_ino == before
    file = tmp_path / "answers.jsonl"
    file.write_text(file.read_text().replace("[5, 6, 7, 8, 2]", "[5, 7, 6, 8, 2]"))
    changed = run(tmp_path, "--answers", "600", "--epochs", "1")
    assert "eagle.pt is of other answers" in str(changed.exception)
    assert states.stat().st_ino != before


@pytest.mark.usefixtures("target")
def test_a_folder_keeps_to_its_number_of_answers(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(json.dumps({"answers": 700}))
    result = run(tmp_path, "--answers", "800")
    assert isinstance(result.exception, ModelBuildError)
    assert "begun with --answers 700, not 800" in str(result.exception)


@pytest.fixture
def used(tmp_path: Path) -> Iterator[Path]:
    """A folder in which another process works."""
    with (tmp_path / "settings.json").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield tmp_path


@pytest.mark.usefixtures("target")
def test_two_runs_do_not_share_a_folder(used: Path) -> None:
    result = run(used)
    assert isinstance(result.exception, ModelBuildError)
    assert f"Another train-draft works in {used}" in str(result.exception)


@pytest.mark.usefixtures("target")
def test_a_folder_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run(tmp_path / "file" / "folder")
    assert isinstance(result.exception, ModelBuildError)
    assert "take another --folder" in str(result.exception)
