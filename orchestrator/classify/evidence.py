"""Weighted evidence in words: phrases that speak for a class, and a fast scan for them.

Every phrase starts with one of its `heads`. The heads' first words (first characters,
for scripts without spaces) form an index, so a pattern is tried only where one of its
heads stands: hundreds of phrases cost no more than reading the text once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

#: Kana, Han and Hangul: no spaces between words, so every character is a token.
UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
#: Patterns tried for one text: a bound on the time that a hostile text can take.
_MAX_TRIES = 100
#: No letter on both sides; `\b` takes 写 after "python" for the same word.
_BOUNDARY = r"(?:(?<![a-z])|(?![a-z]))"
_WORD = rf"[^\W\d_{UNSPACED}]+"


@dataclass(frozen=True, slots=True)
class Phrase:
    """One row of a lexicon.

    `cls` may be empty: the class is then the name of the group in `tail` that matched.
    Weights are log-odds: 1 hints, 2 is fair, 3 strong, 4 and more decide.
    """

    cls: str
    weight: float
    name: str
    #: Literal beginnings, lower case, separated by `|`; they match whole words.
    heads: str
    #: Regular expression for what must follow; empty: anything.
    tail: str = ""


class Hit(NamedTuple):
    """Evidence found: for which class, how strong, and how to name it."""

    cls: str
    weight: float
    signal: str


class _Entry(NamedTuple):
    """A phrase under the first token of some of its heads."""

    phrase: Phrase
    #: The heads that begin with the token: a cheap test before the pattern's.
    heads: tuple[str, ...]
    pattern: re.Pattern[str]


class Lexicon:
    """Phrases, indexed by the first token of their heads."""

    def __init__(self, phrases: Iterable[Phrase]) -> None:
        self._index: dict[str, list[_Entry]] = {}
        for phrase in phrases:
            heads = phrase.heads.split("|")
            literals = "|".join(map(re.escape, heads))
            pattern = re.compile(rf"(?:{literals}){_BOUNDARY}{phrase.tail}")
            for token in dict.fromkeys(map(_first_token, heads)):
                own = tuple(h for h in heads if _first_token(h) == token)
                self._index.setdefault(token, []).append(_Entry(phrase, own, pattern))
        single = "".join(t for t in self._index if re.match(f"[{UNSPACED}]", t))
        self._tokens = re.compile(rf"[{single}]|{_WORD}" if single else _WORD)

    def scan(self, text: str, source: str, factor: float = 1.0) -> list[Hit]:
        """Evidence in a lower-case `text`; each phrase counts once.

        `source` begins the signal ("words", "system"); `factor` scales the weights.
        """
        hits: dict[str, Hit] = {}
        tries = _MAX_TRIES
        for token in self._tokens.finditer(text):
            start = token.start()
            for phrase, heads, pattern in self._index.get(token[0], ()):
                if phrase.name in hits or not text.startswith(heads, start):
                    continue
                if not tries:
                    return list(hits.values())
                tries -= 1
                if match := pattern.match(text, start):
                    cls = phrase.cls or match.lastgroup or ""
                    signal = f"{source}: {phrase.name}"
                    if not phrase.cls:
                        signal += f" {match[cls]}"
                    hits[phrase.name] = Hit(cls, phrase.weight * factor, signal)
        return list(hits.values())


def _first_token(head: str) -> str:
    match = re.match(rf"[{UNSPACED}]|{_WORD}", head)
    if match is None:
        raise ValueError(f"head {head!r} must begin with a word")
    return match[0]
