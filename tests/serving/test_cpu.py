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
    monkeypatch.setenv("LD_PRELOAD", "/lib/other.so")
    cpu.prepare_environment()
    cpu.prepare_environment()
    assert os.environ["LD_PRELOAD"] == f"/lib/other.so:{cpu.find_iomp()}"


def test_an_environment_without_it_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu, "find_iomp", lambda: None)
    with pytest.raises(FleetError, match="intel-openmp"):
        cpu.prepare_environment()
