"""Greedy answers token by token, and whether two of them differ beyond rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

JSON_PROMPT = "Return a JSON array of 5 users with the fields id, name and email."
EDIT_PROMPT = (
    "Add a type hint to every function:\n```python\n"
    "def add(left, right):\n    return left + right\n\n"
    "def subtract(left, right):\n    return left - right\n\n"
    "def multiply(left, right):\n    return left * right\n```"
)
TRANSLATE_PROMPT = (
    "Translate into French: The captain reads the weather report. The crew checks the "
    "sails. The ship leaves the harbour at nine in the morning."
)
PROMPTS = {
    "json": JSON_PROMPT,
    "edit": EDIT_PROMPT,
    "translate": TRANSLATE_PROMPT,
    "open": "Why do cats purr?",
}
#: What a chat request asks for beside its prompt, so that `steps` can read the answer.
DETAILS = {"logprobs": True, "top_logprobs": 5, "return_tokens_as_token_ids": True}


@dataclass(frozen=True)
class Step:
    """One token of an answer, with the log-probabilities at its place."""

    token: str  # `token_id:` and the id
    logprob: float
    top: dict[str, float]


def steps(answer: dict[str, Any]) -> list[Step]:
    """The steps of a chat completion that was asked for with `DETAILS`."""
    return [
        Step(
            token["token"],
            token["logprob"],
            {other["token"]: other["logprob"] for other in token["top_logprobs"]},
        )
        for token in answer["choices"][0]["logprobs"]["content"]
    ]


def assert_same_text(one: list[Step], other: list[Step], rounding: float) -> None:
    """Equal, or parted at a tie that is within the rounding seen before it.

    `rounding` is what to expect of log-probabilities where nothing was seen. The same
    tokens' log-probabilities before the first difference show how much it was.
    """
    same = 0
    while same < min(len(one), len(other)) and one[same].token == other[same].token:
        same += 1
    if same == len(one) == len(other):
        return
    assert same < min(len(one), len(other)), "one answer ends where the other goes on"
    seen = max(
        (
            abs(a.logprob - b.logprob)
            for a, b in zip(one[:same], other[:same], strict=True)
        ),
        default=0.0,
    )
    likely = one[same].top.get(other[same].token, -math.inf)
    gap = one[same].logprob - likely
    assert gap <= 2 * max(seen, rounding), (
        f"parted after {same} tokens at {one[same].token} against "
        f"{other[same].token}: {gap:.3g} apart, rounding was {seen:.3g}"
    )
