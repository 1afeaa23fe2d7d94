"""`orchestrator serve` as a user runs it: in a process of its own, with its own Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml

pytestmark = [pytest.mark.serve, pytest.mark.usefixtures("no_fleet")]

COMMAND = [str(Path(sys.executable).parent / "orchestrator"), "serve"]


def start(config: dict[str, Any], folder: Path) -> subprocess.Popen[str]:
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump(config))
    return subprocess.Popen(
        [*COMMAND, str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"ORCH_DATA_DIR": str(folder)},
    )


def test_ctrl_c_ends_the_fleet_and_leaves_nothing(
    tmp_path: Path, make_cluster: Any
) -> None:
    config = make_cluster()
    url = f"http://127.0.0.1:{config['http_options']['port']}"
    process = start(config, tmp_path)
    assert process.stdout is not None
    family = []
    try:
        for line in process.stdout:
            if "router/status" in line:
                break
        assert httpx.get(f"{url}/router/status", timeout=30).status_code == 200
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) > 3
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(60) == 0
        assert "has ended" in rest
        assert "Traceback" not in rest
    finally:
        process.kill()
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


def test_an_engine_that_cannot_start_is_one_message_with_its_cause(
    tmp_path: Path, make_cluster: Any
) -> None:
    config = make_cluster()
    fleet = config["applications"][0]["args"]["fleet"]
    fleet["env"]["FAKE_ENGINE_FAILURE"] = "max_model_len (9) is out of range"
    begun = time.monotonic()
    process = start(config, tmp_path)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "ValueError: max_model_len (9) is out of range" in output
    assert "Traceback" not in output
    assert time.monotonic() - begun < 300
