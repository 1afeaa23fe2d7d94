"""Does the fleet fit the model's `config.json`? Pure: the caller reads the files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.config.fleet import Fleet
from orchestrator.errors import Problem


def check_model(
    fleet: Fleet,
    model: Mapping[str, Any],
    drafts: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Problem]:
    """What an engine would refuse at start-up, told before one starts.

    `model` is the target's `config.json`; `drafts` those of the pools' draft models,
    by pool. A key that a config lacks is not checked.
    """
    text = _text_config(model)
    problems = list(_heads(text, fleet.tensor_parallel_size, "tensor_parallel_size"))
    for pool, config in (drafts or {}).items():
        field = f"pools.{pool}.speculation.model"
        draft = _text_config(config)
        problems += _heads(draft, fleet.tensor_parallel_size, field)
        problems += _vocabulary(fleet, pool, text, draft, field)
    return problems


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """A multimodal model keeps its language model's numbers one level down."""
    inner = config.get("text_config")
    return inner if isinstance(inner, Mapping) else config


def _heads(config: Mapping[str, Any], ranks: int, field: str) -> Iterator[Problem]:
    heads = config.get("num_attention_heads")
    if isinstance(heads, int) and heads % ranks:
        possible = [str(n) for n in range(1, min(heads, 64) + 1) if heads % n == 0]
        yield Problem(
            f"{ranks} ranks can't share the model's {heads} attention heads evenly",
            field,
            hint=f"tensor_parallel_size may be {', '.join(possible)}",
        )
    groups = config.get("num_key_value_heads")
    if isinstance(groups, int) and groups and groups % ranks and ranks % groups:
        yield Problem(
            f"{ranks} ranks can neither share nor repeat the model's {groups} key-value"
            " heads evenly",
            field,
        )


def _vocabulary(
    fleet: Fleet,
    pool: str,
    model: Mapping[str, Any],
    draft: Mapping[str, Any],
    field: str,
) -> Iterator[Problem]:
    speculation = fleet.pools[pool].speculation
    if speculation.method != "draft_model" or speculation.use_heterogeneous_vocab:
        return
    ours, theirs = model.get("vocab_size"), draft.get("vocab_size")
    if ours is not None and theirs is not None and ours != theirs:
        yield Problem(
            f"the draft's vocabulary has {theirs} tokens, the target's {ours}",
            field,
            hint="a draft of the same family, or use_heterogeneous_vocab: true",
        )
