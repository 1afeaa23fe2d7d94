"""The lexicon's scan: heads, boundaries, groups, counting."""

from __future__ import annotations

import pytest

from orchestrator.classify.evidence import Hit, Lexicon, Phrase
from orchestrator.classify.lexicon import MESSAGE, SYSTEM
from orchestrator.records import CLASSES


def test_a_phrase_counts_once_and_only_as_whole_words() -> None:
    lexicon = Lexicon([Phrase("code", 2.0, "c", "c++|rust")])
    assert lexicon.scan("c++ and rust and c++", "words") == [
        Hit("code", 2.0, "words: c")
    ]
    assert lexicon.scan("rusty cc++", "words") == []


def test_mixed_scripts_need_no_spaces() -> None:
    lexicon = Lexicon(
        [Phrase("code", 1.0, "a", "python"), Phrase("code", 1.0, "b", "用")]
    )
    names = [hit.signal for hit in lexicon.scan("请用python写", "words")]
    assert names == ["words: b", "words: a"]


def test_tail_and_factor() -> None:
    lexicon = Lexicon([Phrase("creative", 2.0, "poem", "write", " an? (?:ode|poem)")])
    assert lexicon.scan("write a letter, write a poem", "words", 0.5) == [
        Hit("creative", 1.0, "words: poem")
    ]


def test_the_group_names_the_class() -> None:
    lexicon = Lexicon([Phrase("", 3.0, "asks for", "write", " (?P<code>tests)")])
    assert lexicon.scan("write tests", "words") == [
        Hit("code", 3.0, "words: asks for tests")
    ]


def test_a_head_must_begin_with_a_word() -> None:
    with pytest.raises(ValueError, match="must begin with a word"):
        Lexicon([Phrase("code", 1.0, "x", "+c")])


@pytest.mark.parametrize("lexicon", [MESSAGE, SYSTEM])
def test_every_phrase_names_a_class(lexicon: Lexicon) -> None:
    for entries in lexicon._index.values():
        for entry in entries:
            name = entry.phrase.cls
            names = {name} if name else set(entry.pattern.groupindex)
            assert names
            assert names <= set(CLASSES)
