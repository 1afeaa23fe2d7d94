"""The real local fleet, clusters/local-cpu.yaml, started once for these tests."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI

CLUSTER = Path(__file__).parents[2] / "clusters" / "local-cpu.yaml"
MODEL = "smollm2-135m-instruct"


@dataclass
class LocalFleet:
    url: str
    data: Path

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


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    from orchestrator.serving.launcher import running_fleet

    data = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORCH_DATA_DIR", str(data))
        with running_fleet(CLUSTER, lambda states: None) as running:
            yield LocalFleet(running.url, data)
