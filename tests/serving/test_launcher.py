import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml
from ray.exceptions import RayActorError

from orchestrator.errors import ConfigError, FleetError
from orchestrator.serving import launcher, memory
from orchestrator.serving.launcher import find_cause, running_fleet

LOCAL = Path(__file__).parents[2] / "clusters" / "local-cpu.yaml"


def start(path: Path) -> None:
    with running_fleet(path, lambda states: None):
        raise AssertionError("it must not start")


def on_port(tmp_path: Path, port: int, cluster: Path = LOCAL) -> Path:
    config = yaml.safe_load(cluster.read_text())
    config["http_options"]["port"] = port
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


def test_a_port_in_use_is_named_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(FleetError, match=f"Port {port} is in use.*http_options"):
            start(on_port(tmp_path, port))


@pytest.mark.parametrize(
    ("cluster", "needed"),
    [("local-cpu", "14.1"), ("local-cpu-tp", "8.7")],  # 4 engines; 3 ranks of one
)
def test_too_little_memory_is_told_with_both_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: str, needed: str
) -> None:
    class Memory:
        available = 2 * 1024**3

    monkeypatch.setattr(memory.psutil, "virtual_memory", Memory)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    file = on_port(tmp_path, port, LOCAL.with_stem(cluster))
    with pytest.raises(FleetError, match=rf"needs about {needed} GiB .* 2\.0 GiB"):
        start(file)


def test_a_mistake_in_the_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(LOCAL.read_text().replace("method: ngram", "method: ngrams"))
    with pytest.raises(ConfigError, match="ngrams") as caught:
        start(file)
    assert caught.value.problems[0].line


def test_bad_api_keys_are_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The router would start and refuse every request."""
    config = yaml.safe_load(LOCAL.read_text())
    (router,) = config["applications"][0]["deployments"]
    router["user_config"]["keys"] = str(tmp_path / "keys.yaml")
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(config))
    with pytest.raises(ConfigError, match=r"keys\.yaml:can't be read: No such file"):
        start(file)
    (tmp_path / "keys.yaml").write_text("keys:\n  - name: web\n")
    with pytest.raises(ConfigError, match=r"2:5: keys\[0\]\.sha256: is required"):
        start(file)
    monkeypatch.setenv("ORCH_API_KEYS", "")
    with pytest.raises(ConfigError, match="ORCH_API_KEYS:must be a mapping"):
        start(LOCAL)


def test_a_model_whose_heads_cannot_be_shared_is_refused(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"num_attention_heads": 9}')
    text = LOCAL.read_text().replace("demo:target", str(model))
    text = text.replace("tensor_parallel_size: 1", "tensor_parallel_size: 2")
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match="9 attention heads"):
        start(file)


def test_the_cause_is_the_first_exception_that_is_not_about_another() -> None:
    log = (
        "INFO starting\n"
        "(EngineCore pid=7) ERROR [core.py:9] pydantic_core.ValidationError: bad\n"
        "RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    assert find_cause([log]) == "ValidationError: bad"
    wrapped = "RuntimeError: Traceback (most recent call last):\nValueError: too long"
    assert find_cause([wrapped]) == "ValueError: too long"
    bare = "(W pid=1) ERROR [core.py:1]     assert a == b\n(W) ERROR [x] AssertionError"
    assert find_cause([bare]) == "AssertionError: assert a == b"
    assert find_cause(["nothing to see\nthe end"]) == "the end"
    assert find_cause([""]) == "no message; see the logs"


def report(*, rejected: Any = None, **pools: bool) -> dict[str, Any]:
    return {"policy": {"rejected": rejected}, "pools": pools}


SEES = report(plain=True, ngram=True)
SEES_NOT = report(plain=True, ngram=False)


class Router:
    """Stands for the router's handle: what its replicas report, look after look; the
    last look stays.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: Any) -> None:
        self.looks = list(looks)
        self.fetched: list[str] = []
        monkeypatch.setattr(launcher.serve, "get_deployment_handle", self.of)
        monkeypatch.setattr(launcher.httpx, "get", self.get)
        monkeypatch.setattr(launcher.time, "sleep", lambda seconds: None)

    def of(self, deployment: str, application: str) -> Any:
        assert (deployment, application) == ("router", "mine")
        return self

    def get(self, url: str, timeout: float) -> httpx.Response:
        self.fetched.append(url)
        return httpx.Response(200, request=httpx.Request("GET", url))

    def broadcast(self, method: str) -> Any:
        assert method == "report"
        return SimpleNamespace(results=self.results)

    def results(self, timeout_s: float) -> Any:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, Exception):
            raise look
        return look


def test_the_fleet_is_ready_once_every_router_replica_sees_every_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dead = RayActorError()
    looks = ([SEES_NOT], TimeoutError(), [SEES, SEES_NOT], dead, [], [SEES, SEES])
    router = Router(monkeypatch, *looks)
    launcher._wait_for_router("mine", "http://x:1")
    assert router.looks == [[SEES, SEES]]
    assert router.fetched == ["http://x:1/health"]


def test_a_router_that_refuses_its_policy_or_sees_no_pool_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Router(monkeypatch, [SEES, report(rejected={"error": "bad"}, plain=True)])
    with pytest.raises(FleetError, match=r"refused its policy; .*/router/status"):
        launcher._wait_for_router("mine", "http://x:1")
    monkeypatch.setattr(launcher, "SEEN_TIMEOUT_S", 0.01)
    router = Router(monkeypatch, [SEES_NOT])
    with pytest.raises(FleetError, match="does not see all of its pools"):
        launcher._wait_for_router("mine", "http://x:1")
    assert router.fetched == []
