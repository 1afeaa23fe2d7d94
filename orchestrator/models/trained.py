"""The drafts that ship with the project: trained weights, joined with the target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from orchestrator.models.folder import Progress, build_once, read_manifest, silent
from orchestrator.models.target import ensure_target, model_path

Name = Literal["draft", "eagle"]

#: Holds what `orchestrator models train-draft` wrote: NAME.safetensors, the trained
#: parameters alone, and NAME.json, the report of their training.
WEIGHTS = Path(__file__).with_name("weights")


def ensure_draft(
    name: Name, progress: Progress = silent, *, force: bool = False
) -> Path:
    """Build the demo target's draft `name` if it is not built yet; return its path.

    Builds the target too where that is missing. Raises `ModelBuildError`.
    """
    target = ensure_target(progress)
    path = model_path(name)

    def write(folder: Path) -> None:
        progress("Joining the trained weights with the target's embedding")
        # Imported here: it imports PyTorch, which takes seconds.
        from orchestrator.models.distil import join

        join(name, WEIGHTS / f"{name}.safetensors", target, folder)

    build_once(path, write, _facts(name, target), progress, force=force)
    return path


def _facts(name: Name, target: Path) -> dict[str, Any]:
    report = json.loads((WEIGHTS / f"{name}.json").read_text("utf-8"))
    manifest = read_manifest(target) or {}
    return {
        "name": name,
        "model": f"SmolLM2-135M-Instruct, {_WHAT[name]}",
        "license": "Apache-2.0",
        # Its embedding is the target's.
        "source": {"weights": report["sha256"], "target": manifest.get("source")},
    }


_WHAT: dict[Name, str] = {"draft": "parallel draft model", "eagle": "EAGLE-3 head"}
