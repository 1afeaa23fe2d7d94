"""An `Explanation` on the terminal."""

from __future__ import annotations

import dataclasses

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.records import Features
from orchestrator.routing.router import Explanation

_YES, _NO = Text("yes", "green"), Text("no", "dim")
#: Texts and derived data that would bury the rest.
_NOT_SHOWN = ("headers", "previous_message", "previous_answer")
_SHOWN_CHARS = 100


def show_explanation(
    console: Console, explanation: Explanation, *, fleet_known: bool
) -> None:
    """Print the whole way of a decision, top to bottom."""
    console.print(_features(explanation.features))
    request_class = explanation.request_class
    console.print()
    console.print(
        f"class: {request_class.name} (confidence {request_class.confidence:.2f})",
        style="bold",
        markup=False,
    )
    for signal in request_class.signals:
        console.print(f"  {signal}", markup=False, highlight=False)
    console.print()
    console.print(_rules(explanation))
    if fleet_known:
        console.print(_pools(explanation))
    else:
        console.print("No --fleet: every pool is taken to serve every request.")
    console.print()
    decision = explanation.decision
    if decision is None:
        console.print(f"refused: {explanation.error}", style="red bold", markup=False)
        return
    console.print(f"pool: {decision.pool}", style="green bold", markup=False)
    console.print(f"  {decision.reason}", markup=False, highlight=False)
    if decision.alternatives:
        then = ", ".join(decision.alternatives)
        console.print(f"  if it is full or down: {then}", markup=False)
    console.print(f"  policy {decision.policy} ({decision.policy_hash})", markup=False)


def _features(features: Features) -> Table:
    table = Table(title="features", title_justify="left", show_header=False)
    table.add_column(style="cyan")
    table.add_column(overflow="fold")
    for field in dataclasses.fields(features):
        value = getattr(features, field.name)
        if field.name in _NOT_SHOWN or value in (None, "", (), False):
            continue
        shown = f"{value:.3g}" if isinstance(value, float) else str(value)
        if isinstance(value, tuple):
            shown = ", ".join(value)
        shown = " ".join(shown.split())
        if len(shown) > _SHOWN_CHARS:
            shown = shown[: _SHOWN_CHARS - 1] + "…"
        table.add_row(field.name, Text(shown))
    return table


def _rules(explanation: Explanation) -> Table:
    table = Table(title="rules, in order", title_justify="left")
    table.add_column("rule", style="cyan")
    table.add_column("matches")
    table.add_column("why")
    for trace in explanation.rules:
        mark = _YES if trace.matched else _NO
        table.add_row(Text(trace.rule), mark, Text(trace.why))
    decision = explanation.decision
    if decision is not None and decision.rule == "otherwise":
        table.add_row("otherwise", _YES, "no rule matched")
    return table


def _pools(explanation: Explanation) -> Table:
    table = Table(title="pools", title_justify="left")
    table.add_column("pool", style="cyan")
    table.add_column("speculation")
    table.add_column("can serve it")
    table.add_column("why not")
    for trace in explanation.pools:
        mark = _YES if trace.feasible else _NO
        table.add_row(trace.pool, trace.method, mark, Text(trace.why))
    return table
