"""What people write for our names, who know other servers, releases or languages."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from orchestrator.config.base import suggest

_TOKENS = "vLLM calls it `num_speculative_tokens`"
_MAX = "vLLM calls it `prompt_lookup_max`"
_MIN = "vLLM calls it `prompt_lookup_min`"
_MODEL = "vLLM calls it `model`, with `method: draft_model` or `eagle3`"
_TP = "vLLM calls it `draft_tensor_parallel_size`"
_BATCH = "vLLM's schedule by batch size is `num_speculative_tokens_per_batch_size`"

#: Foreign name -> what to write in its place.
FOREIGN_FIELDS: dict[str, str] = {
    "num_draft_tokens": _TOKENS,
    "draft_tokens": _TOKENS,
    "num_lookahead_slots": _TOKENS,
    "num_lookahead_tokens": _TOKENS,
    "prompt_lookup_num_tokens": _TOKENS,
    "num_assistant_tokens": _TOKENS,
    "speculative_num_draft_tokens": _TOKENS,
    "speculative_num_steps": _TOKENS,
    "max_draft_len": _TOKENS,
    "max_draft_tokens": _TOKENS,
    "draft_len": _TOKENS,
    "draft_max": _TOKENS,
    "speculate": _TOKENS,
    "speculation_length": _TOKENS,
    "gamma": _TOKENS,
    "k": _TOKENS,
    "n_gram_max_length": _MAX,
    "ngram_max_length": _MAX,
    "n_gram_max": _MAX,
    "ngram_max": _MAX,
    "max_n": _MAX,
    "max_ngram_size": _MAX,
    "max_matching_ngram_size": _MAX,
    "n_gram_size": _MAX,
    "ngram_size": _MAX,
    "ngram_prompt_lookup_max": _MAX,
    "speculative_ngram_max_match_window_size": _MAX,
    "n_gram_min_length": _MIN,
    "ngram_min_length": _MIN,
    "n_gram_min": _MIN,
    "ngram_min": _MIN,
    "min_n": _MIN,
    "ngram_prompt_lookup_min": _MIN,
    "speculative_ngram_min_match_window_size": _MIN,
    "draft_model": _MODEL,
    "draft_model_path": _MODEL,
    "draft_model_name": _MODEL,
    "assistant_model": _MODEL,
    "speculator": _MODEL,
    "speculative_model": _MODEL,
    "speculative_model_dir": _MODEL,
    "speculative_draft_model_path": _MODEL,
    "model_draft": _MODEL,
    "tensor_parallel_size": _TP,
    "draft_tp": _TP,
    "draft_tp_size": _TP,
    "speculative_draft_tensor_parallel_size": _TP,
    "disable_by_batch_size": _BATCH,
    "speculative_disable_by_batch_size": _BATCH,
    "speculative_max_model_len": "vLLM calls it `max_model_len`",
    "draft_quantization": "vLLM calls it `quantization`",
    "max_tree_depth": "vLLM calls it `suffix_decoding_max_tree_depth`",
    "max_cached_requests": "vLLM calls it `suffix_decoding_max_cached_requests`",
    "max_spec_factor": "vLLM calls it `suffix_decoding_max_spec_factor`",
    "min_token_prob": "vLLM calls it `suffix_decoding_min_token_prob`",
}

#: Foreign names of the field `method`.
METHOD_FIELDS = frozenset(
    {
        "algorithm",
        "algo",
        "decoding_type",
        "kind",
        "mode",
        "name",
        "spec_method",
        "speculative_algorithm",
        "speculative_method",
        "speculative_mode",
        "strategy",
        "type",
    }
)

#: Foreign values of `method`, lower case with underscores.
_METHODS = {
    "nld": "ngram",
    "n_gram": "ngram",
    "[ngram]": "ngram",
    "prompt_lookup": "ngram",
    "prompt_lookup_decoding": "ngram",
    "pld": "ngram",
    "lookup": "ngram",
    "lookahead": "ngram",
    "ngram_cpu": "ngram",
    "draft": "draft_model",
    "draft_target": "draft_model",
    "draft_target_model": "draft_model",
    "draft_tokens_external": "draft_model",
    "standalone": "draft_model",
    "assisted": "draft_model",
    "speculative_sampling": "draft_model",
    "eagle_3": "eagle3",
    "eagle2": "eagle",
    "eagle1": "eagle",
    "eagle_1": "eagle",
    "eagle_2": "eagle",
    "suffix_decoding": "suffix",
    "arctic": "suffix",
    "nextn": "mtp",
    "deepseek_mtp": "mtp",
    "off": "none",
    "false": "none",
    "disabled": "none",
    "null": "none",
    "plain": "none",
}
#: Methods of vLLM that no pool here can have.
_UNSUPPORTED = frozenset(
    ("medusa", "mlp_speculator", "dflash", "dspark", "custom_class")
)

#: What people write for a comparison of the policy language -> ours.
FOREIGN_COMPARISONS = {
    "==": "eq",
    "=": "eq",
    "equals": "eq",
    "is": "eq",
    "one_of": "in",
    "any_of": "in",
    "<": "lt",
    "<=": "lte",
    "le": "lte",
    "max": "lte",
    "at_most": "lte",
    ">": "gt",
    ">=": "gte",
    "ge": "gte",
    "min": "gte",
    "at_least": "gte",
    "range": "between",
    "regex": "matches",
    "match": "matches",
    "pattern": "matches",
    "contains": "matches",
    "exists": "present",
}


def foreign_method(value: Any, methods: Collection[str]) -> str | None:
    """Which of `methods` a foreign name (or other case) means, None where unknown."""
    name = str(value).lower().replace("-", "_").replace(" ", "_")
    return name if name in methods else _METHODS.get(name)


def unknown_method(field: str, value: Any, methods: Collection[str]) -> str:
    """What to write for `field: value`, where field or value are not vLLM's."""
    known = foreign_method(value, methods)
    if known is not None:
        if field == "method":
            return f"vLLM calls it `{known}`"
        return f"in vLLM `{field}: {value}` is `method: {known}`"
    if str(value).lower() in _UNSUPPORTED:
        return f"vLLM has it, this version does not; allowed: {', '.join(methods)}"
    hint = suggest(str(value), methods)
    return hint if field == "method" else f"vLLM calls it `method`; {hint}"
