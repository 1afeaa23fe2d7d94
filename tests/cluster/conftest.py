"""A fake fleet on two Ray nodes of one machine: `plain` on the head, `ngram` on the
other one, a router on each.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import ray
from ray import serve
from ray.cluster_utils import Cluster
from ray.dashboard.modules.serve.sdk import ServeSubmissionClient
from ray.util import placement_group, remove_placement_group

from orchestrator.serving.apply import UP
from tests.serve.conftest import cluster as fake_cluster
from tests.serve.conftest import free_port

#: CPUs that a pool asks for, and its node has: `ngram` fits only on the other node.
CPUS = {"plain": 1, "ngram": 2}
#: What a request's `x-spec-class` says so that the rules choose a pool.
CLASS = {"plain": "open", "ngram": "code"}
POLICY = {
    "name": "two-nodes",
    "rules": [{"name": "code", "when": {"class": "code"}, "use": "ngram"}],
    "otherwise": "plain",
    "fallback": ["plain", "ngram"],
}
#: A request that takes longer than this hangs; seconds.
HANGS_S = 30.0
#: A fleet that takes longer than this does not start, or does not heal; seconds.
STARTS_S = 300.0


@dataclass(frozen=True)
class Answer:
    """What a client saw of one request; times on the monotonic clock, in seconds."""

    id: str
    #: The pool that the rules name for it.
    wanted: str
    stream: bool
    begun: float
    ended: float
    #: How it ended, in a word or two: `answered by POOL`, `broken off`, or a failure.
    how: str
    words: int
    error: dict[str, Any] | None


class TwoNodes:
    """The fleet, the node that can be killed, and a client."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._cluster = Cluster()
        self._config = fake_cluster(POLICY)
        fleet = self._config["applications"][0]["args"]["fleet"]
        fleet["router"] = {"replicas": 2}
        speculation = {n: p["speculation"] for n, p in fleet["pools"].items()}
        fleet["pools"] = {
            name: {"speculation": speculation[name], "cpu": {"cores": cpus}}
            for name, cpus in CPUS.items()
        }
        # Left alone, Serve may put both on one node.
        (router,) = self._config["applications"][0]["deployments"]
        router["max_replicas_per_node"] = 1
        # Two proxies would want the same port of the one machine.
        self._config["proxy_location"] = "HeadOnly"
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{self._config['http_options']['port']}",
            timeout=HANGS_S,
            limits=httpx.Limits(max_connections=None),
        )

    def start(self) -> None:
        """Start both nodes and the fleet; wait until it answers."""
        port = free_port()
        self._cluster.add_node(
            num_cpus=CPUS["plain"], include_dashboard=True, dashboard_port=port
        )
        self.add_node()
        ray.init(self._cluster.address, log_to_driver=False, logging_level="ERROR")
        self.head = ray.get_runtime_context().get_node_id()
        self._serve = ServeSubmissionClient(f"http://127.0.0.1:{port}")
        # Where both nodes are free `plain` could take the only one with room for
        # `ngram`. The routers need no CPU.
        held = placement_group([{"CPU": CPUS["ngram"]}])
        assert held.wait(STARTS_S)
        self._serve.deploy_applications(self._config)
        wait_until(lambda: self.nodes("plain") == [self.head])
        remove_placement_group(held)
        wait_until(lambda: self._application()["status"] == "RUNNING")
        wait_until(lambda: self.chosen("ngram"))

    def end(self) -> None:
        """Stop everything; fail where a process of it stays."""
        family = psutil.Process().children(recursive=True)
        serve.shutdown()
        ray.shutdown()
        self._cluster.shutdown()
        _, left = psutil.wait_procs(family, timeout=30)
        left = [p for p in left if p.status() != psutil.STATUS_ZOMBIE]
        for process in left:
            process.kill()
        assert not left

    def add_node(self) -> None:
        """Add the node of `ngram`."""
        self._node = self._cluster.add_node(num_cpus=CPUS["ngram"])

    def kill_node(self) -> None:
        """End every process of that node at once."""
        (raylet,) = self._node.all_processes["raylet"]
        parent = psutil.Process(raylet.process.pid)
        for process in [parent, *parent.children(recursive=True)]:
            process.kill()
        self._cluster.remove_node(self._node, allow_graceful=False)

    def _application(self) -> dict[str, Any]:
        found = self._serve.get_serve_details()["applications"].get("default")
        return found or {"status": "", "deployments": {}}

    def nodes(self, name: str) -> list[str]:
        """The node of each running replica of a pool or of the router."""
        return [
            replica["node_id"]
            for deployment, found in self._application()["deployments"].items()
            if deployment.partition(":")[0] == name
            for replica in found["replicas"]
            if replica["state"] in UP
        ]

    def chosen(self, pool: str) -> bool:
        """Whether the routers choose a pool now for the requests meant for it."""
        body = {"messages": [{"role": "user", "content": "words"}]}
        headers = {"x-spec-class": CLASS[pool]}
        for _ in range(10):  # whichever router answers
            reply = self._client.post("/router/explain", json=body, headers=headers)
            if reply.json()["decision"]["pool"] != pool:
                return False
        return True

    def chat(
        self,
        wanted: str,
        content: str,
        *,
        stream: bool,
        on_word: Callable[[], None] = lambda: None,
    ) -> Answer:
        """Ask for what the rules send to the pool `wanted`."""
        id_, begun = uuid.uuid4().hex, time.monotonic()
        body = {
            "model": "fake",
            "messages": [{"role": "user", "content": content}],
            "stream": stream,
        }
        headers = {"x-request-id": id_, "x-spec-class": CLASS[wanted]}
        words, error = 0, None
        try:
            with self._client.stream(
                "POST", "/v1/chat/completions", json=body, headers=headers
            ) as reply:
                for part in _parts(reply):
                    error = part.get("error", error)
                    for choice in part.get("choices", []):
                        text = choice.get("delta") or choice["message"]
                        words += len(text["content"].split())
                        on_word()
            if reply.status_code != 200:
                how = f"status {reply.status_code}"
            elif error is not None:
                how = "broken off"
            elif words != int(content.split()[1]):
                how = "cut short"
            else:
                how = f"answered by {reply.headers['x-spec-pool']}"
        except httpx.HTTPError as failure:  # a timeout too: it hangs
            how = type(failure).__name__
        return Answer(id_, wanted, stream, begun, time.monotonic(), how, words, error)

    def outcomes(self) -> list[dict[str, Any]]:
        """What all routers recorded."""
        return [
            json.loads(line)
            for file in self._data.glob("outcomes/*.jsonl")
            for line in file.read_text("utf-8").splitlines()
        ]


def _parts(reply: httpx.Response) -> Iterator[dict[str, Any]]:
    """The events of a stream, or the one body of another reply."""
    if not reply.headers["content-type"].startswith("text/event-stream"):
        yield json.loads(reply.read())
        return
    line = ""
    for line in filter(None, reply.iter_lines()):
        if line != "data: [DONE]":
            yield json.loads(line.removeprefix("data: "))
    assert line == "data: [DONE]", "a stream without its end"


def wait_until(true: Callable[[], bool]) -> float:
    """Wait for what a fleet takes long for; return how many seconds it took."""
    begun = time.monotonic()
    while not true():
        assert time.monotonic() < begun + STARTS_S, "waited too long"
        time.sleep(0.05)
    return time.monotonic() - begun


@pytest.fixture
def two_nodes(tmp_path: Path, no_fleet: None) -> Iterator[TwoNodes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORCH_DATA_DIR", str(tmp_path))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # Nodes that are started without `ray.init` make no token.
        patch.setenv("RAY_AUTH_MODE", "disabled")
        fleet = TwoNodes(tmp_path)
        try:
            fleet.start()
            yield fleet
        finally:
            fleet.end()
