"""`orchestrator keys`: make an API key, check a keys file."""

from __future__ import annotations

import os
import re
import secrets
import textwrap
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from orchestrator.config.document import Document, read_text
from orchestrator.config.keys import PREFIX, ApiKey, hash_key, parse_keys
from orchestrator.errors import ConfigError, Problem

app = typer.Typer(help="API keys: make one, check a keys file.")


@app.command()
def new(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Whose key it is: the tenant in outcomes, policies."
        ),
    ],
    admin: Annotated[
        bool, typer.Option("--admin", help="It may change things under /router/.")
    ] = False,
    pools: Annotated[
        str | None,
        typer.Option(
            metavar="all|A,B", help="Pools that it may choose with x-spec-pool."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Add the entry here; made where missing."),
    ] = None,
) -> None:
    """Make a key: it is printed once and stored nowhere, its hash is what the file has.

    The key goes to standard output, and so does its entry for the keys file unless
    --file puts it there. Exit code: 2 for a bad name or file, with nothing changed.
    """
    key = PREFIX + secrets.token_urlsafe(32)
    data = {"name": name, "sha256": hash_key(key), "admin": admin}
    if pools is not None:
        data["pools"] = pools if pools == "all" else re.split(r"\s*,\s*", pools)
    entry = Document(data, "orchestrator keys new").parse(ApiKey)
    notes = Console(stderr=True, soft_wrap=True, highlight=False)
    if file is not None:
        _add(entry, file)
        notes.print(f"{file} has its entry. This key is shown only now:", markup=False)
        typer.echo(key)
    else:
        notes.print("This key is shown only now; its entry for the keys file follows:")
        typer.echo(f"{key}\n\n{_as_yaml(entry)}", nl=False)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="A keys file.")],
) -> None:
    """Check a keys file: every mistake with its line, or what each key may do.

    Exit code: 0 all is well, 2 the file has mistakes.
    """
    keys = parse_keys(read_text(file), str(file))
    table = Table(box=SIMPLE_HEAD)
    for column in ("name", "may choose", "admin"):
        table.add_column(column, overflow="fold")
    for key in keys:
        pools = "all pools" if key.pools == "all" else ", ".join(key.pools)
        table.add_row(key.name, pools or "as the policy says", "yes" * key.admin)
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"{file}: ok: keys: {len(keys)}", style="green", markup=False)
    console.print(table)


def _as_yaml(entry: ApiKey) -> str:
    data = entry.model_dump(mode="json", exclude_defaults=True)
    return textwrap.indent(yaml.safe_dump([data], sort_keys=False), "  ")


def _add(entry: ApiKey, file: Path) -> None:
    """Append to the file as it stands, so that its comments stay."""
    source = str(file)
    before = read_text(file) if file.exists() else ""
    keys = parse_keys(before, source) if before else ()
    if any(key.name == entry.name for key in keys):
        problem = Problem(f"there is a key `{entry.name}` already", "keys")
        raise ConfigError(source, [problem])
    text = _as_yaml(entry)
    if first := re.search(r"^ *(?=- )", before, re.MULTILINE):
        text = textwrap.indent(textwrap.dedent(text), first[0])
    if not before:
        text = f"keys:\n{text}"
    elif not before.endswith("\n"):
        text = f"\n{text}"
    try:
        whole = parse_keys(before + text, source) == (*keys, entry)
    except ConfigError:
        whole = False
    if not whole:
        text = "an entry can't be added at the end of this file"
        hint = "give `keys` one entry below the other, or paste the entry yourself"
        raise ConfigError(source, [Problem(text, hint=hint)])
    try:
        # Only a new file gets this mode; one that is there keeps its own.
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with open(handle, "w", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        problem = Problem(f"can't be written: {error.strerror}")
        raise ConfigError(source, [problem]) from None
