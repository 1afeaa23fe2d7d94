"""The fleet: one target model, and pools of engines in different speculative modes.

It stands in a Ray Serve config file as the application's `args.fleet`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, StringConstraints, field_validator, model_validator

from orchestrator.config.accelerators import ACCELERATORS
from orchestrator.config.base import (
    Count,
    Mistake,
    Mistakes,
    Positive,
    StrictModel,
    Text,
    Whole,
    suggest,
)
from orchestrator.config.engine import EngineArgs
from orchestrator.config.scale import Scaled
from orchestrator.config.speculation import Speculation
from orchestrator.config.yaml import Path
from orchestrator.records import PoolTraits

#: Name of the ingress deployment, whose `user_config` holds the policy.
ROUTER_DEPLOYMENT = "router"
#: Serve's name for an application that the file gives none.
DEFAULT_APPLICATION = "default"

#: Seen with vLLM 0.29; docs/compatibility.md has the details.
_CHUNKS_KILL = (
    "vLLM's CPU engine dies when a request with `seed` is prefilled in chunks"
)

PoolName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]


class Model(StrictModel):
    """The target model, the same in every pool."""

    #: The public name, as clients write it in a request's `model`.
    id: Text
    #: A folder, a hub id, or `demo:target`.
    source: Text
    #: A folder or hub id, where it is not the model's own.
    tokenizer: Text | None = None


class CpuShare(StrictModel):
    """What one replica takes of a machine without GPU."""

    #: Cores that the replica reserves with Ray, all its ranks together. Ray only
    #: counts them; pools may share a core with 0.5 each.
    cores: Positive = 1
    #: GiB of memory for the KV cache, for each rank.
    kv_cache_gib: Count = 1
    #: vLLM's `VLLM_CPU_OMP_THREADS_BIND`: the cores of each rank, ranks split by `|`.
    threads_bind: Text | None = None


class RouterDeployment(Scaled):
    """The ingress: it takes all requests, so it allows many at a time."""

    max_ongoing_requests: Count = 1000
    #: MiB; larger request bodies are refused with 413. Images may need more.
    max_body_mib: Count = 4


class Pool(Scaled):
    """Engines of one speculative mode."""

    speculation: Speculation
    #: Requests that wait for a replica beyond max_ongoing_requests; the router tries
    #: the next pool for more. Serve counts them per caller: with three router replicas
    #: up to three times as many wait. -1 is without limit.
    max_queued_requests: Annotated[Whole, Field(ge=-1)] = 64
    #: Engine settings that differ from the fleet's.
    engine: EngineArgs = Field(default_factory=dict)
    #: Settings that differ from the fleet's `cpu`.
    cpu: CpuShare | None = None

    def serve_options(self) -> dict[str, Any]:
        """The deployment's options in Ray Serve's names."""
        return {
            **super().serve_options(),
            "max_queued_requests": self.max_queued_requests,
        }


class Fleet(StrictModel):
    """Everything that the engines need; a change restarts them."""

    model: Model
    #: `cpu`, `gpu` (any), or one of Ray's accelerator types.
    accelerator: str
    tensor_parallel_size: Count = 1
    #: vLLM's engine arguments for all pools.
    engine: EngineArgs = Field(default_factory=dict)
    #: Environment variables of the engines.
    env: dict[str, str] = Field(default_factory=dict)
    cpu: CpuShare = CpuShare()
    router: RouterDeployment = RouterDeployment()
    pools: Annotated[dict[PoolName, Pool], Field(min_length=1)]

    @field_validator("accelerator")
    @classmethod
    def _known_accelerator(cls, name: str) -> str:
        if name not in ACCELERATORS:
            text = f"unknown accelerator `{name}`"
            raise Mistakes(Mistake(text, hint=suggest(name, ACCELERATORS)))
        return name

    @model_validator(mode="after")
    def _consistent(self) -> Fleet:
        mistakes = [*self._pool_mistakes(), *self._cpu_mistakes()]
        if mistakes:
            raise Mistakes(*mistakes)
        return self

    def _pool_mistakes(self) -> Iterator[Mistake]:
        if all(pool.speculation.method != "none" for pool in self.pools.values()):
            yield Mistake(
                "a pool without speculation is needed: vLLM takes requests with min_p"
                " or logit_bias on no other",
                ("pools",),
                "add `plain: {speculation: {method: none}}`",
            )
        for name, pool in self.pools.items():
            draft = getattr(pool.speculation, "draft_tensor_parallel_size", None)
            allowed = {self.tensor_parallel_size}
            if pool.speculation.method != "draft_model":
                allowed.add(1)
            if draft is not None and draft not in allowed:
                yield Mistake(
                    f"must be the target's tensor_parallel_size"
                    f" ({self.tensor_parallel_size}), not {draft}",
                    ("pools", name, "speculation", "draft_tensor_parallel_size"),
                    "left out it is",
                )

    def _cpu_mistakes(self) -> Iterator[Mistake]:
        set_at: list[tuple[str, ...]] = [
            ("pools", name, "cpu")
            for name, p in self.pools.items()
            if p.cpu is not None
        ]
        if "cpu" in self.model_fields_set:
            set_at.insert(0, ("cpu",))
        if self.accelerator != "cpu":
            for at in set_at:
                text = f"only for `accelerator: cpu`, not for {self.accelerator}"
                yield Mistake(text, at, "remove it", name=True)
            return
        for at in set_at:
            share = self.cpu if at == ("cpu",) else self.cpu_share(at[1])
            bind = share.threads_bind
            if bind is not None and len(bind.split("|")) != self.tensor_parallel_size:
                text = (
                    f"must name the cores of {self.tensor_parallel_size} rank(s),"
                    f" split by `|`, not of {len(bind.split('|'))}"
                )
                yield Mistake(text, (*at, "threads_bind"))
        for name, pool in self.pools.items():
            if pool.speculation.method == "ngram_gpu":
                at = ("pools", name, "speculation", "method")
                yield Mistake("`ngram_gpu` needs a GPU", at, "use `ngram`")
        # What stands in the fleet's `engine` is wrong once, not once for each pool.
        yield from dict.fromkeys(
            mistake for name in self.pools for mistake in self._chunk_mistakes(name)
        )

    def _chunk_mistakes(self, pool: str) -> Iterator[Mistake]:
        """What would let a pool's CPU engine prefill a prompt in chunks, or never."""
        engine = self.engine_args(pool)
        own = self.pools[pool].engine

        def at(key: str) -> Path:
            return ("pools", pool, "engine", key) if key in own else ("engine", key)

        # vLLM's own default, and what it makes of `null`, is true.
        if engine.get("enable_chunked_prefill", False) is not False:
            text = f"must be false for `accelerator: cpu`: {_CHUNKS_KILL}"
            yield Mistake(text, at("enable_chunked_prefill"), "left out it is")
        # It splits longer prompts even where chunked prefill is off.
        if engine.get("long_prefill_token_threshold"):
            text = f"not for `accelerator: cpu`: {_CHUNKS_KILL}"
            where = at("long_prefill_token_threshold")
            yield Mistake(text, where, "remove it", name=True)
        longest = engine.get("max_model_len")
        if not isinstance(longest, int):
            return
        for key in ("max_num_batched_tokens", "max_num_scheduled_tokens"):
            tokens = engine.get(key)
            if isinstance(tokens, int) and tokens < longest:
                text = (
                    f"must be at least max_model_len ({longest}), not {tokens}: a CPU"
                    " engine here takes each prompt in one step"
                )
                yield Mistake(text, at(key), "left out it is")
        # vLLM's own default leaves no room either where it is max_model_len.
        tokens = engine.get("max_num_batched_tokens")
        room = longest + self.pools[pool].speculation.draft_slots
        short = isinstance(tokens, int) and longest <= tokens < room
        if room > longest and (tokens is None or short):
            now = "and is not set" if tokens is None else f"not {tokens}"
            text = (
                f"must be at least {room} for pool `{pool}`, {now}: a step takes a"
                f" whole prompt (max_model_len is {longest}) and the draft's tokens"
            )
            yield Mistake(text, at("max_num_batched_tokens"))

    def engine_args(self, pool: str) -> dict[str, Any]:
        """vLLM's engine arguments of a pool, as the file sets them."""
        return {**self.engine, **self.pools[pool].engine}

    def cpu_share(self, pool: str) -> CpuShare:
        """What one replica of a pool takes of the machine."""
        own = self.pools[pool].cpu
        if own is None:
            return self.cpu
        return self.cpu.model_copy(update=own.model_dump(exclude_unset=True))

    def speculative_config(self, pool: str) -> dict[str, Any] | None:
        """The engine's `speculative_config`; None for a pool without speculation."""
        config = self.pools[pool].speculation.to_vllm()
        if config is not None and config["method"] == "draft_model":
            config.setdefault("draft_tensor_parallel_size", self.tensor_parallel_size)
        return config

    def traits(self, *, cpu_sampling_mended: bool = True) -> dict[str, PoolTraits]:
        """What the router needs to know of the pools, in the file's order.

        `cpu_sampling_mended`: whether the worker extension that mends sampling with
        speculation on CPU is in place.
        """
        broken = self.accelerator == "cpu" and not cpu_sampling_mended
        return {
            name: PoolTraits(
                name=name,
                method=pool.speculation.method,
                sampling=pool.speculation.method == "none" or not broken,
            )
            for name, pool in self.pools.items()
        }
