"""The policy's loader: every mistake at once, with its line, and no other error."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.config.document import Document
from orchestrator.config.policy import (
    Policy,
    all_plain,
    load_policy,
    parse_policy,
    policy_hash,
    policy_schema,
)
from orchestrator.config.shipped import shipped_dir, shipped_policies
from orchestrator.errors import ConfigError
from orchestrator.records import PoolTraits
from tests.strategies import policies

RULE = """\
name: p
rules:
  - name: r
    when: {when}
    use: ngram
otherwise: plain
"""


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_policy(text, "p.yaml")
    assert "http" not in str(caught.value)
    return [str(p) for p in caught.value.problems]


def test_every_mistake_at_once() -> None:
    text = """\
name: my policy
rules:
  - name: hot
    when: {temperature: {gte: "0.9"}, temprature: 1}
    use: plain
  - name: hot
    when: {class: structred}
    use: {pool: ngram, speculation: {}}
  - name: forced
    use: 3
fallbak: [plain]
spill: {}
"""
    assert mistakes(text) == [
        "1:1: otherwise: is required",
        '1:7: name: "my policy" is no valid name (letters, digits, `.`, `_`, `-`,'
        " beginning with a letter or digit)",
        '4:31: rules[0].when.temperature.gte: must be a number, not "0.9"',
        "4:39: rules[0].when.temprature: unknown field `temprature` (did you mean"
        " `temperature`? allowed: class, temperature, top_p, max_tokens, prompt_tokens,"
        " turns, stream, tools, response_format, language, system_prompt, last_message,"
        " header, model, tenant, all, any, not)",
        "6:11: rules[1].name: the name `hot` stands twice (first in rules[0])",
        "7:19: rules[1].when.class: unknown class `structred` (did you mean"
        " `structured`? allowed: structured, code, translation, grounded, reasoning,"
        " creative, open)",
        "8:24: rules[1].use.speculation: this version does not have `speculation` yet"
        " (remove it)",
        "9:11: rules[2].name: `forced` is a name of the router's own",
        "10:10: rules[2].use: must be a mapping, not 3",
        "11:1: fallbak: unknown field `fallbak` (did you mean `fallback`? allowed:"
        " name, version, allow_forced_pool, classes, rules, otherwise, fallback,"
        " examples)",
        "12:1: spill: this version does not have `spill` yet (remove it)",
    ]


@pytest.mark.parametrize(
    ("when", "message"),
    [
        (
            "{temperature: hot}",
            '4:25: rules[0].when.temperature: must be a number, not "hot"',
        ),
        (
            "{temperature: [0, x]}",
            "4:29: rules[0].when.temperature[1]: must be a number",
        ),
        ("{temperature: .nan}", "must be a finite number"),
        ("{temperature: true}", "must be a number, not true"),
        ("{temperature: {}}", "needs a comparison (allowed: eq, in, lt, lte, gt, gte"),
        ("{temperature: []}", "must not be empty"),
        (
            "{temperature: {matches: x}}",
            "`matches` does not compare numbers (allowed: eq, in, lt",
        ),
        ('{temperature: {">=": 1}}', "unknown comparison `>=` (write `gte`)"),
        ("{turns: {ne: 3}}", "put `not` around the condition"),
        ("{turns: {gtee: 3}}", "did you mean `gte`?"),
        ("{turns: {between: [3, 1]}}", "starts at 3, after its end 1"),
        ("{turns: {between: [3]}}", "turns.between[1]: is required"),
        ("{class: {lt: 3}}", "`lt` does not compare classes (allowed: eq, in)"),
        ("{class: [code, cod]}", "unknown class `cod` (did you mean `code`?"),
        ("{last_message: {lt: 3}}", "`lt` does not compare text"),
        ("{last_message: {matches: '(a'}}", "no valid regular expression: missing )"),
        ("{last_message: {matches: '(a+)+$'}}", "can take exponential time"),
        ("{last_message: {matches: '(a|b*)*'}}", "can take exponential time"),
        ("{last_message: {matches: '((a+)b)+'}}", "can take exponential time"),
        (f"{{last_message: {{matches: '{'a' * 1001}'}}}}", "more than 1000 characters"),
        ("{turns: {gte: }}", "4:24: rules[0].when.turns.gte: is empty"),
        ("{stream: maybe}", 'must be true or false, not "maybe"'),
        (
            "{stream: {in: [true]}}",
            "`in` does not compare true and false (allowed: eq)",
        ),
        (
            "{language: english}",
            'unknown value "english" (allowed: en, zh, code, other)',
        ),
        ("{header: {x-flag: on}}", "header.x-flag: must be text, not true (put it in"),
        ("{header: {}}", "must not be empty"),
        ("{header: {name: x-team, eq: 3}}", "header.x-team.eq: must be text, not 3"),
        ("{model: }", "4:18: rules[0].when.model: is empty"),
        ("{all: []}", "rules[0].when.all: must not be empty"),
        ("{not: {}}", "rules[0].when.not: is empty"),
        ("{any: [{clas: code}]}", "did you mean `class`?"),
        (
            "{}",
            "4:11: rules[0].when: is empty (a rule that always matches has no `when`)",
        ),
        ("", "rules[0].when: is empty"),
        ("[code]", "must be a mapping, not a list"),
    ],
)
def test_conditions(when: str, message: str) -> None:
    found = mistakes(RULE.replace("{when}", when))
    assert any(message in m for m in found), found
    assert len(found) == 1, found


@pytest.mark.parametrize(
    "pattern",
    ["(?i)fill in", "(?:[a-z]+,){1,3}", "(a++)+", "(?>a+)+", "(?=a+)b*", "a+b+"],
)
def test_patterns_that_are_safe(pattern: str) -> None:
    parse_policy(RULE.replace("{when}", f"{{last_message: {{matches: '{pattern}'}}}}"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a mapping, not empty"),
        ("[]", "must be a mapping, not a list"),
        ("name: p\notherwise: Plain\n", '2:12: otherwise: "Plain" is no valid name'),
        ("name: p\notherwise: {}\n", "otherwise.pool: is required"),
        (
            "name: p\notherwise: p\nfallback: [a, 3]\n",
            "3:15: fallback[1]: must be text",
        ),
        (
            f"name: {'x' * 65}\notherwise: p\n",
            "name: has more than 64 characters",
        ),
        (
            "name: p\notherwise: p\nrules: [{name: r, use: p, choose: {}}]\n",
            "this version does not have `choose` yet",
        ),
        (
            "name: p\notherwise: p\nexamples: [{request: {}, expect: {}}]\n",
            "expects nothing (allowed: class, rule, pool)",
        ),
        (
            "name: p\notherwise: p\nallow_forced_pool: 1\n",
            "must be true or false, not 1",
        ),
    ],
)
def test_policies_with_mistakes(text: str, message: str) -> None:
    assert any(message in m for m in mistakes(text)), mistakes(text)


def test_later_parts_of_the_language() -> None:
    for name in ("spill", "affinity", "experiments"):
        text = f"name: p\notherwise: p\n{name}: []\n"
        assert mistakes(text) == [
            f"3:1: {name}: this version does not have `{name}` yet (remove it)"
        ]


def test_own_classes_are_known() -> None:
    text = RULE.replace("{when}", "{class: legal}")
    assert "unknown class `legal`" in mistakes(text)[0]
    parse_policy(text + "classes: [{name: legal, when: {header: {x-team: law}}}]\n")


def test_two_ways_to_write_a_header() -> None:
    one = parse_policy(RULE.replace("{when}", "{header: {name: X-Team, in: [a, b]}}"))
    two = parse_policy(RULE.replace("{when}", "{header: {x-team: [a, b]}}"))
    assert one == two
    three = parse_policy(RULE.replace("{when}", "{header: {name: X-Team}}"))
    four = parse_policy(RULE.replace("{when}", "{header: {x-team: {present: true}}}"))
    assert three == four


def test_an_inline_policy_tells_the_lines_of_its_file() -> None:
    document = Document.of_text("a:\n  policy:\n    nam: x\n", "serve.yaml")
    with pytest.raises(ConfigError, match=r"serve.yaml:3:5: a.policy.nam: unknown"):
        load_policy(document.at("a", "policy"))
    with pytest.raises(ConfigError, match="policy:name: is required"):
        load_policy({"otherwise": "plain"})


def test_names_and_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_policy("default").name == "default"
    (tmp_path / "mine.yaml").write_text("name: mine\notherwise: plain\n")
    assert load_policy("mine.yaml").name == "mine"
    assert load_policy(str(tmp_path / "mine.yaml")).name == "mine"
    with pytest.raises(FileNotFoundError, match="did you mean `default`"):
        load_policy("defualt")
    with pytest.raises(FileNotFoundError, match=r"no policy file .*other"):
        load_policy("other.yaml")


def test_hash() -> None:
    text = RULE.replace("{when}", "{class: code}")
    one = parse_policy(text)
    same = parse_policy(text.replace("{class: code}", "{class: {eq: code}}"))
    tested = parse_policy(text + "examples: [{request: {}, expect: {pool: plain}}]\n")
    other = parse_policy(text.replace("otherwise: plain", "otherwise: ngram"))
    numbered = parse_policy(text + "version: '2'\n")
    assert policy_hash(one) == policy_hash(same) == policy_hash(tested)
    assert policy_hash(one) == policy_hash(numbered)
    assert (one.version, numbered.version) == (None, "2")
    assert policy_hash(one) != policy_hash(other)
    assert len(policy_hash(one)) == 12


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("3", "version: must be text, not 3 (put it in quotes)"),
        ("1.10", "version: must be text, not 1.1 (put it in quotes)"),
        ("a b", 'version: "a b" is no valid name'),
    ],
)
def test_a_version_that_is_no_short_text(version: str, message: str) -> None:
    text = RULE.replace("{when}", "{class: code}") + f"version: {version}\n"
    (told,) = mistakes(text)
    assert message in told


def test_all_plain() -> None:
    traits = {n: PoolTraits(n, m) for n, m in (("n", "ngram"), ("base", "none"))}
    policy = all_plain(traits)
    assert (policy.otherwise.pool, policy.fallback) == ("base", ("base", "n"))
    with pytest.raises(ValueError, match="no pool without speculation"):
        all_plain({"n": traits["n"]})


def test_the_shipped_schema_is_current() -> None:
    shipped = json.loads((shipped_dir("policies") / "schema.json").read_text())
    assert shipped == policy_schema(), (
        "orchestrator policy schema > policies/schema.json"
    )
    jsonschema.Draft202012Validator.check_schema(shipped)


_VALIDATOR = jsonschema.Draft202012Validator(policy_schema())


def _schema_errors(data: Any) -> list[Any]:
    return list(_VALIDATOR.iter_errors(data))


@pytest.mark.parametrize("name", sorted(shipped_policies()))
def test_shipped_policies(name: str) -> None:
    path = shipped_policies()[name]
    text = path.read_text()
    assert text.startswith("# yaml-language-server: $schema=schema.json\n")
    policy = load_policy(name)
    assert policy.name == name
    assert policy.examples
    assert not _schema_errors(yaml.safe_load(text))


@pytest.mark.parametrize(
    "text",
    [
        "{name: p, otherwise: plain, fallbak: []}",
        "{name: p}",
        "{name: p, otherwise: plain, rules: [{name: r, use: p, when: {clas: code}}]}",
        "{name: p, otherwise: x, rules: [{name: r, use: p, when: {turns: {gt1: 3}}}]}",
        "{name: p, otherwise: x, rules: [{name: r, use: p, when: {turns: x}}]}",
        "{name: p, otherwise: plain, rules: [{name: r, use: p, when: }]}",
        "{name: p, otherwise: Plain}",
    ],
)
def test_the_schema_refuses(text: str) -> None:
    assert _schema_errors(yaml.safe_load(text))


@settings(deadline=None, max_examples=50)
@given(policies())
def test_round_trip(policy: Policy) -> None:
    data = policy.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert parse_policy(yaml.safe_dump(data), "p") == policy
    assert not _schema_errors(data)


_WORDS = st.sampled_from(
    (
        *("name", "rules", "when", "use", "otherwise", "class", "temperature", "gte"),
        *("not", "all", "any", "header", "fallback", "examples", "request", "expect"),
        *("pool", "plain", "x", "0.9", "3", "true", "null", "code", "~", "[]", "{}"),
    )
)
_DATA = st.recursive(
    _WORDS | st.integers() | st.floats() | st.text(max_size=5) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(deadline=None)
@given(_DATA)
def test_any_data_is_a_policy_or_a_config_error(data: Any) -> None:
    with contextlib.suppress(ConfigError):
        parse_policy(yaml.safe_dump(data, allow_unicode=True), "p")
    if isinstance(data, dict):
        with contextlib.suppress(ConfigError):
            parse_policy(data, "p")


@settings(deadline=None)
@given(st.text(alphabet="abnme:-[]{}&*!<>'\"\n #,1.", max_size=60))
def test_any_text_is_a_policy_or_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        parse_policy(f"name: p\notherwise: x\nrules:\n  - {text}", "p")
