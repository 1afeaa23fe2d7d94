"""Hypothesis strategies: policies, their conditions, and requests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from orchestrator.config.condition import Condition
from orchestrator.config.policy import Policy, parse_policy
from orchestrator.records import CLASSES, Features

_NUMBERS = st.sampled_from([0, 0.5, 0.9, 1, 3])
_TEXTS = st.sampled_from(["a", "b", "fill in"])
_PATTERNS = st.sampled_from(["a", "(?i)FILL", "^b$"])


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping with one to three of the fields."""
    return st.lists(
        st.sampled_from(sorted(fields)), min_size=1, max_size=3, unique=True
    ).flatmap(
        lambda names: st.fixed_dictionaries(
            {name.rstrip("_"): fields[name] for name in names}
        )
    )


_NUMBER_TEST = _NUMBERS | _some(
    eq=_NUMBERS,
    in_=st.lists(_NUMBERS, min_size=1, max_size=2),
    lt=_NUMBERS,
    lte=_NUMBERS,
    gt=_NUMBERS,
    gte=_NUMBERS,
    between=st.lists(_NUMBERS, min_size=2, max_size=2).map(sorted),
    present=st.booleans(),
)
_TEXT_TEST = _TEXTS | _some(
    eq=_TEXTS,
    in_=st.lists(_TEXTS, min_size=1, max_size=2),
    matches=_PATTERNS,
    present=st.booleans(),
)
_CLASS_TEST = st.sampled_from(CLASSES) | st.lists(
    st.sampled_from(CLASSES), min_size=1, max_size=3
)
_LEAVES = _some(
    class_=_CLASS_TEST,
    temperature=_NUMBER_TEST,
    max_tokens=_NUMBER_TEST,
    prompt_tokens=_NUMBER_TEST,
    stream=st.booleans(),
    tools=st.booleans() | _TEXT_TEST,
    language=st.sampled_from(["en", "zh"]),
    system_prompt=_TEXT_TEST,
    header=st.dictionaries(st.sampled_from(["x-a", "x-b"]), _TEXT_TEST, min_size=1),
    tenant=_TEXT_TEST,
)
_TREES = st.recursive(
    _LEAVES,
    lambda inner: _some(
        all=st.lists(inner, min_size=1, max_size=3),
        any=st.lists(inner, min_size=1, max_size=3),
        not_=inner,
    ),
    max_leaves=5,
)


def conditions() -> st.SearchStrategy[Condition]:
    """Any condition."""
    return _TREES.map(Condition.model_validate)


def policies() -> st.SearchStrategy[Policy]:
    """Any policy with up to four rules on the pools plain and ngram."""
    pools = st.sampled_from(["plain", "ngram"])
    rules = st.lists(st.tuples(st.none() | _TREES, pools), max_size=4)
    return st.tuples(rules, pools, st.lists(pools, max_size=2)).map(_policy)


def _policy(parts: tuple[list[tuple[Any, str]], str, list[str]]) -> Policy:
    rules, otherwise, fallback = parts
    listed = [
        {"name": f"r{i}", "use": pool} | ({} if when is None else {"when": when})
        for i, (when, pool) in enumerate(rules)
    ]
    return parse_policy(
        {
            "name": "p",
            "rules": listed,
            "otherwise": otherwise,
            "fallback": fallback,
        }
    )


def features(**changes: Any) -> Features:
    """A plain chat request."""
    made: dict[str, Any] = {
        "endpoint": "chat",
        "model": "m",
        "stream": False,
        "temperature": None,
        "top_p": None,
        "max_tokens": None,
        "n": 1,
        "prompts": 1,
        "prompt_chars": 5,
        "prompt_tokens": 2,
        "turns": 1,
        "tools": (),
        "tool_choice": None,
        "response_format": None,
        "structured_outputs": False,
        "min_p": None,
        "logit_bias": False,
        "language": "en",
        "media": 0,
        "system_prompt": "",
        "last_message": "hello",
        "overlap": 0.0,
    }
    return Features(**made | changes)


def requests() -> st.SearchStrategy[Features]:
    """Requests whose fields meet some of the conditions above."""
    numbers = st.none() | st.sampled_from([0, 0.5, 0.7, 0.9, 1, 2, 3])
    texts = st.sampled_from(["a", "b", "ab", "Fill in", "c"])
    return st.fixed_dictionaries(
        {
            "temperature": numbers,
            "max_tokens": numbers,
            "prompt_tokens": st.integers(0, 4),
            "stream": st.booleans(),
            "tools": st.lists(texts, max_size=2).map(tuple),
            "language": st.sampled_from(["en", "zh", "other"]),
            "system_prompt": texts | st.just(""),
            "headers": st.dictionaries(st.sampled_from(["x-a", "x-b"]), texts),
            "tenant": st.none() | texts,
            "min_p": st.none() | st.sampled_from([0.0, 0.1]),
            "logit_bias": st.booleans(),
        }
    ).map(lambda changes: features(**changes))
