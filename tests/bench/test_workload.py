from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.bench.workload import Labelled, balanced, read_workload
from orchestrator.errors import ConfigError

BODY = {"messages": [{"role": "user", "content": "Hello"}]}


def row(number: int, label: str) -> Labelled:
    return Labelled(f"r{number}", label, BODY)


def test_reads_every_line_and_passes_empty_ones_over(tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    line = json.dumps({"id": 1, "label": "code", "source": "x", "request": BODY})
    file.write_text(f"{line}\n\n{line}\n")
    assert read_workload(file) == [Labelled("1", "code", BODY)] * 2


def test_all_bad_lines_are_named(tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    good = json.dumps({"id": "a", "label": "code", "request": BODY})
    bad = ["{", "[]", '{"id": "a", "label": "code"}', '{"id": 1, "request": {}}', "7"]
    prompt = json.dumps({"id": "a", "label": "code", "request": {"prompt": "x"}})
    file.write_text("\n".join([good, *bad, prompt]))
    with pytest.raises(ConfigError) as caught:
        read_workload(file)
    assert [problem.line for problem in caught.value.problems] == [2, 3, 4, 5, 6, 7]
    assert "messages" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "found"), [(b"\n", "has no request"), (b"\xff", "is no UTF-8 text")]
)
def test_a_file_without_requests_is_told(
    tmp_path: Path, content: bytes, found: str
) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=found):
        read_workload(file)


def test_balanced_takes_as_many_of_each_class_spread_over_the_file() -> None:
    rows = [row(n, "code") for n in range(10)] + [row(n, "open") for n in range(2)]
    chosen = balanced(rows, 5)
    assert [r.id for r in chosen if r.label == "code"] == ["r0", "r2", "r4", "r6", "r8"]
    assert [r.id for r in chosen if r.label == "open"] == ["r0", "r1"]
