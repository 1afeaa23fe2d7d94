"""The demo models by the names that fleet files call them: `demo:target` and so on."""

from __future__ import annotations

from pathlib import Path

from orchestrator.errors import ModelBuildError
from orchestrator.models.folder import Progress, silent
from orchestrator.models.target import ensure_target
from orchestrator.models.trained import ensure_draft

PREFIX = "demo:"
#: In the order in which they are built: the drafts need the target.
NAMES = ("target", "draft", "eagle")


def demo_name(reference: str) -> str | None:
    """The model's own name where `reference` stands for a demo model."""
    if not reference.startswith(PREFIX):
        return None
    return reference.removeprefix(PREFIX)


def ensure_demo(name: str, progress: Progress = silent, *, force: bool = False) -> Path:
    """Build the demo model `name`, one of `NAMES`, if it is not there; its path."""
    match name:
        case "target":
            return ensure_target(progress, force=force)
        case "draft" | "eagle":
            return ensure_draft(name, progress, force=force)
    raise ModelBuildError(f"There is no demo model {name!r}; there are {NAMES}.")
