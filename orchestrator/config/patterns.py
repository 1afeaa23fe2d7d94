"""Regular expressions in policies: compiled at load, and kept from running away."""

from __future__ import annotations

import re
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from orchestrator.config.base import Mistake, Mistakes

#: Characters of a text that a pattern is searched in; a text may be 200 KB, and a
#: router has under a millisecond.
SEARCHED_CHARS = 4000
MAX_PATTERN_CHARS = 1000

_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT)


def check_pattern(pattern: str) -> str:
    """The pattern itself, or Mistakes with what is wrong with it."""
    if len(pattern) > MAX_PATTERN_CHARS:
        text = f"the pattern has more than {MAX_PATTERN_CHARS} characters"
        raise Mistakes(Mistake(text))
    try:
        re.compile(pattern)
        tree = parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise Mistakes(Mistake(f"no valid regular expression: {error}")) from None
    if _nested(tree, inside=False):
        raise Mistakes(
            Mistake(
                "a repeat inside a repeat, such as (a+)+, can take exponential time",
                hint="repeat once, or make the inner repeat possessive: (a++)+",
            )
        )
    return pattern


def _nested(tree: Any, *, inside: bool) -> bool:
    """Whether an unbounded repeat that can back-track stands within another."""
    for operation, argument in tree:
        if operation in _REPEATS and argument[1] is sre.MAXREPEAT:
            if inside or _nested(argument[2], inside=True):
                return True
        elif operation in (sre.POSSESSIVE_REPEAT, sre.ATOMIC_GROUP):
            continue
        elif any(_nested(child, inside=inside) for child in _children(argument)):
            return True
    return False


def _children(argument: Any) -> list[Any]:
    """The sub-patterns among an operation's arguments, wherever they stand."""
    if isinstance(argument, parser.SubPattern):
        return [argument]
    if isinstance(argument, tuple | list):
        return [child for part in argument for child in _children(part)]
    return []
