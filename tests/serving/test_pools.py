"""What a pool's engine is told beyond its part of the cluster file."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from orchestrator.config.fleet import Fleet
from orchestrator.serving.pools import llm_config


def fleet(accelerator: str, **changes: Any) -> Fleet:
    return Fleet.model_validate(
        {
            "model": {"id": "m", "source": "org/model"},
            "accelerator": accelerator,
            "pools": {"plain": {"speculation": {"method": "none"}}},
            **changes,
        }
    )


def test_a_cpu_engine_does_not_prefill_in_chunks() -> None:
    cpu = llm_config(fleet("cpu"), "plain", "org/model").engine_kwargs
    assert cpu["enable_chunked_prefill"] is False
    gpu = llm_config(fleet("gpu"), "plain", "org/model").engine_kwargs
    assert "enable_chunked_prefill" not in gpu


def test_each_rank_of_a_cpu_replica_gets_a_bundle_and_its_cores() -> None:
    cpu = {"cores": 1.5, "kv_cache_gib": 2, "threads_bind": "0|1|0"}
    split = fleet("cpu", tensor_parallel_size=3, cpu=cpu)
    config = llm_config(split, "plain", "org/model")
    assert config.placement_group_config == {"bundles": [{"CPU": 0.5}] * 3}
    assert config.engine_kwargs["tensor_parallel_size"] == 3
    variables = config.runtime_env["env_vars"]
    assert variables["VLLM_CPU_OMP_THREADS_BIND"] == "0|1|0"
    assert variables["VLLM_CPU_KVCACHE_SPACE"] == "2"


def test_vllm_still_cannot_prefill_a_seeded_request_in_chunks_on_a_cpu() -> None:
    """Read from vLLM's source: to import it takes many seconds."""
    torch = pytest.importorskip("torch")
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    runner = Path(spec.origin).parent / "v1" / "worker" / "gpu_model_runner.py"
    assert "gen.set_offset(gen.get_offset() - 4)" in runner.read_text(), (
        "This vLLM treats partial prefills of seeded requests otherwise. Try whether a "
        "CPU engine survives them (docs/compatibility.md says how); if so, allow it "
        "again: Fleet._chunk_mistakes, llm_config, this test, and the docs."
    )
    with pytest.raises(RuntimeError, match="does not use offset"):
        torch.Generator().get_offset()
