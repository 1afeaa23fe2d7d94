"""`orchestrator classify` and `orchestrator bench decision`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestrator.cli.main import app
from orchestrator.errors import ConfigError

POEM = {"messages": [{"role": "user", "content": "Write a poem about rain"}]}
WHO = {"messages": [{"role": "user", "content": "Who painted the Mona Lisa?"}]}
CODE = {"prompt": "def add(a, b):\n"}


def _file(tmp_path: Path, *rows: Any) -> str:
    path = tmp_path / "requests.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return str(path)


def _labelled(label: str, request: dict[str, Any], name: str = "r") -> dict[str, Any]:
    return {"id": name, "label": label, "request": request}


def test_labelled(tmp_path: Path) -> None:
    file = _file(
        tmp_path,
        _labelled("creative", POEM),
        "",
        _labelled("code", CODE),
        _labelled("creative", WHO, "wrong"),
    )
    out = tmp_path / "out.json"
    result = CliRunner().invoke(app, ["classify", file, "--json", str(out)])
    assert result.exit_code == 0, result.output
    assert "Accuracy: 66.7% of 3 requests" in result.stdout
    assert json.loads(out.read_text()) == {
        "accuracy": 2 / 3,
        "by_class": {
            "code": {"n": 1, "accuracy": 1.0},
            "creative": {"n": 2, "accuracy": 0.5},
        },
        "confusion": {"code": {"code": 1}, "creative": {"creative": 1, "open": 1}},
    }


def test_bodies_without_labels(tmp_path: Path) -> None:
    file = _file(tmp_path, POEM, {"id": "x", "request": CODE})
    result = CliRunner().invoke(app, ["classify", file, "--json", "-"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["accuracy"] is None
    found = [(row["id"], row["class"]) for row in data["requests"]]
    assert found == [("1", "creative"), ("x", "code")]
    assert all(row["signals"] for row in data["requests"])
    assert "Requests" in result.stderr


def test_bad_lines_are_all_listed(tmp_path: Path) -> None:
    file = _file(
        tmp_path,
        POEM,
        '{"messages": ',
        [1],
        {"model": "m"},
        _labelled("poetry", POEM),
        {"id": 1, "label": ["code"], "request": POEM},
        "[" * 100_000,
    )
    with pytest.raises(ConfigError) as caught:
        CliRunner().invoke(app, ["classify", file], catch_exceptions=False)
    assert caught.value.exit_code == 2
    assert [p.line for p in caught.value.problems] == [2, 3, 4, 5, 6, 7]
    assert f"{file}:5:1: label" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff\xfe"])
def test_files_without_requests(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_bytes(content)
    with pytest.raises(ConfigError):
        CliRunner().invoke(app, ["classify", str(path)], catch_exceptions=False)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        CliRunner().invoke(
            app, ["classify", str(tmp_path / "no.jsonl")], catch_exceptions=False
        )


def test_bench_decision() -> None:
    result = CliRunner().invoke(
        app, ["bench", "decision", "--repeats", "2", "--json", "-"]
    )
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["policy"] == "default"
    kinds = [(case["language"], case["size_bytes"]) for case in data["cases"]]
    sizes = (2048, 204800)
    assert kinds == [(name, size) for name in ("English", "Chinese") for size in sizes]
    assert all(0 < case["median_us"] <= case["p99_us"] for case in data["cases"])
    assert "target" in result.stderr
