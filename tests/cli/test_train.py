from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestrator.cli import train
from orchestrator.cli.models import app
from orchestrator.errors import ModelBuildError
from orchestrator.models.corpus import Answer, append, held_out, read
from orchestrator.models.prompts import Prompt, write_prompts
from orchestrator.serving import generate

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

        def invent(self, count: int, seed: int) -> Iterator[list[str]]:
            for first in range(0, count + 5, 5):
                yield [f"What is number {first + i}?" for i in range(5)]

        def answer(self, prompts: list[Prompt], **options: Any) -> Any:
            for prompt in prompts:
                asked.append(prompt)
                yield [Answer(prompt.kind, 0.0, [1], [len(asked) - 1])]

    monkeypatch.setattr(generate, "OfflineTarget", Target)
    monkeypatch.setattr("transformers.AutoTokenizer", Words)
    return asked


class Bar:
    """Progress that nobody sees."""

    def add_task(self, *args: Any, **fields: Any) -> int:
        return 0

    def update(self, *args: Any, **fields: Any) -> None:
        """Nothing."""


def answers_of(folder: Path, wanted: int) -> list[Answer]:
    bar: Any = Bar()
    return train._answers(bar, Path("target"), folder, wanted)


def test_prompts_are_ours_the_targets_and_about_answers(
    asked: list[Prompt], tmp_path: Path
) -> None:
    said = answers_of(tmp_path, 1000)
    assert [p.text for p in asked[:400]] == [p.text for p in write_prompts(400, 1)]
    assert {p.kind for p in asked[400:800]} == {"open"}
    assert [p.text for p in asked[400:402]] == [f"What is number {n}?" for n in (0, 1)]
    about = asked[800:]
    assert 100 < len(about) <= 200
    assert len(said) == len(asked)
    for number, prompt in enumerate(about, 800):
        # A text is `NUMBER: ...`, the number of the answer that it was made of.
        sources = re.findall(rf"(\d+): {TEXT[:20]}", prompt.text)
        assert {held_out(int(source)) for source in sources} == {held_out(number)}
    assert any(map(held_out, range(800, len(said))))
    lengths = {prompt.text.count(TEXT.strip()) for prompt in about}
    assert lengths == {1, 2, 4}


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


def test_a_folder_keeps_to_its_number_of_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "ensure_target", lambda: Path("target"))
    (tmp_path / "settings.json").write_text(json.dumps({"answers": 700}))
    options = ["train-draft", "--folder", str(tmp_path), "--answers", "800"]
    result = CliRunner().invoke(app, options)
    assert isinstance(result.exception, ModelBuildError)
    assert "begun with --answers 700, not 800" in str(result.exception)


def test_a_folder_that_can_not_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "ensure_target", lambda: Path("target"))
    (tmp_path / "file").write_text("")
    folder = str(tmp_path / "file" / "folder")
    result = CliRunner().invoke(app, ["train-draft", "--folder", folder])
    assert isinstance(result.exception, ModelBuildError)
    assert "take another --folder" in str(result.exception)
