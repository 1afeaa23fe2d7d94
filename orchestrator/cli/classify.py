"""`orchestrator classify`: the class of each request of a file, and the accuracy."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.classify.accuracy import Accuracy
from orchestrator.classify.classifier import classify as classify_features
from orchestrator.classify.features import extract
from orchestrator.errors import ConfigError, Problem
from orchestrator.records import CLASSES, RequestClass
from orchestrator.routing.examples import endpoint_of


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the file."""

    id: str
    body: dict[str, Any]
    label: str | None


def classify(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.jsonl",
            help='A request body a line, or {"id", "label", "request": body}.',
        ),
    ],
    json_file: Annotated[
        str | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the result to FILE (- for stdout)."
        ),
    ] = None,
) -> None:
    """Show what each request of a file is classified as; with labels, how accurately.

    Exit code: 0 whatever the accuracy, 2 for a file with bad lines.
    """
    rows = _read(file)
    classes = [
        classify_features(extract(row.body, endpoint=endpoint_of(row.body)))
        for row in rows
    ]
    accuracy = Accuracy.of(
        (row.label, found.name)
        for row, found in zip(rows, classes, strict=True)
        if row.label is not None
    )
    # With --json - the standard output is JSON and nothing else.
    console = Console(stderr=json_file == "-", highlight=False)
    console.print(_requests_table(rows, classes))
    if accuracy.n():
        console.print(_confusion_table(accuracy))
    if json_file is not None:
        text = json.dumps(_result(rows, classes, accuracy), indent=2) + "\n"
        if json_file == "-":
            sys.stdout.write(text)
        else:
            Path(json_file).write_text(text, "utf-8")


def _read(path: Path) -> list[_Row]:
    try:
        lines = path.read_text("utf-8").split("\n")
    except UnicodeDecodeError:
        raise ConfigError(str(path), [Problem("the file is no UTF-8 text")]) from None
    except OSError as error:
        problem = Problem(f"can't be read: {error.strerror or error}")
        raise ConfigError(str(path), [problem]) from None
    rows: list[_Row] = []
    problems: list[Problem] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            row = _row(line, number)
            if isinstance(row, Problem):
                problems.append(row)
            else:
                rows.append(row)
    if not rows and not problems:
        problems.append(Problem("the file has no requests"))
    if problems:
        raise ConfigError(str(path), problems)
    return rows


def _row(line: str, number: int) -> _Row | Problem:
    """The row, or what is wrong with the line."""
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        return Problem(f"no JSON: {error.msg}", line=number, column=error.colno)
    except RecursionError:
        return Problem("no JSON that can be read: nested too deep", line=number)
    if not isinstance(data, dict):
        return Problem("must be a JSON object", line=number)
    body = data.get("request", data)
    if not isinstance(body, dict) or not ("messages" in body or "prompt" in body):
        return Problem(
            "holds no request",
            line=number,
            hint='a body with `messages` or `prompt`, or {"id", "label", "request"}',
        )
    label = data.get("label") if "request" in data else None
    if label is not None and label not in CLASSES:
        return Problem(
            f"{json.dumps(label)} is no class",
            "label",
            line=number,
            hint=f"one of {', '.join(CLASSES)}",
        )
    return _Row(str(data.get("id", number)), body, label)


def _result(
    rows: list[_Row], classes: list[RequestClass], accuracy: Accuracy
) -> dict[str, Any]:
    """The accuracy; where rows have no label, those rows' classes too."""
    result = accuracy.as_json()
    unlabelled = [
        {
            "id": row.id,
            "class": found.name,
            "confidence": round(found.confidence, 4),
            "signals": list(found.signals),
        }
        for row, found in zip(rows, classes, strict=True)
        if row.label is None
    ]
    if unlabelled:
        result["requests"] = unlabelled
    return result


def _requests_table(rows: list[_Row], classes: list[RequestClass]) -> Table:
    table = Table("request", "class", "confidence", "signals", title="Requests")
    for row, found in zip(rows, classes, strict=True):
        wrong = row.label not in (None, found.name)
        name = f"{found.name} (label: {row.label})" if wrong else found.name
        table.add_row(
            Text(row.id),
            Text(name, style="red" if wrong else ""),
            f"{found.confidence:.2f}",
            Text(", ".join(found.signals)),
        )
    return table


def _confusion_table(accuracy: Accuracy) -> Table:
    """One line for each label; what it was taken for in the columns."""
    total = f"{accuracy.share():.1%} of {accuracy.n()} requests"
    table = Table("label", "n", "accuracy", *CLASSES, title=f"Accuracy: {total}")
    for label in accuracy.labels:
        taken_for = accuracy.confusion(label)
        table.add_row(
            label,
            str(accuracy.n(label)),
            f"{accuracy.share(label):.1%}",
            *(
                Text(
                    str(taken_for.get(name, "·")),
                    style="green" if name == label else "",
                )
                for name in CLASSES
            ),
        )
    return table
