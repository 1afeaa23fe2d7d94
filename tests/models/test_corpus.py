from __future__ import annotations

from pathlib import Path

from orchestrator.models.corpus import Answer, append, read

FIRST = Answer("code", 0.0, [1, 2], [3, 4, 2])
SECOND = Answer("open", 0.7, [1, 5], [6])


def test_answers_come_back_in_order(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    assert list(read(file)) == []
    append(file, [FIRST])
    append(file, [SECOND])
    assert list(read(file)) == [FIRST, SECOND]


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    append(file, [FIRST, SECOND])
    file.write_text(file.read_text()[:-10])
    assert list(read(file)) == [FIRST]
    append(file, [SECOND])
    assert list(read(file)) == [FIRST, SECOND]
