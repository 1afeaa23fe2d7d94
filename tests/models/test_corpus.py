from __future__ import annotations

from pathlib import Path

from orchestrator.models.corpus import (
    Answer,
    append,
    fingerprint,
    read,
    replace_text,
)

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


def test_a_fingerprint_tells_answers_of_the_same_length_apart() -> None:
    assert fingerprint([FIRST, SECOND]) == fingerprint([FIRST, SECOND])
    prints = {fingerprint(some) for some in ([FIRST], [SECOND], [FIRST, SECOND])}
    reversed_ = Answer("code", 0.0, [1, 2], [2, 4, 3])
    assert len(prints | {fingerprint([reversed_])}) == 4


def test_text_replaces_a_file_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    replace_text(file, "é")
    replace_text(file, "second")
    assert file.read_text("utf-8") == "second"
    assert list(tmp_path.iterdir()) == [file]
