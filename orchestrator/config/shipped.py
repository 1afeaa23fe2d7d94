"""The files that the project ships, and how a policy's name or path finds one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orchestrator
from orchestrator.config.base import suggest


def shipped_dir(kind: str) -> Path:
    """Where `policies` or `clusters` lie: package data in a wheel, or the checkout."""
    package = Path(orchestrator.__file__).parent
    packaged = package / kind
    return packaged if packaged.is_dir() else package.parent / kind


def shipped_policies() -> dict[str, Path]:
    """The shipped policies' files by name."""
    return {path.stem: path for path in sorted(shipped_dir("policies").glob("*.yaml"))}


def find_policy(ref: str, search: Sequence[Path] = ()) -> Path:
    """The file of a shipped policy's name, or of a path.

    A path is relative to one of the folders `search` or to the working folder. Raises
    FileNotFoundError, whose text says what was looked for.
    """
    shipped = shipped_policies()
    if ref in shipped:
        return shipped[ref]
    for folder in (*search, Path()):
        if (folder / ref).is_file():
            return folder / ref
    if ref.endswith((".yaml", ".yml")) or "/" in ref:
        places = ", ".join(str(folder.absolute()) for folder in (*search, Path()))
        raise FileNotFoundError(f"no policy file {ref} in {places}")
    raise FileNotFoundError(f"no policy `{ref}` is shipped ({suggest(ref, shipped)})")
