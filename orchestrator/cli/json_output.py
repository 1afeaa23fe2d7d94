"""The option `--json` of commands that measure."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

#: `-` is the standard output; what a person reads goes to the other one then.
JsonFile = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="FILE", help="Write the result to FILE (- for stdout)."
    ),
]


def write_json(result: dict[str, Any], json_file: JsonFile) -> None:
    """Write the result where the option says; without it, nowhere."""
    if json_file is None:
        return
    text = json.dumps(result, indent=2) + "\n"
    if json_file == "-":
        sys.stdout.write(text)
    else:
        Path(json_file).write_text(text, "utf-8")
