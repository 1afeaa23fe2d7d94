"""Engine settings: vLLM's keyword arguments, less those that the orchestrator sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator

from orchestrator.config.base import Mistake, Mistakes

#: Above this vLLM has no room for loading and for temporary buffers.
MAX_GPU_MEMORY = 0.95

_OWNED = {
    "model": "stands in the fleet's `model.source`",
    "tokenizer": "stands in the fleet's `model.tokenizer`",
    "served_model_name": "is the fleet's `model.id`",
    "tensor_parallel_size": "stands beside `engine`, as the fleet's own field",
    "speculative_config": "comes from the pool's `speculation`",
    "per_request_spec_decode_metrics": "is set wherever a pool speculates",
    "worker_extension_cls": "is set where an engine needs mending",
    "distributed_executor_backend": "follows from `accelerator`",
}
_LORA = frozenset(
    {
        "enable_lora",
        "lora_modules",
        "lora_config",
        "lora_dtype",
        "lora_extra_vocab_size",
        "lora_target_modules",
        "max_loras",
        "max_lora_rank",
        "max_cpu_loras",
        "fully_sharded_loras",
        "default_mm_loras",
        "enable_tower_connector_lora",
        "specialize_active_lora",
        "enable_mixed_moe_lora_format",
        "enable_moe_shared_loras",
    }
)


def _mistakes(engine: dict[str, Any]) -> Iterator[Mistake]:
    for key, value in engine.items():
        plain = key.replace("-", "_")
        if plain in _OWNED:
            yield Mistake(f"`{key}` {_OWNED[plain]}", (key,), name=True)
        elif plain in _LORA:
            text = (
                "LoRA is refused for now: every pool must serve the same model, and"
                " drafts are not trained for an adapter's text"
            )
            yield Mistake(text, (key,), "remove it", name=True)
        elif plain.startswith(("speculative_", "ngram_prompt_", "spec_")):
            text = f"`{key}` belongs in the pool's `speculation`"
            yield Mistake(text, (key,), name=True)
        elif plain != key:
            text = f"`{key}` is no argument of an engine"
            yield Mistake(text, (key,), f"write `{plain}`", name=True)
        elif key == "gpu_memory_utilization":
            yield from _memory(key, value)


def _memory(key: str, value: Any) -> Iterator[Mistake]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield Mistake("must be a number in (0, 0.95]", (key,))
    elif not 0 < value <= MAX_GPU_MEMORY:
        text = (
            f"must be more than 0 and at most {MAX_GPU_MEMORY}, not {value:g}: loading"
            " and temporary buffers need the rest, and the engine runs out of memory"
            " only under load"
        )
        yield Mistake(text, (key,), "0.9 is vLLM's usual value")


def _checked(engine: dict[str, Any]) -> dict[str, Any]:
    mistakes = list(_mistakes(engine))
    if mistakes:
        raise Mistakes(*mistakes)
    return engine


EngineArgs = Annotated[dict[str, Any], AfterValidator(_checked)]
