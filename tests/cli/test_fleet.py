from rich.console import Console
from typer.testing import CliRunner

from orchestrator.bench.demo import Comparison, Run
from orchestrator.bench.demo_requests import REQUESTS
from orchestrator.cli.fleet import comparison_table
from orchestrator.cli.main import app


def run(name: str, pool: str, speed: float) -> Run:
    drafts = pool != "plain"
    return Run(
        request=name,
        request_class="translation",
        rule="hot-sampling",
        pool=pool,
        text="",
        completion_tokens=10,
        tokens_per_s=speed,
        acceptance_rate=0.5 if drafts else None,
        effective_tokens=2.0 if drafts else 1.0,
    )


def test_the_demos_table_fits_a_terminal_of_80_columns() -> None:
    results = [
        Comparison(run(r.name, "ngram", 150.0), run(r.name, "plain", 100.0))
        for r in REQUESTS
    ]
    same = run("same", "plain", 100.0)
    console = Console(width=80, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(comparison_table([*results, Comparison(same, same)]))
    lines = capture.get().splitlines()
    rows = [line for line in lines if "150.0" in line]
    assert len(rows) == len(REQUESTS)
    assert all(row.rstrip().endswith("1.50×") for row in rows)
    assert all("50%" in row and "2.00" in row and "100.0" in row for row in rows)
    assert [line.split()[-1] for line in lines if line.strip().startswith("same")] == [
        "–"
    ]


def test_every_command_has_help() -> None:
    for command in ([], ["demo"], ["serve"], ["models", "build"], ["policy", "check"]):
        result = CliRunner().invoke(app, [*command, "--help"])
        assert result.exit_code == 0
        assert "Usage" in result.output


def test_a_cluster_file_that_is_not_there_is_one_message() -> None:
    result = CliRunner().invoke(app, ["serve", "nowhere.yaml"])
    assert result.exit_code != 0
    assert "nowhere.yaml" in str(result.exception)
