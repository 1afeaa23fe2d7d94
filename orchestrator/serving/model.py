"""Where the target model lies, and whether the fleet fits it; imports no engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orchestrator.config.fleet import Fleet
from orchestrator.config.modelcheck import check_model
from orchestrator.errors import ConfigError
from orchestrator.models.target import ensure_target, model_path

#: A model source that stands for the demo target in the user's cache folder.
DEMO_TARGET = "demo:target"


def model_source(fleet: Fleet) -> str:
    """Where the weights lie; builds the demo target when it is wanted and missing."""
    if fleet.model.source == DEMO_TARGET:
        return str(ensure_target())
    return fleet.model.source


def check_model_folder(fleet: Fleet, source: str) -> None:
    """Refuse what an engine would refuse, where `config.json` lies in a folder here.

    Raises:
        ConfigError: for example a tensor parallel size that doesn't divide the heads;
            `source` is how it calls the fleet.
    """
    target = _read_config(fleet.model.source)
    if target is None:
        return
    drafts = {
        name: config
        for name, pool in fleet.pools.items()
        if (model := getattr(pool.speculation, "model", None)) is not None
        and (config := _read_config(model)) is not None
    }
    problems = check_model(fleet, target, drafts)
    if problems:
        raise ConfigError(source, problems)


def _read_config(model: str) -> dict[str, Any] | None:
    folder = model_path() if model == DEMO_TARGET else Path(model)
    file = folder / "config.json"
    return json.loads(file.read_text("utf-8")) if file.is_file() else None
