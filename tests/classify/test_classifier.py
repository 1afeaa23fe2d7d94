"""The classifier on single requests: what decides, what only hints, what it says."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.classify.classifier import classify
from orchestrator.classify.features import extract
from orchestrator.records import CLASSES, RequestClass

TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {}}}
TEXT = "The council met on Tuesday. It wants to close two of the five swimming pools. "
TEXT_ZH = "市议会周二开会，决定关闭五座游泳馆中的两座，市民对此表示反对。"


def _classify(text: str, system: str = "", **extra: Any) -> RequestClass:
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": text})
    return classify(extract({"messages": messages, **extra}))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Return a JSON array of 5 users", "structured"),
        ("Write a Python function that counts the words of a story", "code"),
        ("Translate into German: Good morning", "translation"),
        (f"Summarise this article:\n\n{TEXT}", "grounded"),
        ("Tom has 3 apples and buys 5 more. How many has he now?", "reasoning"),
        ("Write a poem about rain", "creative"),
        ("Who painted the Mona Lisa?", "open"),
        ("请把下面的句子翻译成英文：今天天气很好。", "translation"),
        (f"请总结下面的新闻：{TEXT_ZH}", "grounded"),
        ("写一首关于春天的诗", "creative"),
        ("用Python写一个快速排序函数", "code"),
        ("小明有3个苹果，又买了5个，一共有多少个？", "reasoning"),
        ("证明根号2是无理数", "reasoning"),
        ("以JSON格式返回三个用户的姓名和年龄", "structured"),
        ("提取下面文本中的人名：李雷去了北京。", "structured"),
        ("长城是什么时候修建的？", "open"),
        ("写一个关于编程的故事", "creative"),
    ],
)
def test_clear_requests(text: str, name: str) -> None:
    found = _classify(text)
    assert found.name == name
    assert found.signals


@pytest.mark.parametrize(
    "language_of", ["Translate {} to Python", "Convert {} to Java"]
)
def test_porting_code_is_no_translation(language_of: str) -> None:
    assert _classify(language_of.format("this JavaScript code")).name == "code"


def test_nothing_known_is_open_and_unsure() -> None:
    found = classify(extract({}))
    assert found.name == "open"
    assert found.confidence < 0.5
    assert found.signals == ("nothing more specific",)


@pytest.mark.parametrize("name", CLASSES)
def test_hint_wins(name: str) -> None:
    features = extract({"messages": [{"role": "user", "content": "Write a poem"}]})
    assert classify(features, name) == RequestClass(name, 1.0, ("hint: header",))


@pytest.mark.parametrize("hint", [None, "", "poems", "CODE"])
def test_other_hints_are_ignored(hint: str | None) -> None:
    features = extract({"messages": [{"role": "user", "content": "Write a poem"}]})
    assert classify(features, hint).name == "creative"


@pytest.mark.parametrize(
    "extra",
    [
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_schema"}},
        {"structured_outputs": {"choice": ["a", "b"]}},
        {"guided_json": {"type": "object"}},
        {"tools": [TOOL], "tool_choice": "required"},
        {"tools": [TOOL]},
    ],
)
def test_fields_beat_words(extra: dict[str, Any]) -> None:
    found = _classify("Solve x^2 = 9 step by step and explain your reasoning", **extra)
    assert found.name == "structured"
    assert found.confidence > 0.8


def test_tools_that_may_not_be_called_say_nothing() -> None:
    found = _classify("Write a poem about rain", tools=[TOOL], tool_choice="none")
    assert found.name == "creative"


def test_text_format_says_nothing() -> None:
    found = _classify("Write a poem", response_format={"type": "text"})
    assert found.name == "creative"


def test_small_talk_with_tools_is_less_sure() -> None:
    sure = _classify("Set the lights in the kitchen to blue", tools=[TOOL])
    chat = _classify("thanks a lot!", tools=[TOOL])
    assert sure.confidence > 0.9
    assert chat.confidence < 0.7


def test_after_a_tools_result_it_is_less_sure() -> None:
    messages = [
        {"role": "user", "content": "Is it raining in Oslo?"},
        {"role": "assistant", "content": None},
        {"role": "tool", "content": "12 degrees, rain"},
    ]
    before = classify(extract({"messages": messages[:1], "tools": [TOOL]}))
    after = classify(extract({"messages": messages, "tools": [TOOL]}))
    assert after.confidence < before.confidence
    answer = classify(extract({"messages": messages}))
    assert answer.name == "grounded"


@pytest.mark.parametrize(
    ("system", "name"),
    [
        (
            "You are a translator. Translate what the user writes to French.",
            "translation",
        ),
        ("你是一名专业翻译，请把用户的话翻译成英文。", "translation"),
        ("You are a copywriter and storyteller.", "creative"),
        ("Answer only with valid JSON.", "structured"),
        ("You are a helpful assistant.", "open"),
    ],
)
def test_system_prompt(system: str, name: str) -> None:
    assert _classify("The shop opens at nine.", system).name == name


def test_a_follow_up_leans_on_the_message_before() -> None:
    messages = [
        {"role": "user", "content": "Translate to English: Guten Morgen"},
        {"role": "assistant", "content": "Good morning"},
        {"role": "user", "content": "And this: Gute Nacht"},
    ]
    assert classify(extract({"messages": messages})).name == "translation"


@pytest.mark.parametrize("size", [2_000, 200_000])
@pytest.mark.parametrize("where", ["before", "after"])
def test_long_prompts(size: int, where: str) -> None:
    passage = TEXT * (size // len(TEXT))
    question = "Based on the text, when did the council meet?"
    parts = [question, passage] if where == "before" else [passage, question]
    assert _classify("\n\n".join(parts)).name == "grounded"


def test_signals_are_sorted_by_weight() -> None:
    found = _classify("Translate this from German to English: Guten Morgen", "")
    assert found.signals[0] == "words: language pair"
    assert "words: translate" in found.signals


def test_hostile_text_has_a_class() -> None:
    for unit in ("写", "write ", "(a, ", "1 + ", "\n", "no a are "):
        assert _classify(unit * 50_000).name in CLASSES
