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
#: The same for text in lower-case ASCII, in half the time.
_ASCII_WORD = re.compile("[a-z]+")


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


@dataclass(frozen=True, slots=True)
class _Entry:
    """A phrase under the first token of some of its heads."""

    phrase: Phrase
    #: The heads that begin with the token: a cheap test before the pattern's.
    heads: tuple[str, ...]
    pattern: re.Pattern[str]


class Lexicon:
    """Phrases, indexed by the first token of their heads."""

    def __init__(self, phrases: Iterable[Phrase]) -> None:
        #: By first token: all phrases, and those of which it is a whole head.
        self._index: dict[str, list[_Entry]] = {}
        self._bare: dict[str, list[_Entry]] = {}
        for phrase in phrases:
            heads = phrase.heads.split("|")
            literals = "|".join(map(re.escape, heads))
            pattern = re.compile(rf"(?:{literals}){_BOUNDARY}{phrase.tail}")
            for token in dict.fromkeys(map(_first_token, heads)):
                own = tuple(h for h in heads if _first_token(h) == token)
                entry = _Entry(phrase, own, pattern)
                self._index.setdefault(token, []).append(entry)
                bare = self._bare.setdefault(token, [])
                if token in own:
                    bare.append(entry)
        #: By first token: the heads that go on after it.
        self._longer = {
            token: tuple({h for e in entries for h in e.heads if h != token})
            for token, entries in self._index.items()
        }
        single = "".join(t for t in self._index if re.match(f"[{UNSPACED}]", t))
        self._tokens = re.compile(rf"[{single}]|{_WORD}" if single else _WORD)

    def scan(self, text: str, source: str, factor: float = 1.0) -> list[Hit]:
        """Evidence in a lower-case `text`; each phrase counts once.

        `source` begins the signal ("words", "system"); `factor` scales the weights.
        """
        hits: dict[str, Hit] = {}
        tries = _MAX_TRIES
        tokens = _ASCII_WORD if text.isascii() else self._tokens
        for token in tokens.finditer(text):
            word = token[0]
            longer = self._longer.get(word)
            if longer is None:
                continue
            start = token.start()
            # Most often no longer head stands here, which one test tells for all.
            entries = self._index if text.startswith(longer, start) else self._bare
            for entry in entries[word]:
                phrase = entry.phrase
                if phrase.name in hits or not text.startswith(entry.heads, start):
                    continue
                if not tries:
                    return list(hits.values())
                tries -= 1
                if match := entry.pattern.match(text, start):
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
