"""The files that the project ships, and how a policy's name or path finds one."""

from __future__ import annotations

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


def find_policy(ref: str) -> Path:
    """The file of a shipped policy's name, or of a path.

    A relative path is one from the working folder. Raises FileNotFoundError, whose
    text says what was looked for.
    """
    shipped = shipped_policies()
    if ref in shipped:
        return shipped[ref]
    path = Path(ref)
    if path.is_file():
        return path
    if ref.endswith((".yaml", ".yml")) or "/" in ref:
        raise FileNotFoundError(f"no policy file {path.absolute()}")
    raise FileNotFoundError(f"no policy `{ref}` is shipped ({suggest(ref, shipped)})")
