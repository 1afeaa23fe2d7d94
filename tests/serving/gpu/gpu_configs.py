"""Build pools' configurations as Ray Serve LLM does on a GPU node, and tell of them.

    python gpu_configs.py JOBS.json RESULTS.json

A program of its own, since vLLM asks for its platform once in a process. Needs
`gpu_platform` as vLLM's platform plugin. `JOBS` is `{name: job}`, a job has

    args                a cluster file's `args`
    pool                the pool's name
    speculative_config  put in the place of the pool's own; optional
    env                 environment variables; optional
    kv_bytes            memory of each GPU for the KV cache; optional

and `RESULTS` has for each what `facts` gives, or `{"error": text}`.
"""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import ray
import vllm.config.speculative
import vllm.config.vllm
from gpu_platform import DEVICES, AbsentGpu
from ray.llm._internal.serve.engines.vllm.vllm_engine import _get_vllm_engine_config
from ray.serve.llm import LLMConfig
from ray.serve.llm.deployment import LLMServer
from vllm.config import ModelConfig, ParallelConfig, VllmConfig
from vllm.tool_parsers import ToolParserManager
from vllm.v1.attention.backends.utils import resolve_kv_cache_layout
from vllm.v1.core.kv_cache_utils import get_kv_cache_configs
from vllm.v1.executor import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheLayout

from orchestrator.config.servefile import parse_args
from orchestrator.serving.pools import llm_config

#: Tokens of one block of the cache: vLLM's default on CUDA.
BLOCK = 16

# True on a GPU node; vLLM says False here, as Triton finds no driver.
vllm.config.vllm.HAS_TRITON = True
# As if `arctic-inference` were installed, which suffix decoding wants.
vllm.config.speculative.has_arctic_inference = lambda: True
# vLLM looks at a model's class in a process of its own, which imports kernels: leave
# that to the build that is here. What it looks for is the same on every platform.
os.environ["VLLM_PLUGINS"] = ""


def build(job: dict[str, Any]) -> dict[str, Any]:
    """Configure one pool as a replica would; raises what vLLM raises."""
    fleet = parse_args(job["args"]).fleet
    AbsentGpu.device = DEVICES[fleet.accelerator]
    config = llm_config(fleet, job["pool"], fleet.model.source)
    if "speculative_config" in job:
        config.engine_kwargs["speculative_config"] = job["speculative_config"]
    with mock.patch.dict(os.environ, job.get("env", {})):
        _, engine = _get_vllm_engine_config(config)
        return facts(config, engine, job.get("kv_bytes"))


def facts(config: LLMConfig, engine: VllmConfig, kv: int | None) -> dict[str, Any]:
    """What the tests look at."""
    # The only thing for which the options would look at a Ray cluster.
    context = SimpleNamespace(runtime_env={})
    with mock.patch.object(ray, "get_runtime_context", return_value=context):
        options = LLMServer.get_deployment_options(config)
    frontend = config.get_engine_config().frontend_kwargs
    scheduler = engine.scheduler_config
    speculation = engine.speculative_config
    return {
        "bundles": options["placement_group_bundles"],
        "strategy": options["placement_group_strategy"],
        "max_ongoing_requests": options["max_ongoing_requests"],
        "worker": engine.parallel_config.worker_cls,
        "executor": Executor.get_class(engine).__name__,
        "runner": 2 if engine.use_v2_model_runner else 1,
        "async": scheduler.async_scheduling,
        "chunked": scheduler.enable_chunked_prefill,
        "batched_tokens": scheduler.max_num_batched_tokens,
        "seqs": scheduler.max_num_seqs,
        "length": engine.model_config.max_model_len,
        "dtype": str(engine.model_config.dtype),
        "ranks": engine.parallel_config.tensor_parallel_size,
        "tool_parser": "tool_call_parser" in frontend
        and ToolParserManager.get_tool_parser(frontend["tool_call_parser"]).__name__,
        "speculation": speculation
        and {
            "method": speculation.method,
            "tokens": speculation.num_speculative_tokens,
            "ranks": speculation.draft_parallel_config
            and speculation.draft_parallel_config.tensor_parallel_size,
            "length": speculation.draft_model_config
            and speculation.draft_model_config.max_model_len,
        },
        "kv_tokens": kv and kv_tokens(engine, kv),
    }


def kv_tokens(engine: VllmConfig, memory: int) -> int:
    """How many tokens vLLM's own layout puts into `memory` bytes of each GPU."""
    parallel = engine.parallel_config
    layers = _layers("target", engine.model_config, parallel)
    speculation = engine.speculative_config
    if speculation is not None and speculation.method == "draft_model":
        draft = speculation.draft_model_config
        layers |= _layers("draft", draft, speculation.draft_parallel_config)
    ranks = parallel.tensor_parallel_size
    # CUDA's attention backends take every layout; the draft's layers narrow them.
    any_layout = [layout.name for layout in KVCacheLayout]
    resolve_kv_cache_layout(engine, [any_layout] * ranks, layers.values())
    cache = get_kv_cache_configs(engine, [layers] * ranks, [memory] * ranks)[0]
    return int(cache.num_blocks) * BLOCK


def _layers(
    name: str, model: ModelConfig, parallel: ParallelConfig
) -> dict[str, FullAttentionSpec]:
    layer = FullAttentionSpec(
        block_size=BLOCK,
        num_kv_heads=model.get_num_kv_heads(parallel),
        head_size=model.get_head_size(),
        dtype=model.dtype,
    )
    return {f"{name}.{i}": layer for i in range(model.get_num_layers(parallel))}


def main(jobs: str, results: str) -> None:
    """Do all jobs; one that fails does not keep the others from it."""
    told = {}
    for name, job in json.loads(Path(jobs).read_text()).items():
        try:
            told[name] = build(job)
        except Exception as error:
            told[name] = {"error": f"{type(error).__name__}: {error}"}
    Path(results).write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
