import os

import pytest

from orchestrator.errors import FleetError
from orchestrator.serving import cpu


def test_the_library_is_found_in_the_environment() -> None:
    path = cpu.find_iomp()
    assert path is not None
    assert path.name == "libiomp5.so"


def test_it_is_preloaded_once_beside_what_was_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/lib/other.so:/lib/libgomp-1.so.1")
    cpu.prepare_environment(1)
    cpu.prepare_environment(1)
    assert os.environ["LD_PRELOAD"] == f"/lib/other.so:{cpu.find_iomp()}"


def test_an_environment_without_it_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu, "find_iomp", lambda: None)
    with pytest.raises(FleetError, match="intel-openmp"):
        cpu.prepare_environment(1)


def test_ranks_get_cores_where_the_fleet_binds_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "5|6|7")
    cpu.prepare_environment(3)
    assert os.environ["VLLM_CPU_OMP_THREADS_BIND"] == "5|6|7"
    monkeypatch.delenv("VLLM_CPU_OMP_THREADS_BIND")
    cpu.prepare_environment(3)
    assert os.environ["VLLM_CPU_OMP_THREADS_BIND"] == "0|1|0"
