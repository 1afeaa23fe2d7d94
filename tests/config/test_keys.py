"""API keys: the file's mistakes, what is never shown, and who a key belongs to."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.config import keys as module
from orchestrator.config.keys import ApiKey, KeyRing, hash_key, parse_keys
from orchestrator.errors import ConfigError
from orchestrator.records import Caller

A, B = "a" * 64, "b" * 64
#: What must not be repeated anywhere, since it may be a key.
KEY = "sk-orch-27OetlLp5aJpt5_n9q1lzta7frmbxOb4GAcBMDL80bc"


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_keys(text, "k.yaml")
    assert caught.value.source == "k.yaml"
    return [str(problem) for problem in caught.value.problems]


def test_a_file_with_all_that_it_may_say() -> None:
    text = f"""\
keys:
  - name: web
    sha256: {A.upper()}
  - name: eval
    sha256: {B}
    pools: [plain, ngram]
  - {{name: ops, sha256: {"c" * 64}, pools: all, admin: true}}
"""
    assert [key.caller() for key in parse_keys(text, "k.yaml")] == [
        Caller("web", (), False),
        Caller("eval", ("plain", "ngram"), False),
        Caller("ops", "all", True),
    ]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (f"sha256: {A}", "2:5: keys[0].name: is required"),
        ("name: a", "2:5: keys[0].sha256: is required"),
        (
            f"name: a, sha256: {A[1:]}",
            "2:23: keys[0].sha256: is no SHA-256: must be 64 hex digits"
            " (`orchestrator keys new` makes a key and its entry)",
        ),
        (f"name: a, sha256: {'g' * 64}", "is no SHA-256"),
        ("name: a, sha256: 12", "is no SHA-256"),
        (f"name: a b, sha256: {A}", '2:12: keys[0].name: "a b" is no valid name'),
        (f"name: a, sha256: {A}, admin: 1", "admin: must be true or false, not 1"),
        (
            f"name: a, sha256: {A}, pools: plain",
            'keys[0].pools: must be `all` or a list of pools\' names, not "plain"',
        ),
        (f"name: a, sha256: {A}, pools: ", "list of pools' names, not empty"),
        (f"name: a, sha256: {A}, pools: [ok, Bad]", 'pools[1]: "Bad" is no valid name'),
        (f"name: a, sha256: {A}, key: x", "keys[0].key: unknown field `key`"),
        (
            f"name: b, sha256: {B}",
            "3:12: keys[1].name: this name stands twice (first in keys[0])",
        ),
    ],
)
def test_mistakes_have_lines(entry: str, told: str) -> None:
    text = f"keys:\n  - {{{entry}}}\n  - {{name: b, sha256: {B.upper()}}}\n"
    assert any(told in m for m in mistakes(text)), mistakes(text)


def test_a_hash_that_stands_twice() -> None:
    text = f"keys: [{{name: a, sha256: {A}}}, {{name: b, sha256: {A.upper()}}}]"
    assert mistakes(text) == [
        "1:111: keys[1].sha256: this sha256 stands twice (first in keys[0])"
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "must be a mapping, not empty"),
        ("keys: []", "1:7: keys: must not be empty"),
        ("keys:", "keys: must be a list, not empty"),
        ("kees: []", "unknown field `kees` (did you mean `keys`? allowed: keys)"),
    ],
)
def test_a_file_without_keys_is_a_mistake(text: str, told: str) -> None:
    assert any(told in m for m in mistakes(text)), mistakes(text)


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f"keys: {KEY}",
        f"{KEY}: x",
        f"{KEY}: x\n{KEY}: y",
        f"keys: [{KEY}]",
        f"keys: [{{name: a, sha256: {KEY}}}]",
        f"keys: [{{name: '{KEY} ', sha256: {A}}}]",
        f"keys: [{{name: a, sha256: {A}, pools: {KEY}}}]",
        f"keys: [{{name: a, sha256: {A}, pools: [{KEY}]}}]",
        f"keys: [{{name: a, sha256: {A}, admin: {KEY}}}]",
        f"keys: [*{KEY}]",
        f"keys: !{KEY} 3",
    ],
)
def test_a_key_in_the_wrong_place_is_not_repeated(text: str) -> None:
    """Mistakes go to logs and to `/router/status`."""
    assert not any(KEY[8:20] in m for m in mistakes(text)), mistakes(text)


def ring(**keys: str) -> KeyRing:
    return KeyRing(
        ApiKey(name=name, sha256=hash_key(key), admin=name == "ops")
        for name, key in keys.items()
    )


def test_the_ring_finds_whose_key_it_is() -> None:
    keys = ring(web="one", ops="two")
    assert len(keys) == 2
    assert keys.find("one") == Caller("web")
    assert keys.find("two") == Caller("ops", admin=True)
    for wrong in ("", "one ", "ONE", hash_key("one"), "\ud800", "钥匙"):
        assert keys.find(wrong) is None


@given(st.lists(st.text(), unique=True, max_size=5), st.text())
def test_a_token_is_found_where_it_is_a_key(tokens: list[str], token: str) -> None:
    keys = KeyRing(
        ApiKey(name=f"k{i}", sha256=hash_key(known)) for i, known in enumerate(tokens)
    )
    found = keys.find(token)
    wanted = Caller(f"k{tokens.index(token)}") if token in tokens else None
    assert found == wanted


def test_every_entry_is_compared_in_constant_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    hashed: list[str] = []

    def compare(one: bytes, two: bytes) -> bool:
        compared.append((one, two))
        return one == two

    def hash_once(key: str) -> str:
        hashed.append(key)
        return hash_key(key)

    keys = ring(a="1", b="2", c="3")
    monkeypatch.setattr(module.hmac, "compare_digest", compare)
    monkeypatch.setattr(module, "hash_key", hash_once)
    for token in ("1", "3", "none"):
        keys.find(token)
        assert (len(compared), hashed) == (3, [token])
        compared.clear()
        hashed.clear()


_PARTS = st.sampled_from(
    ["keys", "name", "sha256", "pools", "admin", "all", "web", A, B, KEY, "~", "true"]
)
_DATA = st.recursive(
    _PARTS | st.integers() | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(_PARTS, inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(_DATA)
def test_any_data_is_keys_or_an_error_that_tells_no_secret(data: Any) -> None:
    told = ""
    try:
        parse_keys(yaml.safe_dump(data), "k.yaml")
    except ConfigError as error:
        told = str(error)
    assert KEY[8:20] not in told


_ENTRIES = st.lists(
    st.builds(
        lambda name, digest, pools, admin: ApiKey(
            name=name, sha256=digest, pools=pools, admin=admin
        ),
        st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True),
        st.binary(min_size=32, max_size=32).map(bytes.hex),
        st.just("all") | st.lists(st.sampled_from(["plain", "n-1"]), max_size=2),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
    unique_by=(lambda key: key.name, lambda key: key.sha256),
)


@settings(deadline=None)
@given(_ENTRIES)
def test_round_trip(entries: list[ApiKey]) -> None:
    data = {"keys": [key.model_dump(mode="json") for key in entries]}
    assert list(parse_keys(yaml.safe_dump(data), "k.yaml")) == entries
