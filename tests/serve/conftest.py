"""A real Ray Serve with three pools of the small fake engine."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

POLICY = {
    "name": "test",
    "allow_forced_pool": True,
    "rules": [
        {"name": "small", "when": {"header": {"x-team": "small"}}, "use": "tiny"},
        {"name": "code", "when": {"class": "code"}, "use": "ngram"},
    ],
    "otherwise": "plain",
    "fallback": ["plain", "ngram"],
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cluster(policy: Any = POLICY) -> dict[str, Any]:
    """A Serve config of the fake fleet, on a free port."""
    modes = {
        "plain": {"method": "none"},
        "ngram": {"method": "ngram", "num_speculative_tokens": 2},
        "tiny": {"method": "none"},
    }
    # One request at a time, and one that waits.
    sizes = {"tiny": {"max_ongoing_requests": 1, "max_queued_requests": 1}}
    fleet = {
        "model": {"id": "fake", "source": "fake"},
        "accelerator": "cpu",
        "cpu": {"cores": 0.1},
        "env": {
            "RAYLLM_VLLM_ENGINE_CLS": "fake_engine.FakeEngine",
            "PYTHONPATH": str(Path(__file__).parent),
        },
        "pools": {
            name: {"speculation": mode, "replicas": 1, **sizes.get(name, {})}
            for name, mode in modes.items()
        },
    }
    router = {"name": "router", "user_config": {"policy": policy}}
    return {
        "http_options": {"host": "127.0.0.1", "port": free_port()},
        "applications": [
            {
                "name": "default",
                "route_prefix": "/",
                "import_path": "orchestrator.serving.app:build_app",
                "args": {"fleet": fleet},
                "deployments": [router],
            }
        ],
    }


@pytest.fixture
def make_cluster() -> Any:
    return cluster


class Fleet:
    """The running fake fleet, and what it recorded."""

    def __init__(self, url: str, dashboard: str, config: Any, data: Path) -> None:
        self.url = url
        self.dashboard = dashboard
        self.config = config
        self.data = data
        self.client = httpx.Client(base_url=url, timeout=30)

    def chat(self, content: str, **body: Any) -> httpx.Response:
        headers = body.pop("headers", {})
        message = {"role": "user", "content": content}
        request = {"model": "fake", "messages": [message], **body}
        return self.client.post("/v1/chat/completions", json=request, headers=headers)

    def outcomes(self, request_id: str, count: int = 1) -> list[dict[str, Any]]:
        """What was recorded for a request; waits until `count` are there."""
        for _ in range(100):
            rows = [
                row
                for file in self.data.glob("outcomes/*.jsonl")
                for row in map(json.loads, file.read_text("utf-8").splitlines())
                if row["request_id"] == request_id
            ]
            if len(rows) >= count:
                break
            time.sleep(0.05)
        return rows


@contextlib.contextmanager
def running(config: dict[str, Any], folder: Path) -> Iterator[Fleet]:
    """A fleet of this Serve config; it keeps its files in `folder`."""
    from orchestrator.serving.launcher import running_fleet

    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump(config))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORCH_DATA_DIR", str(folder))
        with running_fleet(file, lambda states: None) as fleet:
            yield Fleet(fleet.url, fleet.dashboard, config, folder)


@pytest.fixture(scope="module")
def fleet(fleets: Any, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """The fleet of `cluster()`; test files that use it leave it as they found it."""
    folder = tmp_path_factory.mktemp("fleet")
    shared: Fleet = fleets.use("fake", lambda: running(cluster(), folder))
    return shared
