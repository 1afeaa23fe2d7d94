"""Pools: each is a Ray Serve LLM deployment of the same model in its own mode."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from pathlib import Path
from typing import Any

import psutil
from ray.serve.deployment import Application
from ray.serve.llm import LLMConfig, build_llm_deployment
from ray.serve.llm.deployment import LLMServer

from orchestrator.config.fleet import Fleet
from orchestrator.serving.cpu import prepare_environment
from orchestrator.serving.cpu_sampling import EXTENSION, METHOD
from orchestrator.serving.hooks import NoDownload, join_tokenization
from orchestrator.serving.model import model_source

logger = logging.getLogger("ray.serve")

#: Seconds between two looks at the engine, and those left for the answers in flight to
#: tell of its death; together they are well below a second.
ENGINE_CHECK_S = 0.25
FAREWELL_S = 0.25


class PoolServer(LLMServer):
    """One replica of a pool: Ray's LLM server, with what vLLM's CPU engine needs."""

    async def start(self) -> None:
        """Start the engine; on a CPU, mend its sampling before the pool is ready."""
        self._mended = False
        arguments = self._llm_config.engine_kwargs
        on_cpu = self._llm_config.accelerator_config.kind == "cpu"
        if on_cpu:
            prepare_environment(arguments["tensor_parallel_size"])
        await super().start()
        join_tokenization(self.engine)
        if on_cpu and arguments.get("worker_extension_cls") == EXTENSION:
            try:
                await self.collective_rpc(METHOD)
                self._mended = True
            except Exception:
                # The pool serves greedy requests all the same; the router is told.
                logger.exception("Sampling with speculation could not be mended")

        self._guard = asyncio.create_task(self._end_with_engine())

    async def _end_with_engine(self) -> None:
        """End this process once its engine is dead.

        Serve's own check finds a dead engine after tens of seconds, and until then a
        replica that fails at once looks idle and gets most requests. A dead process
        gets none: whoever tries to reach it hears so.
        """
        while True:
            await asyncio.sleep(ENGINE_CHECK_S)
            try:
                await self.engine.check_health()
            except Exception:
                logger.exception("The engine is dead; its replica ends")
                break
        await asyncio.sleep(FAREWELL_S)
        try:
            for child in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):  # it may be ending by itself
                    child.kill()
        finally:
            os._exit(1)

    async def sampling_mended(self) -> bool:
        """Whether requests with temperature > 0 get right text from a CPU engine."""
        return self._mended


def llm_config(fleet: Fleet, pool: str, source: str) -> LLMConfig:
    """Ray's configuration of a pool's engine; `source` is where the weights lie."""
    arguments: dict[str, Any] = {
        **fleet.engine_args(pool),
        "tensor_parallel_size": fleet.tensor_parallel_size,
    }
    if fleet.model.tokenizer is not None:
        arguments["tokenizer"] = fleet.model.tokenizer
    speculation = fleet.speculative_config(pool)
    if speculation is not None:
        if (draft := speculation.get("model")) is not None:
            speculation["model"] = model_source(draft)
        arguments["speculative_config"] = speculation
        # Each response then says how many drafts it had and how many were accepted.
        arguments["per_request_spec_decode_metrics"] = "detailed"
    environment = dict(fleet.env)
    where: dict[str, Any] = {}
    if fleet.accelerator == "cpu":
        share = fleet.cpu_share(pool)
        ranks = fleet.tensor_parallel_size
        where["placement_group_config"] = {
            "bundles": [{"CPU": share.cores / ranks} for _ in range(ranks)]
        }
        environment["VLLM_CPU_KVCACHE_SPACE"] = str(share.kv_cache_gib)
        if share.threads_bind is not None:
            environment["VLLM_CPU_OMP_THREADS_BIND"] = share.threads_bind
        # vLLM's default is true, with which its CPU engine can die; see
        # docs/compatibility.md. config.fleet refuses a file that turns it on.
        arguments["enable_chunked_prefill"] = False
        if speculation is not None:
            arguments["worker_extension_cls"] = EXTENSION
    elif fleet.accelerator != "gpu":
        where["accelerator_type"] = fleet.accelerator
    if Path(source).is_dir():
        environment.setdefault("HF_HUB_OFFLINE", "1")
        where["callback_config"] = {"callback_class": NoDownload}
    return LLMConfig(
        model_loading_config={"model_id": fleet.model.id, "model_source": source},
        engine_kwargs=arguments,
        # Ray holds chunks back for 50 ms by default, the first one too.
        experimental_configs={"stream_batching_interval_ms": 0},
        runtime_env={"env_vars": environment},
        deployment_config={
            **fleet.pools[pool].serve_options(),
            # Serve's default is 10: a replica that has ended is replaced sooner.
            "health_check_period_s": 2,
            # The bundles hold the cores; the replica's own process needs none.
            "ray_actor_options": {"num_cpus": 0},
        },
        **where,
    )


def build_pool(fleet: Fleet, pool: str, source: str) -> tuple[LLMConfig, Application]:
    """The deployment of one pool, with its own name prefix: `POOL:MODEL`."""
    config = llm_config(fleet, pool, source)
    return config, build_llm_deployment(
        config, name_prefix=f"{pool}:", deployment_cls=PoolServer
    )
