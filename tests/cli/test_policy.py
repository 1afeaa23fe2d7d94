"""`orchestrator policy`: what a person sees, exit codes, and the JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli.fleet import LOCAL_CPU
from orchestrator.cli.main import app
from orchestrator.config.policy import policy_schema
from orchestrator.config.shipped import shipped_policies
from orchestrator.errors import ConfigError, FleetError

FLEET = """\
applications:
  - import_path: orchestrator.serving.app:build_app
    args:
      fleet:
        model: {id: m, source: s}
        accelerator: gpu
        pools:
          plain: {speculation: {method: none}}
          ngram: {speculation: {method: ngram, num_speculative_tokens: 5}}
"""
POLICY = """\
name: mine
rules:
  - name: code
    when: {class: code}
    use: ngram
otherwise: plain
examples:
  - request: {messages: [{role: user, content: "Write a Python function that sorts"}]}
    expect: {class: code, pool: ngram}
"""


def run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["policy", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    return path


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(POLICY)
    return path


def test_shipped_policies_pass() -> None:
    code, output = run("check", *shipped_policies().values(), "--fleet", LOCAL_CPU)
    assert code == 0, output
    assert output.count(": ok: ") == len(shipped_policies())
    assert "warning" not in output


def test_shipped_policies_pass_without_the_trained_drafts(fleet: Path) -> None:
    code, output = run("check", *shipped_policies().values(), "--fleet", fleet)
    assert code == 0, output
    assert "the fleet has no pool `eagle`; requests go to the fallback" in output


def test_check(mine: Path) -> None:
    code, output = run("check", mine)
    assert code == 0
    assert output.startswith(f"{mine}: ok: policy mine (")
    assert "1 rules, 1 examples pass" in output


def test_mistakes(mine: Path, tmp_path: Path) -> None:
    mine.write_text(POLICY.replace("class: code}", "clas: code}", 1))
    out = tmp_path / "out.json"
    code, output = run("check", mine, "default", "--json", out)
    assert code == 2
    assert (
        f"{mine}:4:12: error: rules[0].when.clas: unknown field `clas`"
        " (did you mean `class`?" in output
    )
    assert "default.yaml: ok" in output
    [first, second] = json.loads(out.read_text())
    assert (first["mistakes"][0]["line"], first["name"]) == (4, None)
    assert (second["mistakes"], second["name"]) == ([], "default")


def test_failed_examples(mine: Path) -> None:
    mine.write_text(POLICY.replace("pool: ngram", "pool: plain"))
    code, output = run("check", mine)
    assert code == 1
    assert (
        f"{mine}:8:5: failed example: examples[0]: pool is ngram, expected plain"
        " (rule code matched)" in output
    )


def test_warnings(mine: Path, fleet: Path) -> None:
    again = "  - {name: again, when: {class: code, stream: true}, use: nrgam}\n"
    mine.write_text(POLICY.replace("otherwise: plain", f"{again}otherwise: plain"))
    code, output = run("check", mine, "--fleet", fleet)
    assert code == 0
    assert f"{mine}:6:5: warning: rules[1]: `again` can never match: `code`" in output
    assert (
        f"{mine}:6:59: warning: rules[1].use: the fleet has no pool `nrgam`; requests"
        " go to the fallback (did you mean `ngram`?" in output
    )


def test_a_policy_without_examples(mine: Path) -> None:
    mine.write_text(POLICY.partition("examples:")[0])
    assert "warning: the policy has no examples" in run("check", mine)[1]


def test_files_that_are_not_there(tmp_path: Path) -> None:
    code, output = run("check", "defualt", tmp_path / "x.yaml")
    assert code == 2
    assert "no policy `defualt` is shipped (did you mean `default`?" in output
    assert "no policy file" in output


def test_a_broken_fleet(mine: Path, fleet: Path) -> None:
    fleet.write_text(FLEET.replace("gpu", "gpus"))
    with pytest.raises(ConfigError, match=r"fleet.yaml:6:22: .*gpus"):
        run("check", mine, "--fleet", fleet)


def test_explain(mine: Path, fleet: Path, tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    message = {"role": "user", "content": "Write a Python function [red]x[/red]"}
    body.write_text(json.dumps({"messages": [message], "min_p": 0.1}))
    out = tmp_path / "out.json"
    code, output = run(
        "explain", mine, "--request", body, "--fleet", fleet, "--json", out
    )
    assert code == 0
    assert "class: code (confidence" in output
    assert "[red]x[/red]" in output
    assert "pool: plain" in output
    assert "vLLM refuses min_p" in output
    made = json.loads(out.read_text())
    assert made["decision"]["rule"] == "code"
    assert made["rules"] == [{"rule": "code", "matched": True, "why": "class is code"}]
    assert [pool["feasible"] for pool in made["pools"]] == [True, False]


def test_explain_a_refusal(mine: Path, tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_text(json.dumps({"prompt": "x"}))
    code, output = run("explain", mine, "--request", body, "-H", "x-spec-pool: ngram")
    assert code == 0
    assert "refused: The policy mine does not let clients choose the pool" in output


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "body.json:1:2: no JSON"), ("[]", "a request body is a JSON object")],
)
def test_explain_bad_bodies(
    mine: Path, tmp_path: Path, content: str, message: str
) -> None:
    body = tmp_path / "body.json"
    body.write_text(content)
    with pytest.raises(ConfigError) as caught:
        run("explain", mine, "--request", body)
    assert message in str(caught.value)


def test_apply_tells_of_mistakes_before_it_asks_for_a_cluster(mine: Path) -> None:
    with pytest.raises(FleetError, match=r"nowhere \(--address\)"):
        run("apply", mine, "--address", "nowhere")
    mine.write_text(POLICY.replace("class: code}", "clas: code}", 1))
    with pytest.raises(ConfigError, match=r"mine.yaml:4:12: .*did you mean `class`"):
        run("apply", mine, "--address", "nowhere")


def test_schema() -> None:
    code, output = run("schema")
    assert code == 0
    assert json.loads(output) == policy_schema()
