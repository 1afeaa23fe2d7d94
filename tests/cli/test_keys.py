"""`orchestrator keys`: a key is shown once, a file is only ever added to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli.main import app
from orchestrator.config.keys import KeyRing, hash_key, parse_keys
from orchestrator.errors import ConfigError
from orchestrator.records import Caller

KEY = re.compile(r"sk-orch-[A-Za-z0-9_-]{43}")


def run(*arguments: str | Path) -> tuple[str, str]:
    """What the command printed: standard output, and standard error."""
    result = CliRunner().invoke(app, ["keys", *map(str, arguments)])
    if result.exception is not None:
        raise result.exception
    return result.stdout, result.stderr


def test_new_prints_the_key_and_its_entry() -> None:
    out, notes = run("new", "web", "--pools", "plain, ngram", "--admin")
    key, _, entry = out.partition("\n")
    assert KEY.fullmatch(key)
    assert "only now" in notes
    assert not KEY.search(entry + notes)
    (parsed,) = parse_keys(f"keys:\n{entry}", "k")
    assert parsed.caller() == Caller("web", ("plain", "ngram"), True)
    assert parsed.sha256 == hash_key(key)
    assert run("new", "web")[0] != run("new", "web")[0]


def test_new_with_a_file_makes_it_and_adds_to_it(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    keys = {}
    for name, *options in (
        ("web",),
        ("on", "--pools", "all"),
        ("12", "--admin"),
        ("x", "--pools", "a,b"),
    ):
        out, notes = run("new", name, *options, "--file", file)
        keys[name] = out.strip()
        assert KEY.fullmatch(keys[name])
        assert not KEY.search(notes + file.read_text())
    assert file.stat().st_mode & 0o777 == 0o600
    ring = KeyRing(parse_keys(file.read_text(), "k"))
    assert ring.find(keys["web"]) == Caller("web")
    assert ring.find(keys["on"]) == Caller("on", "all")
    assert ring.find(keys["12"]) == Caller("12", admin=True)
    assert ring.find(keys["x"]) == Caller("x", ("a", "b"))


@pytest.mark.parametrize(
    "before",
    [
        "# ours\nkeys:\n  - name: old # the first\n    sha256: {}\n# the end\n",
        "keys:\n- name: old\n  sha256: {}",
        "---\nkeys:\n      - sha256: {}\n        name: old\n\n",
    ],
)
def test_what_stands_in_the_file_stays(tmp_path: Path, before: str) -> None:
    file = tmp_path / "keys.yaml"
    text = before.replace("{}", "a" * 64)
    file.write_text(text)
    file.chmod(0o640)
    run("new", "web", "--file", file)
    assert file.read_text().startswith(text)
    assert [k.name for k in parse_keys(file.read_text(), "k")] == ["old", "web"]
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("keys: [{name: old, sha256: {}}]\n", "can't be added at the end"),
        ("keys:\n  - {name: web, sha256: {}}\n", "a key `web` already"),
        ("keys:\n  - {name: old}\n", "sha256: is required"),
        ("keys:\n  - {name: old, sha256: {}}\n...\n", "can't be added at the end"),
    ],
)
def test_a_file_that_cannot_take_the_entry_stays_as_it_is(
    tmp_path: Path, before: str, told: str
) -> None:
    file = tmp_path / "keys.yaml"
    text = before.replace("{}", "a" * 64)
    file.write_text(text)
    with pytest.raises(ConfigError, match=told) as caught:
        run("new", "web", "--file", file)
    assert caught.value.exit_code == 2
    assert file.read_text() == text


def test_new_tells_bad_names_and_folders(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='name: "a b" is no valid name'):
        run("new", "a b")
    with pytest.raises(ConfigError, match=r'pools\[1\]: "B" is no valid name'):
        run("new", "a", "--pools", "a,B")
    with pytest.raises(ConfigError, match="can't be written: No such file"):
        run("new", "a", "--file", tmp_path / "none" / "keys.yaml")


def test_check(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    run("new", "web", "--file", file)
    run("new", "ops", "--admin", "--pools", "all", "--file", file)
    out, _ = run("check", file)
    assert f"{file}: ok: keys: 2" in out
    rows = [re.split(r"  +", line.strip()) for line in out.splitlines()]
    assert ["web", "as the policy says"] in rows
    assert ["ops", "all pools", "yes"] in rows
    file.write_text("keys:\n  - name: web\n")
    with pytest.raises(ConfigError, match=r"2:5: keys\[0\]\.sha256: is required"):
        run("check", file)
    with pytest.raises(ConfigError, match="can't be read: No such file"):
        run("check", tmp_path / "none.yaml")
