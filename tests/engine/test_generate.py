"""The target in its offline engine, as `train-draft` asks it."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from orchestrator.models.prompts import Prompt, Schema
from orchestrator.models.target import ensure_target
from orchestrator.serving.generate import REQUEST_CHARS, OfflineTarget

pytestmark = pytest.mark.engine

SCHEMA: Schema = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}},
    "required": ["city"],
    "additionalProperties": False,
}


def test_the_target_answers_in_order_and_writes_requests() -> None:
    transformers: Any = pytest.importorskip("transformers")
    path = ensure_target()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    prompts = [
        Prompt("open", "Why do cats purr?"),
        Prompt("constrained", "Where do you live? Answer as JSON.", SCHEMA),
        Prompt("open", "What is the water cycle?"),
    ]
    with contextlib.closing(OfflineTarget(path)) as target:
        answers = target.answer(prompts, max_tokens=60, seed=2)  # all are greedy
        requests = target.invent(12, seed=1)
        again = target.invent(12, seed=1)

    assert [answer.kind for answer in answers] == [prompt.kind for prompt in prompts]
    for prompt, answer in zip(prompts, answers, strict=True):
        assert prompt.text in tokenizer.decode(answer.prompt)
    texts = [tokenizer.decode(a.answer, skip_special_tokens=True) for a in answers]
    assert json.loads(texts[1]).keys() == {"city"}
    assert [answer.temperature for answer in answers] == [0.0, 0.0, 0.0]
    assert "cat" in texts[0].lower()
    assert "water" in texts[2].lower()

    assert 4 < len(requests) <= 12
    assert requests == again
    low, high = REQUEST_CHARS
    assert all(low <= len(text) <= high for text in requests)
    assert not any("<|im" in text for text in requests)
