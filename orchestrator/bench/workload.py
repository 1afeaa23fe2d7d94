"""Requests with their class, from a JSON Lines file: what benches send."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.errors import ConfigError, Problem

#: 442 requests of public benchmarks; data/README.md tells of them.
LABELLED = Path(__file__).with_name("data") / "labelled_requests.jsonl"


@dataclass(frozen=True, slots=True)
class Labelled:
    """One request of a workload: an OpenAI chat body and the class that fits."""

    id: str
    label: str
    request: dict[str, Any]


def read_workload(file: Path) -> list[Labelled]:
    """The requests of a file with `{"id", "label", "request"}` in each line.

    Raises:
        ConfigError: a line is not that; all such lines are named.
        OSError: the file can't be read.
    """
    requests, problems = [], []
    try:
        lines = file.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ConfigError(str(file), [Problem("is no UTF-8 text")]) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            request = row["request"]
            if not isinstance(request.get("messages"), list):
                raise ValueError
            requests.append(Labelled(str(row["id"]), str(row["label"]), request))
        except (ValueError, KeyError, TypeError, AttributeError):
            hint = '{"id": ..., "label": CLASS, "request": {"messages": [...]}}'
            text = "is no labelled chat request"
            problems.append(Problem(text, line=number, hint=hint))
    if not requests and not problems:
        problems.append(Problem("has no request"))
    if problems:
        raise ConfigError(str(file), problems)
    return requests


def balanced(requests: list[Labelled], each: int) -> list[Labelled]:
    """`each` requests of every class, spread evenly over the file, class by class."""
    by_class = defaultdict(list)
    for request in requests:
        by_class[request.label].append(request)
    return [
        rows[number * len(rows) // min(each, len(rows))]
        for _, rows in sorted(by_class.items())
        for number in range(min(each, len(rows)))
    ]
