"""What a fleet takes of this machine's memory: reckoned before, measured after."""

from __future__ import annotations

import contextlib
import re

import psutil

from orchestrator.config.fleet import Fleet
from orchestrator.errors import FleetError

#: GiB of memory with the demo's model: of a rank besides its KV cache, of a pool
#: replica's other processes, of a router replica, and of Ray; docs/deploy.md has the
#: measured figures.
RANK_GIB = 1.1
REPLICA_GIB = 1.1
ROUTER_GIB = 0.5
RAY_GIB = 0.8


def needed_gib(fleet: Fleet) -> float:
    """Memory that the fleet takes when it has started, about."""
    needed = RAY_GIB + fleet.router.start_replicas * ROUTER_GIB
    for name, pool in fleet.pools.items():
        rank_gib = RANK_GIB + fleet.cpu_share(name).kv_cache_gib
        replica_gib = REPLICA_GIB + fleet.tensor_parallel_size * rank_gib
        needed += pool.start_replicas * replica_gib
    return needed


def check_memory(fleet: Fleet) -> None:
    """Refuse a fleet that does not fit into what is free."""
    needed = needed_gib(fleet)
    free_gib = psutil.virtual_memory().available / 1024**3
    if free_gib < needed:
        raise FleetError(
            f"The fleet needs about {needed:.1f} GiB of memory and {free_gib:.1f} "
            "GiB are available. Free some, or lower kv_cache_gib or the number of "
            "pools in the cluster file."
        )


def memory_gib() -> dict[str, float]:
    """GiB that the replicas of each pool and of the router take: of our own fleet.

    Pages that processes share count in parts; an engine's processes count for the
    replica that started them.
    """
    memory: dict[str, float] = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            title = " ".join(process.cmdline())
            if found := _REPLICA.match(title):
                family = [process, *process.children(recursive=True)]
                taken = sum(_pss(member) for member in family)
                memory[found[1]] = memory.get(found[1], 0.0) + taken / 2**30
    return memory


#: Ray calls a replica's process `ray::ServeReplica:APPLICATION:DEPLOYMENT.METHOD`; a
#: pool's deployment is called `POOL:MODEL`. Spaces fill the title up where it is short.
_REPLICA = re.compile(r"ray::ServeReplica:[^:]*:([^:.\s]+)")


def _pss(process: psutil.Process) -> int:
    """Bytes of memory; 0 for one that has just ended."""
    with contextlib.suppress(psutil.Error):
        return int(process.memory_full_info().pss)
    return 0
