"""A new router replica, before Serve sends it requests."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.serving import replica
from orchestrator.serving.replica import RouterReplica

FLEET = {
    "model": {"id": "m", "source": "m"},
    "accelerator": "cpu",
    "pools": {
        "plain": {"speculation": {"method": "none"}},
        "ngram": {"speculation": {"method": "ngram", "num_speculative_tokens": 2}},
    },
}


class Pool:
    """Stands for the handle of a pool that has a replica or not."""

    def __init__(self, *, up: bool) -> None:
        self.up = up
        self.sampling_mended = self

    def options(self, *, stream: bool) -> "Pool":
        return self

    async def remote(self) -> bool:
        return True


@pytest.mark.parametrize("up", [True, False])
async def test_it_knows_the_pools_that_run_once_it_is_made(
    up: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    context = SimpleNamespace(replica_tag="r1")
    monkeypatch.setattr(replica.serve, "get_replica_context", lambda: context)
    monkeypatch.setattr(replica.hooks, "has_replica", lambda pool: pool.up)
    monkeypatch.setattr(replica, "START_S", 30 if up else 0.05)
    monkeypatch.setenv("ORCH_DATA_DIR", str(tmp_path))
    pools: Any = {"plain": Pool(up=True), "ngram": Pool(up=up)}
    new: Any = RouterReplica.__new__(RouterReplica)
    await new.__init__(FLEET, pools, None)
    new._watching.cancel()
    assert (await new.report())["pools"] == {"plain": True, "ngram": up}
