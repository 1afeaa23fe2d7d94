"""The policies that the project ships, and how a name or path finds its file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orchestrator
from orchestrator.config.base import suggest


def policies_dir() -> Path:
    """The shipped policies: package data in a wheel, `policies/` in a checkout."""
    package = Path(orchestrator.__file__).parent
    packaged = package / "policies"
    return packaged if packaged.is_dir() else package.parent / "policies"


def shipped_policies() -> dict[str, Path]:
    """The shipped policies' files by name."""
    return {path.stem: path for path in sorted(policies_dir().glob("*.yaml"))}


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
