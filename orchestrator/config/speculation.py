"""The speculative mode of a pool: a union on `method`, each with vLLM's own fields.

Names and rules are those of `SpeculativeConfig` in vLLM 0.29. A field that is left out
is left to vLLM's default.
"""

from __future__ import annotations

import itertools
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from orchestrator.config.base import (
    Count,
    Flag,
    Mistake,
    Mistakes,
    Number,
    StrictModel,
    Text,
    Whole,
    suggest,
)
from orchestrator.config.foreign import (
    FOREIGN_FIELDS,
    METHOD_FIELDS,
    foreign_method,
    unknown_method,
)

#: (first batch size, last batch size, draft tokens); both ends count.
BatchRange = tuple[Whole, Whole, Whole]


class NoSpeculation(StrictModel):
    """The engine decodes plainly."""

    method: Literal["none"]
    draft_slots: ClassVar[int] = 0

    @classmethod
    def unknown_field(cls, name: str) -> tuple[str, str]:
        """Say to which method the field belongs."""
        return _unknown(cls, name)

    def to_vllm(self) -> dict[str, Any] | None:
        """No `speculative_config` at all."""
        return None


class _Speculative(StrictModel):
    """What every speculative method takes."""

    method: str
    #: vLLM's schedule by batch size; see BatchRange. Sizes in no range take the
    #: number of the range before them.
    num_speculative_tokens_per_batch_size: tuple[BatchRange, ...] | None = None

    @classmethod
    def unknown_field(cls, name: str) -> tuple[str, str]:
        """Say what vLLM calls the field, or to which method it belongs."""
        return _unknown(cls, name)

    @field_validator("num_speculative_tokens_per_batch_size")
    @classmethod
    def _schedule(
        cls, ranges: tuple[BatchRange, ...] | None
    ) -> tuple[BatchRange, ...] | None:
        if ranges is not None:
            mistakes = list(_schedule_mistakes(ranges))
            if mistakes:
                raise Mistakes(*mistakes)
        return ranges

    @property
    def draft_slots(self) -> int:
        """Tokens of a step's budget that each request takes beside its own.

        As in vLLM's `SpeculativeConfig.max_num_new_slots_for_drafting`.
        """
        return 0

    def to_vllm(self) -> dict[str, Any] | None:
        """The engine's `speculative_config`: only what the file sets."""
        return self.model_dump(mode="json", exclude_none=True)


class _Counted(_Speculative):
    """A method that must be told how many tokens to draft per step."""

    num_speculative_tokens: Count


class _Lookup(_Counted):
    """N-gram lookup in the request's own text; no second model."""

    #: Size of the matched window in tokens. One alone stands for both; vLLM takes 5
    #: for both where neither is given.
    prompt_lookup_min: Count | None = None
    prompt_lookup_max: Count | None = None

    @model_validator(mode="after")
    def _window(self) -> _Lookup:
        low, high = self.prompt_lookup_min, self.prompt_lookup_max
        if low is not None and high is not None and low > high:
            raise Mistakes(
                Mistake(
                    f"must be at most prompt_lookup_max ({high}), not {low}",
                    ("prompt_lookup_min",),
                )
            )
        return self


class Ngram(_Lookup):
    """N-gram lookup on the CPU side of the engine."""

    method: Literal["ngram"]


class NgramGpu(_Lookup):
    """N-gram lookup on the GPU."""

    method: Literal["ngram_gpu"]


class Suffix(_Speculative):
    """Suffix decoding; the engine's environment needs `arctic-inference`."""

    method: Literal["suffix"]
    #: The most to draft; the tree's depth by default.
    num_speculative_tokens: Count | None = None
    suffix_decoding_max_tree_depth: Count | None = None
    #: 0 turns the tree over past responses off.
    suffix_decoding_max_cached_requests: Annotated[Whole, Field(ge=0)] | None = None
    suffix_decoding_max_spec_factor: Annotated[Number, Field(ge=0)] | None = None
    suffix_decoding_min_token_prob: Annotated[Number, Field(ge=0, le=1)] | None = None


class _Drafter(_Counted):
    """A method with weights of its own for drafting."""

    #: 1 or the target's; the target's by default. Checked by the fleet.
    draft_tensor_parallel_size: Count | None = None
    quantization: Text | None = None
    max_model_len: Count | None = None
    revision: Text | None = None
    code_revision: Text | None = None
    attention_backend: Text | None = None
    kv_cache_dtype: Text | None = None
    moe_backend: Text | None = None
    draft_sample_method: Literal["greedy", "probabilistic"] | None = None


class DraftModel(_Drafter):
    """A smaller model drafts."""

    method: Literal["draft_model"]
    model: Text
    enforce_eager: Flag | None = None
    parallel_drafting: Flag | None = None
    use_heterogeneous_vocab: Flag | None = None

    @property
    def draft_slots(self) -> int:
        """One token is the model's own input; in parallel all are."""
        return self.num_speculative_tokens if self.parallel_drafting else 1

    @model_validator(mode="after")
    def _greedy_across_vocabularies(self) -> DraftModel:
        if self.use_heterogeneous_vocab and self.draft_sample_method == "probabilistic":
            raise Mistakes(
                Mistake(
                    "must be greedy where use_heterogeneous_vocab is set",
                    ("draft_sample_method",),
                )
            )
        return self


class _Head(_Drafter):
    """A head on the target's hidden states drafts."""

    disable_padded_drafter_batch: Flag | None = None
    use_local_argmax_reduction: Flag | None = None


class _Eagle(_Head):
    """What both kinds of EAGLE take."""

    model: Text
    parallel_drafting: Flag | None = None

    @property
    def draft_slots(self) -> int:
        """In parallel, all but the first."""
        return self.num_speculative_tokens - 1 if self.parallel_drafting else 0


class Eagle(_Eagle):
    """An EAGLE head."""

    method: Literal["eagle"]


class Eagle3(_Eagle):
    """An EAGLE-3 head."""

    method: Literal["eagle3"]


class Mtp(_Head):
    """Multi-token prediction by layers that the target itself ships."""

    method: Literal["mtp"]
    #: Where the layers are not in the target's own checkpoint.
    model: Text | None = None
    index_share_for_mtp_iteration: Flag | None = None


Method = NoSpeculation | Ngram | NgramGpu | Suffix | DraftModel | Eagle | Eagle3 | Mtp
METHODS: dict[str, type[StrictModel]] = {
    "none": NoSpeculation,
    "ngram": Ngram,
    "ngram_gpu": NgramGpu,
    "suffix": Suffix,
    "draft_model": DraftModel,
    "eagle": Eagle,
    "eagle3": Eagle3,
    "mtp": Mtp,
}


def _unknown(cls: type[StrictModel], name: str) -> tuple[str, str]:
    message = f"unknown field `{name}`"
    if name in FOREIGN_FIELDS:
        return message, FOREIGN_FIELDS[name]
    if name in METHOD_FIELDS:
        return message, "the method stands in `method`"
    owners = [m for m, model in METHODS.items() if name in model.model_fields]
    if owners:
        return message, f"vLLM has it for method {', '.join(owners)}"
    return message, suggest(name, cls.field_names())


def _schedule_mistakes(ranges: tuple[BatchRange, ...]) -> list[Mistake]:
    if not ranges:
        return [Mistake("must not be empty")]
    mistakes = []
    for i, (first, last, tokens) in enumerate(ranges):
        if not 1 <= first <= last:
            text = f"the batch sizes {first} to {last} are no range: 1 <= first <= last"
            mistakes.append(Mistake(text, (i,)))
        if tokens < 0:
            text = f"must be at least 0 draft tokens, not {tokens}"
            mistakes.append(Mistake(text, (i, 2)))
    ordered = sorted(range(len(ranges)), key=lambda i: ranges[i][0])
    if ranges[ordered[0]][0] != 1:
        mistakes.append(
            Mistake("the first range must start at batch size 1", (ordered[0],))
        )
    for before, after in itertools.pairwise(ordered):
        if ranges[after][0] <= ranges[before][1]:
            text = f"overlaps the range {list(ranges[before])}"
            mistakes.append(Mistake(text, (after,)))
    return mistakes


def _method_is_ours(value: Any) -> Any:
    """Tell of every foreign name at once where `method` is missing or foreign.

    Pydantic would stop at the method, and say nothing of the other fields.
    """
    if isinstance(value, str):
        hint = f"write {{method: {foreign_method(value, METHODS) or value}, ...}}"
        raise Mistakes(Mistake("must be a mapping with `method`", hint=hint))
    if not isinstance(value, dict):
        return value
    method = value.get("method")
    if isinstance(method, str) and method in METHODS:
        return value
    mistakes = []
    said = method
    if method is None:
        named = [key for key in value if key in METHOD_FIELDS]
        said = value[named[0]] if named else None
        if not named:
            hint = f"one of {', '.join(METHODS)}"
            mistakes.append(Mistake("is required", ("method",), hint))
    guess = foreign_method(said, METHODS)
    for key in value:
        if key in METHOD_FIELDS and method is None:
            text, hint = f"unknown field `{key}`", unknown_method(key, said, METHODS)
            mistakes.append(Mistake(text, (key,), hint, name=True))
        elif key == "method":
            text = f"unknown value `{method}`"
            hint = unknown_method(key, method, METHODS)
            mistakes.append(Mistake(text, (key,), hint))
        elif guess is None and key not in FOREIGN_FIELDS:
            continue  # without the method nobody can say whether the field is right
        elif guess is None or key not in METHODS[guess].model_fields:
            text, hint = _unknown(METHODS[guess or "none"], key)
            mistakes.append(Mistake(text, (key,), hint, name=True))
    raise Mistakes(*mistakes)


Speculation = Annotated[
    Annotated[Method, Field(discriminator="method")], BeforeValidator(_method_is_ours)
]
