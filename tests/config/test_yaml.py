"""The YAML reader: places, refused constructs, and no crash on any text."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.config.yaml import read_yaml, show_path
from orchestrator.errors import ConfigError


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_yaml(text, "f.yaml")
    return [str(p) for p in caught.value.problems]


def test_places_of_keys_and_values() -> None:
    data, marks = read_yaml("a:\n  b: [1, {c: x}]\n", "f")
    assert data == {"a": {"b": [1, {"c": "x"}]}}
    assert marks[("a", "b")].key == (2, 3)
    assert marks[("a", "b")].value == (2, 6)
    assert marks[("a", "b", 1, "c")].key == (2, 11)


def test_keys_that_stand_twice() -> None:
    assert problems("a: 1\nb: {x: 1, x: 2}\na: 2\n") == [
        "3:1: a: the key `a` stands twice (first on line 1)",
        "2:11: b.x: the key `x` stands twice (first on line 2)",
    ]


def test_anchors_and_merges() -> None:
    text = "base: &b {x: 1, y: 2}\nown: {<<: *b, y: 3}\n"
    data, marks = read_yaml(text, "f")
    assert data["own"] == {"x": 1, "y": 3}
    assert marks[("own", "y")].key == (2, 15)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1,\nb", "this is not YAML"),
        ("a: 1\n---\nb: 2", "this is not YAML"),
        ("a: \x00", "this is not YAML"),
        ("a: &x [*x]", "1:4: a[0]: this alias refers to itself"),
        ("1: x", '1:1: the key 1 is read as no text (in quotes it is text: "1")'),
        ("on: x", "the key on is read as no text"),
        ("? [a]\n: x", "a key must be text"),
        ("a: !!binary aGk=", "can't be read as"),
        ("a: !!int x", "can't be read as"),
        ("a: !!bool x", "can't be read as"),
        ("a: !!python/name:os.system x", "can't be read as"),
        ("[" * 100 + "]" * 100, "nested deeper than 60 levels"),
        ("[" * 1500 + "]" * 1500, "nested deeper than 60 levels"),
    ],
)
def test_refused(text: str, message: str) -> None:
    assert any(message in p for p in problems(text))


def test_a_few_lines_can_not_stand_for_billions_of_values() -> None:
    lists = "\n".join(f"l{i}: &l{i} [*l{i - 1}, *l{i - 1}]" for i in range(1, 40))
    assert "more than 50000 values" in problems(f"l0: &l0 [1]\n{lists}")[0]
    merges = "\n".join(
        f"m{i}: &m{i} {{<<: [*m{i - 1}, *m{i - 1}]}}" for i in range(1, 40)
    )
    data, _ = read_yaml(f"m0: &m0 {{x: 1}}\n{merges}", "f")
    assert data["m39"] == {"x": 1}


def test_dates_are_text() -> None:
    assert read_yaml("a: 2024-01-01", "f")[0] == {"a": "2024-01-01"}


def test_show_path() -> None:
    assert show_path(("rules", 2, "when", "any", 0)) == "rules[2].when.any[0]"


@settings(deadline=None)
@given(st.text(alphabet="ab:-[]{}&*!<>|'\"\n #?,1.\t%@`~=", max_size=60))
def test_any_text_is_data_or_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        _, marks = read_yaml(text, "f")
        assert all(mark.key >= (1, 1) for mark in marks.values())
