"""The `orchestrator` command: one file per command group, joined here."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from orchestrator.cli import bench, classify, fleet, keys, models, policy
from orchestrator.errors import OrchestratorError

app = typer.Typer(
    name="orchestrator",
    help="Route every LLM request to the vLLM pool whose speculative mode suits it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(fleet.demo)
app.command()(fleet.serve)
app.add_typer(bench.app, name="bench")
app.command()(classify.classify)
app.add_typer(keys.app, name="keys")
app.add_typer(models.app, name="models")
app.add_typer(policy.app, name="policy")


def main() -> None:
    """Run the command; an error of ours is one message and its exit code."""
    try:
        app()
    except OrchestratorError as error:
        Console(stderr=True).print(
            str(error), style="red", markup=False, soft_wrap=True
        )
        sys.exit(error.exit_code)
