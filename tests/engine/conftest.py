"""The real local fleets, each started once for the file of tests that wants it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml
from openai import OpenAI

CLUSTERS = Path(__file__).parents[2] / "clusters"
MODEL = "smollm2-135m-instruct"
#: The pools of `fleet` beside `plain`.
SPECULATIVE = ("ngram", "draft", "eagle")


@dataclass
class LocalFleet:
    url: str
    dashboard: str
    data: Path
    #: Its file.
    cluster: Path

    @property
    def openai(self) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)

    def post(self, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        return httpx.post(f"{self.url}{path}", json=body, headers=headers, timeout=300)

    def chat(self, content: str, **body: Any) -> httpx.Response:
        pool = body.pop("pool", None)
        headers = {"x-spec-pool": pool} if pool else {}
        message = {"role": "user", "content": content}
        body = {"model": MODEL, "messages": [message], "temperature": 0.0, **body}
        return self.post("/v1/chat/completions", body, **headers)

    def outcome(self, response: httpx.Response) -> dict[str, Any]:
        """The one outcome of a response; fails where there is none or more."""
        wanted = response.headers["x-request-id"]
        for _ in range(40):
            rows = [
                row
                for file in self.data.glob("outcomes/*.jsonl")
                for row in map(json.loads, file.read_text("utf-8").splitlines())
                if row["request_id"] == wanted
            ]
            if rows:
                break
            time.sleep(0.1)
        (row,) = rows
        return dict(row)


def processes(title: str) -> dict[int, str]:
    """The vLLM processes of this test's fleet whose name has `title`, by pid."""
    found = {}
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended; so does a zombie
            name = " ".join(child.cmdline()).strip()
            if name.startswith("VLLM::") and title in name:
                found[child.pid] = name
    return found


@contextlib.contextmanager
def local_fleet(cluster: Path, data: Path) -> Iterator[LocalFleet]:
    """The fleet of a cluster file; its outcomes go into the folder `data`."""
    from orchestrator.serving.launcher import running_fleet

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORCH_DATA_DIR", str(data))
        with running_fleet(cluster, lambda states: None) as running:
            yield LocalFleet(running.url, running.dashboard, data, cluster)


@pytest.fixture(scope="module")
def fleet(fleets: Any, tmp_path_factory: pytest.TempPathFactory) -> LocalFleet:
    """clusters/local-cpu.yaml with a second router."""
    data = tmp_path_factory.mktemp("data")
    config = yaml.safe_load((CLUSTERS / "local-cpu.yaml").read_text())
    config["applications"][0]["args"]["fleet"]["router"] = {"replicas": 2}
    file = data / "local-cpu.yaml"
    file.write_text(yaml.safe_dump(config))
    shared: LocalFleet = fleets.use("local-cpu", lambda: local_fleet(file, data))
    return shared
