"""What a condition says of each field, as sets that can be compared."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from orchestrator.config.condition import Condition
from orchestrator.config.patterns import SEARCHED_CHARS

Test = dict[str, Any]

#: Fields whose comparisons ask for one of several values: two tests of such a field
#: can both hold though no single value passes both.
_MANY = ("tools",)
#: Combinations of choices that are looked at.
_MAX_WAYS = 128
_ALWAYS_PRESENT = ("class", "prompt_tokens", "turns", "stream", "language")


@dataclass(slots=True)
class Facts:
    """A conjunction: tests by field, choices (`any`) and exclusions (`not`)."""

    fields: dict[str, list[Test]] = field(default_factory=dict)
    choices: list[tuple[Condition, ...]] = field(default_factory=list)
    excluded: list[Condition] = field(default_factory=list)
    #: Why no request can have them all; empty where one may.
    impossible: str = ""

    def copy(self) -> Facts:
        """A copy to add to."""
        fields = {name: list(tests) for name, tests in self.fields.items()}
        return Facts(fields, list(self.choices), list(self.excluded), self.impossible)

    def joined(self, condition: Condition) -> Facts:
        """These facts and the condition's."""
        both = self.copy()
        _collect(condition, both)
        both.impossible = both.impossible or _contradiction(both)
        return both

    def branches(self) -> list[Facts]:
        """One for each way to meet the first choice.

        None where there is no choice, or too many to follow: to know less is safe.
        """
        ways = math.prod(len(choice) for choice in self.choices)
        if not self.choices or ways > _MAX_WAYS:
            return []
        rest = self.copy()
        first = rest.choices.pop(0)
        return [rest.joined(choice) for choice in first]

    def within(self, name: str, wanted: list[Test]) -> bool:
        """Whether what is known of a field suffices for all the wanted tests."""
        known = self.fields.get(name, [])
        return all(_covered(name, known, test) for test in wanted)


def facts_of(condition: Condition | None, *, split: bool = True) -> Facts:
    """What the condition says; `split=False` leaves out whether it can hold."""
    facts = Facts()
    if condition is not None:
        _collect(condition, facts)
        if split:
            facts.impossible = _contradiction(facts)
    return facts


def _collect(condition: Condition, facts: Facts) -> None:
    tests = condition.model_dump(by_alias=True, exclude_none=True)
    for name, test in tests.items():
        if name == "header":
            for header, each in test.items():
                facts.fields.setdefault(f"header {header}", []).append(each)
        elif name not in ("all", "any", "not"):
            facts.fields.setdefault(name, []).append(test)
    for part in condition.all or ():
        _collect(part, facts)
    if condition.any is not None:
        facts.choices.append(condition.any)
    if condition.not_ is not None:
        facts.excluded.append(condition.not_)


def _contradiction(facts: Facts) -> str:
    for name, tests in facts.fields.items():
        for group in [[test] for test in tests] if name in _MANY else [tests]:
            if _empty(name, group):
                return f"no {name} can be {' and '.join(_told(t) for t in group)}"
    return ""


def _told(test: Test) -> str:
    return ", ".join(f"{key} {value}" for key, value in test.items())


def _empty(name: str, tests: list[Test]) -> bool:
    asked = {test["present"] for test in tests if "present" in test}
    compared = any(key != "present" for test in tests for key in test)
    if len(asked) == 2 or (asked == {False} and name in _ALWAYS_PRESENT):
        return True
    if asked == {False} and compared:
        return True
    values = _values(tests)
    if values is not None:
        return not any(all(_passes(t, v) for t in tests) for v in values)
    return _range(tests).empty


def _covered(name: str, known: list[Test], wanted: Test) -> bool:
    """Whether every value that passes the known tests passes the wanted one."""
    if wanted in known:
        return True
    if name in _MANY:
        return any(_subset(name, [test], wanted) for test in known)
    return _subset(name, known, wanted)


def _subset(name: str, known: list[Test], wanted: Test) -> bool:
    asked = wanted.get("present")
    if asked is not None and asked != _presence(name, known):
        return False
    compared = {key: value for key, value in wanted.items() if key != "present"}
    if not compared:
        return True
    values = _values(known)
    if values is not None:
        passing = [v for v in values if all(_passes(test, v) for test in known)]
        return all(_passes(compared, value) for value in passing)
    if "matches" in compared and compared["matches"] not in {
        test.get("matches") for test in known
    }:
        return False
    if "eq" in compared or "in" in compared:
        return False
    if not any(key != "present" for test in known for key in test):
        return False
    return _range(known).inside(_range([compared]))


def _presence(name: str, known: list[Test]) -> bool | None:
    """Whether the field is set, where that is known."""
    for test in known:
        if "present" in test:
            return bool(test["present"])
    if name in _ALWAYS_PRESENT:
        return True
    return True if known else None  # a comparison holds of a given value only


def _values(tests: list[Test]) -> list[Any] | None:
    """The finite list of values that can pass, where one of the tests gives one."""
    for test in tests:
        if "eq" in test:
            return [test["eq"]]
        if "in" in test:
            return list(test["in"])
    return None


def _passes(test: Test, value: Any) -> bool:
    return all(_PASSES[key](value, want) for key, want in test.items())


_PASSES: dict[str, Callable[[Any, Any], bool]] = {
    "present": lambda value, want: True,
    "eq": lambda value, want: bool(value == want),
    "in": lambda value, want: value in want,
    "lt": lambda value, want: bool(value < want),
    "lte": lambda value, want: bool(value <= want),
    "gt": lambda value, want: bool(value > want),
    "gte": lambda value, want: bool(value >= want),
    "between": lambda value, want: bool(want[0] <= value <= want[1]),
    "matches": lambda value, want: re.search(want, value[:SEARCHED_CHARS]) is not None,
}


@dataclass(frozen=True, slots=True)
class _Range:
    """An interval of numbers; an open end excludes its number."""

    low: float = -math.inf
    low_open: bool = False
    high: float = math.inf
    high_open: bool = False

    @property
    def empty(self) -> bool:
        if self.low == self.high:
            return self.low_open or self.high_open
        return self.low > self.high

    def inside(self, other: _Range) -> bool:
        """Whether every number of this range is in the other."""
        lower = (self.low, self.low_open) >= (other.low, other.low_open)
        upper = (-self.high, self.high_open) >= (-other.high, other.high_open)
        return lower and upper


def _range(tests: list[Test]) -> _Range:
    """The intersection of the tests' order comparisons."""
    low, low_open, high, high_open = -math.inf, False, math.inf, False
    for test in tests:
        for key, value in test.items():
            if key in ("gt", "gte", "between"):
                end = value[0] if key == "between" else value
                low, low_open = max((low, low_open), (end, key == "gt"))
            if key in ("lt", "lte", "between"):
                end = value[1] if key == "between" else value
                negated, high_open = max((-high, high_open), (-end, key == "lt"))
                high = -negated
    return _Range(low, low_open, high, high_open)
