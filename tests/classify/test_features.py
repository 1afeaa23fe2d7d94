"""`extract` reads any JSON body, and reads the usual ones rightly."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.classify.classifier import classify
from orchestrator.classify.features import HEAD, TAIL, excerpt, extract, overlap
from orchestrator.records import CLASSES, Endpoint


def _user(content: Any, **extra: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": content}], **extra}


def test_plain_request() -> None:
    f = extract(
        _user("Who are you?", temperature=0.5, max_tokens=7, stream=True, n=2),
        {"X-Session-Id": "s1", "X-Other": "1"},
        tenant="team",
    )
    assert (f.model, f.temperature, f.max_tokens, f.stream, f.n) == (
        "m",
        0.5,
        7,
        True,
        2,
    )
    assert (f.turns, f.prompts, f.prompt_chars, f.prompt_tokens) == (1, 1, 12, 3)
    assert (f.last_message, f.system_prompt, f.language) == ("Who are you?", "", "en")
    assert (f.session, f.tenant) == ("s1", "team")
    assert f.headers == {"x-session-id": "s1", "x-other": "1"}


def test_conversation() -> None:
    f = extract(
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "developer", "content": "No lists."},
                {"role": "user", "content": "one"},
                {"role": "assistant", "content": "two"},
                {"role": "user", "content": "three"},
            ]
        }
    )
    assert f.system_prompt == "Be brief.\nNo lists."
    assert (f.turns, f.last_message) == (2, "three")
    assert (f.previous_message, f.previous_answer) == ("one", "two")
    assert f.prompt_chars == len("Be brief.No lists.onetwothree")


def test_tool_result_after_the_last_user_message() -> None:
    call = [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": "12 degrees", "tool_call_id": "1"},
    ]
    assert extract({"messages": call}).tool_result
    assert extract({"messages": call}).last_message == "weather?"
    later = [*call, {"role": "user", "content": "and tomorrow?"}]
    assert not extract({"messages": later}).tool_result


def test_content_parts() -> None:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:,"}},
        {"type": "input_audio", "input_audio": {}},
        {"type": "text", "text": "Be exact."},
        None,
        7,
    ]
    f = extract(_user(parts))
    assert f.last_message == "What is this?\nBe exact."
    assert f.media == 2


@pytest.mark.parametrize(
    ("prompt", "prompts", "tokens", "last"),
    [
        ("four five", 1, 3, "four five"),
        (["one", "two words"], 2, 4, "one"),
        ([1, 2, 3], 1, 3, ""),
        ([[1, 2], [3]], 2, 3, ""),
        ([], 1, 0, ""),
        (None, 1, 0, ""),
        ({"a": 1}, 1, 0, ""),
    ],
)
def test_completions(prompt: Any, prompts: int, tokens: int, last: str) -> None:
    f = extract({"prompt": prompt}, endpoint="completions")
    assert (f.prompts, f.prompt_tokens, f.last_message) == (prompts, tokens, last)


def test_tools_and_choice() -> None:
    tools = [
        {"type": "function", "function": {"name": "f"}},
        {"name": "old"},
        {"function": None},
        3,
    ]
    f = extract(_user("x", tools=tools, tool_choice="auto"))
    assert (f.tools, f.tool_choice) == (("f", "old", ""), "auto")
    assert f.prompt_tokens > 20
    forced = {"type": "function", "function": {"name": "f"}}
    assert extract(_user("x", tool_choice=forced)).tool_choice == "function"
    assert extract(_user("x", function_call={"name": "f"})).tool_choice == "function"


def test_structured_fields() -> None:
    f = extract(_user("x", response_format={"type": "json_schema"}, min_p=0.1))
    assert (f.response_format, f.structured_outputs, f.min_p) == (
        "json_schema",
        False,
        0.1,
    )
    assert extract(_user("x", guided_regex="a+")).structured_outputs
    assert extract(_user("x", structured_outputs={"choice": ["a"]})).structured_outputs
    assert extract(_user("x", logit_bias={"1": 5})).logit_bias


@pytest.mark.parametrize("value", [None, "hot", "", [], {}, math.nan, 10**400])
def test_numbers_of_the_wrong_type_are_left_out(value: Any) -> None:
    f = extract(_user("x", temperature=value, top_p=value, min_p=value))
    assert (f.temperature, f.top_p, f.min_p) == (None, None, None)


@pytest.mark.parametrize(("value", "number"), [("0.5", 0.5), (True, 1.0), (1, 1.0)])
def test_what_the_engine_takes_for_a_number_is_one(value: Any, number: float) -> None:
    """Else `{"min_p": "0.1"}` would reach a pool that refuses min_p."""
    f = extract(_user("x", temperature=value, min_p=value, max_tokens=str(value)))
    assert (f.temperature, f.min_p) == (number, number)
    assert f.max_tokens == (1 if value == 1 and value is not True else None)


@pytest.mark.parametrize(("value", "on"), [("true", True), (1, True), ("no", False)])
def test_what_the_engine_takes_for_a_flag_is_one(value: Any, on: bool) -> None:
    assert extract(_user("x", stream=value)).stream is on


def test_max_completion_tokens_wins() -> None:
    assert extract(_user("x", max_tokens=5, max_completion_tokens=6)).max_tokens == 6
    assert extract(_user("x", max_tokens=5.5)).max_tokens is None


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("", "en"),
        ("ok", "en"),
        ("Where is the station?", "en"),
        ("车站在哪里？", "zh"),
        ("用Python写一个函数", "zh"),
        ("駅はどこにありますか", "other"),
        ("역이 어디에 있어요?", "other"),
        ("Где находится вокзал?", "other"),
        ("Wo ist der Bahnhof und wann fährt der Zug?", "other"),
        ("def f(x):\n    return x\n", "code"),
    ],
)
def test_language(text: str, language: str) -> None:
    assert extract(_user(text)).language == language


def test_tokens_follow_the_script() -> None:
    assert extract(_user("a" * 400)).prompt_tokens == 100
    assert extract(_user("字" * 400)).prompt_tokens == 300


def test_long_texts_are_cut_but_counted() -> None:
    text = "a" * 100_000 + "end"
    f = extract(_user(text))
    assert len(f.last_message) == HEAD + TAIL + 1
    assert f.last_message.endswith("end")
    assert f.message_chars == f.prompt_chars == 100_003
    assert excerpt("short") == "short"


def test_overlap() -> None:
    text = "the quick brown fox jumps over the lazy dog"
    assert overlap(text, [f"Edit this: {text}"]) == 1.0
    assert overlap(text, ["nothing of it stands here at all"]) == 0.0
    assert overlap("", [text]) == 0.0
    chinese = "北京是中国的首都也是一座历史悠久的城市有许多古老的建筑"
    assert overlap(chinese, [chinese]) == 1.0


def test_lone_surrogates_and_controls() -> None:
    text = "\ud800 翻译 \x00 \U0010ffff"
    f = extract(_user(text))
    assert f.prompt_chars == len(text)
    assert classify(f).name in CLASSES


def _deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def test_deep_nesting() -> None:
    body = _user("x", tools=_deep(100_000), metadata=_deep(100_000))
    assert extract(body).tools == ()


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=30)
    | st.sampled_from(["user", "system", "tool", "assistant", "翻译", "def f(x):\n"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["role", "content", "text", "type", "function", "name"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)
_FIELDS = (
    "model messages prompt stream temperature top_p max_tokens max_completion_tokens n"
    " tools functions tool_choice function_call response_format structured_outputs"
    " min_p guided_json logit_bias"
)
_MESSAGES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "role": st.sampled_from(["user", "system", "assistant", "tool", "x"])
            | _JSON,
            "content": _JSON,
        },
    )
    | _JSON,
    max_size=4,
)
_BODIES = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(_FIELDS.split(), _JSON) | {"messages": _MESSAGES | _JSON},
)


@settings(max_examples=150, deadline=None)
@given(body=_BODIES, endpoint=st.sampled_from(["chat", "completions"]))
def test_never_raises(body: dict[str, Any], endpoint: Endpoint) -> None:
    f = extract(body, {"A": "b"}, endpoint=endpoint)
    assert f.n >= 1
    assert f.prompts >= 1
    assert 0.0 <= f.overlap <= 1.0
    assert f.language in ("en", "zh", "code", "other")
    found = classify(f)
    assert found.name in CLASSES
    assert 0.0 < found.confidence <= 1.0


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.characters(), max_size=3000))
def test_any_text_has_a_class(text: str) -> None:
    assert classify(extract(_user(text))).name in CLASSES
