"""Where models lie, and whether the fleet fits the target; imports no engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.config.fleet import Fleet
from orchestrator.config.modelcheck import check_model
from orchestrator.errors import ConfigError, Problem
from orchestrator.models.demo import NAMES, PREFIX, demo_name, ensure_demo
from orchestrator.models.target import model_path


def model_source(reference: str) -> str:
    """What an engine loads; builds a demo model when it is wanted and missing."""
    name = demo_name(reference)
    return reference if name is None else str(ensure_demo(name))


def check_model_folder(fleet: Fleet, source: str) -> None:
    """Refuse what an engine would refuse, where `config.json` lies in a folder here.

    Raises:
        ConfigError: for example a tensor parallel size that doesn't divide the heads;
            `source` is how it calls the fleet.
    """
    drafts = {
        name: model
        for name, pool in fleet.pools.items()
        if (model := getattr(pool.speculation, "model", None)) is not None
    }
    problems = [*_unknown("model.source", fleet.model.source)]
    for name, model in drafts.items():
        problems += _unknown(f"pools.{name}.speculation.model", model)
    target = _read_config(fleet.model.source)
    if target is not None:
        read = {name: _read_config(model) for name, model in drafts.items()}
        found = {name: config for name, config in read.items() if config is not None}
        problems += check_model(fleet, target, found)
    if problems:
        raise ConfigError(source, problems)


def _unknown(field: str, reference: str) -> Iterator[Problem]:
    name = demo_name(reference)
    if name is not None and name not in NAMES:
        allowed = ", ".join(PREFIX + known for known in NAMES)
        yield Problem(
            f"there is no demo model `{name}`", field, hint=f"one of {allowed}"
        )


def _read_config(reference: str) -> dict[str, Any] | None:
    name = demo_name(reference)
    folder = Path(reference) if name is None else model_path(name)
    file = folder / "config.json"
    return json.loads(file.read_text("utf-8")) if file.is_file() else None
