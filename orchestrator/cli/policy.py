"""`orchestrator policy`: check a policy, apply it, explain a decision, the schema."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.status import Status

from orchestrator.classify.classifier import classify
from orchestrator.classify.features import extract
from orchestrator.cli.explanation import show_explanation
from orchestrator.config.document import Document
from orchestrator.config.policy import Policy, parse_policy, policy_hash, policy_schema
from orchestrator.config.servefile import load_fleet
from orchestrator.config.shipped import find_policy
from orchestrator.errors import ConfigError, OrchestratorError, Problem
from orchestrator.records import PoolTraits
from orchestrator.routing.examples import endpoint_of, run_examples
from orchestrator.routing.lint import dead_rules, unknown_pools
from orchestrator.routing.router import Router

app = typer.Typer(help="Policies: check, apply, explain a decision, the schema.")

#: Exit codes of `check`, the worst of all files.
OK, EXAMPLE_FAILED, MISTAKES = 0, 1, 2

_FleetOption = Annotated[
    Path | None,
    typer.Option("--fleet", metavar="FILE", help="The Serve config file of the fleet."),
]
_JsonOption = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write the result to FILE."),
]


@dataclasses.dataclass(slots=True)
class _Report:
    """What `check` found in one file."""

    source: str
    policy: Policy | None = None
    mistakes: list[Problem] = dataclasses.field(default_factory=list)
    failures: list[Problem] = dataclasses.field(default_factory=list)
    warnings: list[Problem] = dataclasses.field(default_factory=list)

    @property
    def exit_code(self) -> int:
        if self.mistakes:
            return MISTAKES
        return EXAMPLE_FAILED if self.failures else OK

    def as_json(self) -> dict[str, Any]:
        return {
            "file": self.source,
            "name": self.policy.name if self.policy else None,
            "version": self.policy.version if self.policy else None,
            "hash": policy_hash(self.policy) if self.policy else None,
            "mistakes": [dataclasses.asdict(p) for p in self.mistakes],
            "failed_examples": [dataclasses.asdict(p) for p in self.failures],
            "warnings": [dataclasses.asdict(p) for p in self.warnings],
        }


@app.command()
def check(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files or shipped names.")
    ],
    fleet: _FleetOption = None,
    json_file: _JsonOption = None,
) -> None:
    """Check policies: every mistake with its line, dead rules, the policy's examples.

    With --fleet the examples run on that fleet's pools, and pools that it does not
    have are warned of; without it every pool is taken to exist and to serve every
    request.

    Exit code: 0 all is well (there may be warnings), 1 an example failed, 2 a file
    has mistakes.
    """
    traits = load_fleet(fleet).fleet.traits() if fleet is not None else None
    reports = [_check(ref, traits) for ref in files]
    console = Console(soft_wrap=True, highlight=False)
    for report in reports:
        _print(console, report)
    if json_file is not None:
        json_file.write_text(
            json.dumps([report.as_json() for report in reports], indent=2) + "\n"
        )
    raise typer.Exit(max(report.exit_code for report in reports))


def _check(ref: str, traits: dict[str, PoolTraits] | None) -> _Report:
    report = _Report(ref)
    try:
        document = _document(ref)
        report.source = document.source
        policy = parse_policy(document)
    except ConfigError as error:
        report.mistakes = error.problems
        return report
    report.policy = policy
    found = list(dead_rules(policy))
    if traits is not None:
        found += unknown_pools(policy, traits)
    if not policy.examples:
        hint = "an example shows, and proves, what the policy is for"
        report.warnings.append(Problem("the policy has no examples", hint=hint))
    report.warnings += [document.problem(m.at, m.message, m.hint) for m in found]
    report.failures = [
        document.problem(("examples", result.index), failure)
        for result in run_examples(policy, traits, extract, classify)
        for failure in result.failures
    ]
    return report


def _document(ref: str) -> Document:
    try:
        path = find_policy(ref)
    except FileNotFoundError as error:
        raise ConfigError(ref, [Problem(str(error))]) from None
    return Document.of_file(path)


def _print(console: Console, report: _Report) -> None:
    kinds = (
        ("error", "red", report.mistakes),
        ("failed example", "red", report.failures),
        ("warning", "yellow", report.warnings),
    )
    for kind, colour, problems in kinds:
        for problem in problems:
            place = f":{problem.line}:{problem.column}" if problem.line else ""
            console.print(f"{report.source}{place}: ", end="", markup=False)
            console.print(f"{kind}: ", end="", style=colour)
            console.print(str(dataclasses.replace(problem, line=None)), markup=False)
    if report.policy is not None and report.exit_code == OK:
        policy = report.policy
        console.print(
            f"{report.source}: ok: policy {policy.name} ({policy_hash(policy)}),"
            f" {len(policy.rules)} rules, {len(policy.examples)} examples pass",
            style="green",
            markup=False,
        )


@app.command()
def explain(
    file: Annotated[str, typer.Argument(help="A policy file or a shipped name.")],
    request: Annotated[
        Path,
        typer.Option("--request", metavar="FILE", help="A request body (JSON)."),
    ],
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="'NAME: VALUE'", help="Repeatable."),
    ] = None,
    fleet: _FleetOption = None,
    json_file: _JsonOption = None,
) -> None:
    """Show the way of a decision: features, class, every rule, every pool, the choice.

    Runs nothing. Exit code: 0 also for a request that the router would refuse, 2 for
    a file with mistakes.
    """
    policy = parse_policy(_document(file))
    if fleet is not None:
        traits = load_fleet(fleet).fleet.traits()
    else:
        traits = {name: PoolTraits(name, "none") for name in policy.pools()}
    body = _body(request)
    headers = dict(_header(text) for text in header or ())
    features = extract(body, headers, endpoint=endpoint_of(body))
    explanation = Router(policy, traits).explain(
        features,
        classify(features, headers.get("x-spec-class")),
        forced=headers.get("x-spec-pool"),
    )
    show_explanation(Console(), explanation, fleet_known=fleet is not None)
    if json_file is not None:
        text = json.dumps(dataclasses.asdict(explanation), indent=2)
        json_file.write_text(text + "\n")


def _body(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(
            str(path), [Problem(f"can't be read: {error.strerror}")]
        ) from None
    except json.JSONDecodeError as error:
        problem = Problem(f"no JSON: {error.msg}", "", error.lineno, error.colno)
        raise ConfigError(str(path), [problem]) from None
    except UnicodeDecodeError:
        raise ConfigError(str(path), [Problem("the file is no UTF-8 text")]) from None
    if not isinstance(body, dict):
        raise ConfigError(str(path), [Problem("a request body is a JSON object")])
    return body


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise OrchestratorError(f"--header {text!r}: write it as 'name: value'")
    return name.strip().lower(), value.strip()


@app.command()
def apply(
    file: Annotated[str, typer.Argument(help="A policy file or a shipped name.")],
    address: Annotated[
        str, typer.Option(help="Ray's dashboard, as `serve deploy` takes it.")
    ] = "http://127.0.0.1:8265",
    url: Annotated[
        str, typer.Option(help="Where the router answers, without /v1.")
    ] = "http://127.0.0.1:8000",
    application: Annotated[
        str | None,
        typer.Option("--app", metavar="NAME", help="One of several with a fleet."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(envvar="ORCH_API_KEY", help="An API key, where the router asks."),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds that the router's replicas have.")
    ] = 60,
    json_file: _JsonOption = None,
) -> None:
    """Put a policy in force on a running fleet: no engine restarts, no request is lost.

    The policy is checked, and its examples run on that fleet's pools. It is then
    written into the deployed config of the cluster, and the command waits until every
    replica of the router has it.

    Exit code: 0 it is in force everywhere, 1 an example failed, or the fleet was not
    reached, or a replica does not have it, 2 the file has mistakes.
    """
    document = _document(file)
    policy = parse_policy(document)
    # Ray takes seconds to import; every other command does without it.
    from orchestrator.serving.apply import DeployedRouter, RouterStatus

    console = Console(soft_wrap=True, highlight=False)
    router = DeployedRouter(address, application)
    report = _check(file, router.fleet.traits())
    _print(console, report)
    if report.exit_code != OK:
        raise typer.Exit(report.exit_code)
    with Status("Asking the router …", console=console) as shown:
        applied = router.apply(
            document.data,
            policy,
            RouterStatus(url, key),
            timeout,
            lambda have, running: shown.update(
                f"{have} of {running} router replicas have the policy …"
            ),
        )
    count = len(applied.replicas)
    where = "the router" if count == 1 else f"all {count} replicas of the router"
    in_force = f"{policy.name} ({policy_hash(policy)}) is in force on {where}"
    console.print(
        f"{in_force} after {applied.seconds:.1f} s"
        if applied.changed
        else f"unchanged: {in_force}; nothing was sent",
        style="green",
        markup=False,
    )
    if json_file is not None:
        result = report.as_json() | dataclasses.asdict(applied)
        json_file.write_text(json.dumps(result, indent=2) + "\n")


@app.command()
def schema() -> None:
    """Print the JSON Schema of a policy, for editors (policies/schema.json)."""
    typer.echo(json.dumps(policy_schema(), indent=2, ensure_ascii=False))
