"""Conditions compiled to predicates that can also say why they hold or fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from orchestrator.config.condition import Condition
from orchestrator.config.patterns import SEARCHED_CHARS
from orchestrator.records import Features

#: What a field of a request holds: of (features, class name).
_Reader = Callable[[Features, str], Any]
_Predicate = Callable[[Any], bool]

#: The fields of a `Condition` that read one value of the request; `header` and the
#: combinations stand apart.
_READERS: dict[str, _Reader] = {
    "class": lambda f, c: c,
    "temperature": lambda f, c: f.temperature,
    "top_p": lambda f, c: f.top_p,
    "max_tokens": lambda f, c: f.max_tokens,
    "prompt_tokens": lambda f, c: f.prompt_tokens,
    "turns": lambda f, c: f.turns,
    "stream": lambda f, c: f.stream,
    "tools": lambda f, c: f.tools or None,
    "response_format": lambda f, c: f.response_format,
    "language": lambda f, c: f.language,
    "system_prompt": lambda f, c: f.system_prompt or None,
    "last_message": lambda f, c: f.last_message or None,
    "model": lambda f, c: f.model,
    "tenant": lambda f, c: f.tenant,
}
#: Long texts, which explanations do not repeat.
_LONG = ("system_prompt", "last_message")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A condition that is ready to be asked."""

    #: Whether it holds for (features, class name).
    test: Callable[[Features, str], bool]
    #: Whether it holds, and the reason in words.
    explain: Callable[[Features, str], tuple[bool, str]]


@dataclass(frozen=True, slots=True)
class _Check:
    """One comparison of one field: what it asks, in words and as a predicate."""

    words: str
    holds: _Predicate


def compile_condition(condition: Condition) -> Compiled:
    """All parts of the condition, joined by `and`."""
    parts: list[Compiled] = []
    tests = condition.model_dump(by_alias=True, exclude_none=True)
    for name, test in tests.items():
        if name in _READERS:
            parts.append(_field(name, _READERS[name], test))
        elif name == "header":
            parts += [
                _field(f"header {header}", _header(header), each)
                for header, each in test.items()
            ]
    if condition.all is not None:
        parts += [compile_condition(part) for part in condition.all]
    if condition.any is not None:
        parts.append(_any([compile_condition(part) for part in condition.any]))
    if condition.not_ is not None:
        parts.append(_not(compile_condition(condition.not_)))
    return parts[0] if len(parts) == 1 else _all(parts)


def _header(name: str) -> _Reader:
    return lambda f, c: f.headers.get(name)


def _field(name: str, read: _Reader, test: dict[str, Any]) -> Compiled:
    present = test.get("present")
    checks = [_check(k, v) for k, v in test.items() if k != "present"]
    predicates = [check.holds for check in checks]
    many = name == "tools"

    def holds(features: Features, class_name: str) -> bool:
        value = read(features, class_name)
        if present is not None and present != (value is not None):
            return False
        if not predicates:
            return True
        if value is None:
            return False
        if many:
            return any(all(p(item) for p in predicates) for item in value)
        return all(p(value) for p in predicates)

    def explain(features: Features, class_name: str) -> tuple[bool, str]:
        value = read(features, class_name)
        given = _words(name, value)
        if present is not None and present != (value is not None):
            return False, given
        if holds(features, class_name):
            # That a value equals what it is goes without saying.
            asked = " and ".join(c.words for c in checks if not given.endswith(c.words))
            return True, f"{given} ({asked})" if asked else given
        if value is None:
            return False, given
        failed = [c.words for c in checks if many or not c.holds(value)]
        return False, f"{given}, not {' and '.join(failed)}"

    return Compiled(holds, explain)


def _check(comparison: str, operand: Any) -> _Check:
    match comparison:
        case "eq":
            return _Check(_quote(operand), lambda v: bool(v == operand))
        case "in":
            allowed = frozenset(operand)
            words = f"in [{', '.join(_quote(o) for o in operand)}]"
            return _Check(words, lambda v: v in allowed)
        case "lt":
            return _Check(f"< {operand:g}", lambda v: bool(v < operand))
        case "lte":
            return _Check(f"<= {operand:g}", lambda v: bool(v <= operand))
        case "gt":
            return _Check(f"> {operand:g}", lambda v: bool(v > operand))
        case "gte":
            return _Check(f">= {operand:g}", lambda v: bool(v >= operand))
        case "between":
            low, high = operand
            words = f"between {low:g} and {high:g}"
            return _Check(words, lambda v: bool(low <= v <= high))
        case "matches":
            search = re.compile(operand).search
            words = f"matching /{operand}/"
            return _Check(words, lambda v: search(v[:SEARCHED_CHARS]) is not None)
        case _:
            raise AssertionError(f"no such comparison: {comparison}")


def _quote(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _words(name: str, value: Any) -> str:
    if value is None:
        return f"{name} is not given"
    if name == "tools":
        return f"tools are {_quote(', '.join(value))}"
    if name in _LONG:
        return f"{name} is {len(value)} characters"
    return f"{name} is {_quote(value)}"


def _all(parts: list[Compiled]) -> Compiled:
    tests = [part.test for part in parts]

    def explain(features: Features, class_name: str) -> tuple[bool, str]:
        results = [part.explain(features, class_name) for part in parts]
        failed = [text for ok, text in results if not ok]
        if failed:
            return False, "; ".join(failed)
        return True, " and ".join(text for _, text in results)

    return Compiled(lambda f, c: all(test(f, c) for test in tests), explain)


def _any(parts: list[Compiled]) -> Compiled:
    tests = [part.test for part in parts]

    def explain(features: Features, class_name: str) -> tuple[bool, str]:
        results = [part.explain(features, class_name) for part in parts]
        for ok, text in results:
            if ok:
                return True, text
        return False, "; ".join(text for _, text in results)

    return Compiled(lambda f, c: any(test(f, c) for test in tests), explain)


def _not(part: Compiled) -> Compiled:
    def explain(features: Features, class_name: str) -> tuple[bool, str]:
        holds, text = part.explain(features, class_name)
        return not holds, f"excluded: {text}" if holds else text

    test = part.test
    return Compiled(lambda f, c: not test(f, c), explain)
