"""Conditions: what each comparison takes, the laws of logic, and the words."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.config.condition import Condition
from orchestrator.records import CLASSES, Features
from orchestrator.routing.conditions import Compiled, compile_condition
from tests.strategies import conditions, features, requests

CLASS = st.sampled_from(CLASSES)


def compiled(text: str | dict[str, Any]) -> Compiled:
    data = yaml.safe_load(text) if isinstance(text, str) else text
    return compile_condition(Condition.model_validate(data))


@pytest.mark.parametrize(
    ("condition", "request_", "holds", "why"),
    [
        ("{class: open}", {}, True, "class is open"),
        ("{class: [code, open]}", {}, True, "class is open (in [code, open])"),
        ("{class: code}", {}, False, "class is open, not code"),
        (
            "{temperature: {gte: 0.9}}",
            {"temperature": 0.9},
            True,
            "temperature is 0.9 (>= 0.9)",
        ),
        (
            "{temperature: {gt: 0.9}}",
            {"temperature": 0.9},
            False,
            "temperature is 0.9, not > 0.9",
        ),
        ("{temperature: {lt: 1}}", {}, False, "temperature is not given"),
        ("{temperature: {gte: 0.9}}", {}, False, "temperature is not given"),
        ("{temperature: {present: false}}", {}, True, "temperature is not given"),
        ("{temperature: 0}", {"temperature": 0.0}, True, "temperature is 0"),
        (
            "{max_tokens: {between: [1, 5]}}",
            {"max_tokens": 5},
            True,
            "max_tokens is 5 (between 1 and 5)",
        ),
        (
            "{top_p: {lte: 0.5, gt: 0.1}}",
            {"top_p": 0.1},
            False,
            "top_p is 0.1, not > 0.1",
        ),
        ("{stream: true}", {}, False, "stream is false, not true"),
        ("{stream: false}", {}, True, "stream is false"),
        ("{tools: true}", {"tools": ("f",)}, True, "tools are f"),
        ("{tools: false}", {"tools": ("f",)}, False, "tools are f"),
        ("{tools: f}", {"tools": ("g", "f")}, True, "tools are g, f"),
        (
            "{tools: {matches: '^x'}}",
            {"tools": ("g",)},
            False,
            "tools are g, not matching /^x/",
        ),
        ("{response_format: json_schema}", {}, False, "response_format is not given"),
        (
            "{system_prompt: {matches: '(?i)fill IN'}}",
            {"system_prompt": "Please fill in"},
            True,
            "system_prompt is 14 characters (matching /(?i)fill IN/)",
        ),
        ("{system_prompt: {present: true}}", {}, False, "system_prompt is not given"),
        (
            "{header: {X-Team: law}}",
            {"headers": {"x-team": "law"}},
            True,
            "header x-team is law",
        ),
        ("{header: {x-team: law}}", {}, False, "header x-team is not given"),
        ("{tenant: {in: [a]}}", {"tenant": "b"}, False, "tenant is b, not in [a]"),
        (
            "{class: open, stream: true}",
            {"stream": True},
            True,
            "class is open and stream is true",
        ),
        (
            "{all: [{class: code}, {stream: true}]}",
            {},
            False,
            "class is open, not code; stream is false, not true",
        ),
        ("{any: [{class: code}, {stream: false}]}", {}, True, "stream is false"),
        (
            "{any: [{class: code}, {stream: true}]}",
            {},
            False,
            "class is open, not code; stream is false, not true",
        ),
        ("{not: {class: open}}", {}, False, "excluded: class is open"),
        ("{not: {class: code}}", {}, True, "class is open, not code"),
    ],
)
def test_comparisons(
    condition: str, request_: dict[str, Any], holds: bool, why: str
) -> None:
    made = compiled(condition)
    assert made.test(features(**request_), "open") is holds
    assert made.explain(features(**request_), "open") == (holds, why)


def test_long_texts_are_searched_at_their_beginning_only() -> None:
    made = compiled("{last_message: {matches: needle}}")
    assert made.test(features(last_message="x" * 3990 + "needle"), "open")
    assert not made.test(features(last_message="x" * 3999 + "needle"), "open")


@settings(deadline=None)
@given(conditions(), requests(), CLASS)
def test_the_words_agree_with_the_test(
    condition: Condition, request_: Features, name: str
) -> None:
    made = compile_condition(condition)
    holds, why = made.explain(request_, name)
    assert made.test(request_, name) is holds
    assert why


@settings(deadline=None)
@given(conditions(), conditions(), requests(), CLASS)
def test_laws(one: Condition, two: Condition, request_: Features, name: str) -> None:
    a = compile_condition(one).test(request_, name)
    b = compile_condition(two).test(request_, name)
    parts = [c.model_dump(by_alias=True, exclude_none=True) for c in (one, two)]
    assert compiled({"all": parts}).test(request_, name) is (a and b)
    assert compiled({"any": parts}).test(request_, name) is (a or b)
    assert compiled({"not": parts[0]}).test(request_, name) is not a
