"""Accuracy on the labelled requests, and on those worded for this project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.bench.workload import LABELLED
from orchestrator.classify.accuracy import Accuracy
from orchestrator.classify.classifier import classify
from orchestrator.classify.features import extract
from orchestrator.records import CLASSES
from orchestrator.routing.examples import endpoint_of

DATA = Path(__file__).parents[1] / "data"
UNSEEN, LATER = (DATA / f"{name}_requests.jsonl" for name in ("unseen", "later"))


@pytest.mark.parametrize(
    ("file", "overall", "in_each"),
    [(LABELLED, 0.95, 0.85), (UNSEEN, 0.95, 0.85), (LATER, 0.95, 0.85)],
    ids=lambda value: getattr(value, "stem", None),
)
def test_accuracy(file: Path, overall: float, in_each: float) -> None:
    lines = file.read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    accuracy = Accuracy.of(
        (row["label"], classify(extract(body, endpoint=endpoint_of(body))).name)
        for row in rows
        for body in [row["request"]]
    )
    assert set(accuracy.labels) == set(CLASSES)
    assert (accuracy.share() or 0) >= overall
    for label in CLASSES:
        assert (accuracy.share(label) or 0) >= in_each, accuracy.confusion(label)


def test_counts() -> None:
    accuracy = Accuracy.of([("code", "code"), ("code", "open"), ("open", "open")])
    assert accuracy.n() == 3
    assert accuracy.share("code") == 0.5
    assert accuracy.share("creative") is None
    assert accuracy.as_json() == {
        "accuracy": 2 / 3,
        "by_class": {
            "code": {"n": 2, "accuracy": 0.5},
            "open": {"n": 1, "accuracy": 1.0},
        },
        "confusion": {"code": {"code": 1, "open": 1}, "open": {"open": 1}},
    }


def test_no_requests() -> None:
    assert Accuracy.of([]).as_json() == {
        "accuracy": None,
        "by_class": {},
        "confusion": {},
    }
