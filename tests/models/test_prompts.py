from __future__ import annotations

from collections import Counter

import pytest

from orchestrator.bench.workload import LABELLED, read_workload
from orchestrator.classify.classifier import classify
from orchestrator.classify.features import extract
from orchestrator.models.prompts import (
    WEIGHTS,
    Prompt,
    write_about,
    write_prompts,
)
from orchestrator.records import CLASSES

PASSAGES = ["The harbour froze in January. The ferries stayed in port for a week."]


def test_the_same_seed_writes_the_same_prompts() -> None:
    assert write_prompts(200, 3) == write_prompts(200, 3)
    assert write_prompts(200, 3) != write_prompts(200, 4)


def test_prompts_are_different_and_of_every_kind() -> None:
    prompts = write_prompts(3000, 1)
    assert len({prompt.text for prompt in prompts}) == 3000
    counts = Counter(prompt.kind for prompt in prompts)
    assert set(counts) == set(WEIGHTS)
    assert min(counts.values()) > 150


def test_no_prompt_is_a_labelled_request() -> None:
    """Those stay for measuring."""
    labelled = {
        message["content"]
        for row in read_workload(LABELLED)
        for message in row.request["messages"]
    }
    prompts = write_prompts(5400, 1)
    assert not {prompt.text for prompt in prompts} & labelled


def test_no_placeholder_is_left() -> None:
    prompts = write_prompts(3000, 1) + write_about(PASSAGES * 50, 50, 1)
    words = ("topic", "person", "city", "n", "m", "k", "passage", "fields", "count")
    assert not [p for p in prompts if any(f"{{{word}}}" in p.text for word in words)]


def test_prompts_about_a_text_hold_it() -> None:
    (prompt,) = write_about(PASSAGES, 15, 1)
    assert PASSAGES[0] in prompt.text


def test_each_passage_is_asked_about_once() -> None:
    passages = [f"{n} ferries stayed in port." for n in range(1, 201)]
    prompts = write_about(passages, 150, 1)
    assert len(prompts) == 150
    pairs = zip(prompts, passages, strict=False)
    assert all(passage in prompt.text for prompt, passage in pairs)
    assert len(write_about(passages, 10_000, 1)) == 200
    assert {prompt.kind for prompt in prompts} == {
        "grounded",
        "translation",
        "structured",
    }


def test_a_constrained_prompt_has_a_schema_with_all_fields_required() -> None:
    schemas = [p.schema for p in write_prompts(500, 1) if p.kind == "constrained"]
    assert schemas
    for schema in schemas:
        assert schema is not None
        assert schema["required"] == list(schema["properties"])


@pytest.mark.parametrize("kind", ["structured", "code", "translation", "creative"])
def test_the_classifier_sees_most_prompts_in_their_class(kind: str) -> None:
    assert kind in CLASSES
    prompts = [p for p in write_prompts(1500, 1) if p.kind == kind]
    assert sum(_class(p) == kind for p in prompts) / len(prompts) > 0.8


def _class(prompt: Prompt) -> str:
    body = {"messages": [{"role": "user", "content": prompt.text}]}
    return classify(extract(body)).name
