"""Where models lie, and whether the fleet fits the target; imports no engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.config.fleet import Fleet
from orchestrator.config.modelcheck import check_model
from orchestrator.config.speculation import DraftModel
from orchestrator.errors import ConfigError, Problem
from orchestrator.models.demo import PREFIX, demo_name, ensure_demo
from orchestrator.models.target import model_path

#: The demo's own draft for each method that has one.
_DRAFTS = {"draft_model": "draft", "eagle3": "eagle"}


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
    problems = [*_wrong_demo("model.source", fleet.model.source, "target")]
    for name, model in drafts.items():
        speculation = fleet.pools[name].speculation
        at, wanted = f"pools.{name}.speculation.model", _DRAFTS.get(speculation.method)
        problems += _wrong_demo(at, model, wanted)
        if demo_name(model) == wanted and demo_name(fleet.model.source) != "target":
            text = f"`{model}` drafts for {PREFIX}target, not for {fleet.model.source}"
            problems.append(Problem(text, at, hint="name a draft of your target's"))
        if isinstance(speculation, DraftModel) and demo_name(model) == "draft":
            problems += _as_trained(f"pools.{name}.speculation", speculation)
    target = _read_config(fleet.model.source)
    if target is not None:
        read = {name: _read_config(model) for name, model in drafts.items()}
        found = {name: config for name, config in read.items() if config is not None}
        problems += check_model(fleet, target, found)
    if problems:
        raise ConfigError(source, problems)


def _wrong_demo(field: str, reference: str, wanted: str | None) -> Iterator[Problem]:
    name = demo_name(reference)
    if name is not None and name != wanted:
        hint = (
            f"use {PREFIX}{wanted}"
            if wanted
            else "name another model: the demo has none for this method"
        )
        yield Problem(f"`{reference}` is no model for this", field, hint=hint)


def _as_trained(field: str, draft: DraftModel) -> Iterator[Problem]:
    """Otherwise it loads, and is hardly ever right."""
    for flag in ("parallel_drafting", "use_heterogeneous_vocab"):
        if not getattr(draft, flag):
            text = f"must be true for `{PREFIX}draft`, which was trained so"
            yield Problem(text, f"{field}.{flag}")


def _read_config(reference: str) -> dict[str, Any] | None:
    name = demo_name(reference)
    folder = Path(reference) if name is None else model_path(name)
    file = folder / "config.json"
    return json.loads(file.read_text("utf-8")) if file.is_file() else None
