"""`policy apply` without a cluster: what it would send, and what it says goes wrong."""

from __future__ import annotations

import copy
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from orchestrator.config.policy import parse_policy, policy_hash
from orchestrator.errors import FleetError
from orchestrator.serving import apply
from orchestrator.serving.apply import (
    DeployedRouter,
    RouterStatus,
    find_application,
    with_policy,
)

FLEET = {
    "model": {"id": "m", "source": "s"},
    "accelerator": "gpu",
    "pools": {"plain": {"speculation": {"method": "none"}}},
}
OWN = {"name": "own", "otherwise": "plain"}
NEW = {"name": "new", "version": "2", "otherwise": "plain"}


def deployed(name: str, **changes: Any) -> dict[str, Any]:
    router = {"replicas": [{"replica_id": "r1", "state": "RUNNING"}]}
    config = {"name": name, "import_path": "o:build_app", "args": {"fleet": FLEET}}
    return {
        "source": "declarative",
        "status": "RUNNING",
        "deployments": {"router": router},
        "deployed_app_config": config,
        **changes,
    }


def serve_details(**applications: Any) -> dict[str, Any]:
    return {
        "controller_info": {"node_id": "n"},
        "proxies": {},
        "target_capacity": 50.0,
        "proxy_location": "HeadOnly",
        "http_options": {"host": "127.0.0.1", "port": 8123},
        "grpc_options": None,
        "applications": applications,
    }


OTHER_CONFIG = {
    "name": "other",
    "import_path": "other:app",
    "runtime_env": {"env_vars": {"A": "b"}},
    "logging_config": {"log_level": "DEBUG"},
}
OTHER = deployed("other", deployments={"Other": {}}, deployed_app_config=OTHER_CONFIG)


def test_everything_but_the_policy_is_sent_back_as_it_was() -> None:
    user_config = {"policy": OWN, "keys": "/srv/keys.yaml"}
    mine = deployed("mine")
    mine["deployed_app_config"]["deployments"] = [
        {"name": "plain:m", "max_ongoing_requests": 3},
        {"name": "router", "user_config": user_config, "num_replicas": 2},
    ]
    details = serve_details(mine=mine, other=OTHER)
    untouched = copy.deepcopy(details)
    config = with_policy(details, "mine", NEW)
    assert details == untouched
    assert set(config) == {
        "target_capacity",
        "proxy_location",
        "http_options",
        "applications",
    }
    assert config["http_options"] == details["http_options"]
    assert config["applications"][1] == OTHER_CONFIG
    router = config["applications"][0]["deployments"][1]
    assert router.pop("user_config") == {"policy": NEW, "keys": "/srv/keys.yaml"}
    assert router == {"name": "router", "num_replicas": 2}
    assert config["applications"][0]["deployments"][0]["max_ongoing_requests"] == 3


def test_a_router_without_an_entry_or_user_config_gets_one() -> None:
    for entries in (
        [],
        [{"name": "router"}],
        [{"name": "router", "user_config": None}],
    ):
        mine = deployed("mine")
        mine["deployed_app_config"]["deployments"] = entries
        config = with_policy(serve_details(mine=mine), "mine", NEW)
        entry = {"name": "router", "user_config": {"policy": NEW}}
        assert config["applications"][0]["deployments"] == [entry]


def test_what_serve_would_not_delete_is_left_out_and_what_it_would_is_refused() -> None:
    from_python = deployed("p", source="imperative", deployed_app_config=None)
    going = deployed("g", status="DELETING", deployed_app_config=None)
    details = serve_details(mine=deployed("mine"), p=from_python, g=going)
    config = with_policy(details, "mine", NEW)
    assert [a["name"] for a in config["applications"]] == ["mine"]
    unknown = deployed("u", deployed_app_config=None)
    with pytest.raises(FleetError, match="config of application u"):
        with_policy(serve_details(mine=deployed("mine"), u=unknown), "mine", NEW)


def test_the_application_is_the_one_with_a_fleet() -> None:
    details = serve_details(other=OTHER, mine=deployed("mine"))
    assert find_application(details, None) == "mine"
    assert find_application(details, "mine") == "mine"


@pytest.mark.parametrize(
    ("applications", "wanted", "told"),
    [
        ({}, None, "No application has a router of a fleet (none are deployed)"),
        ({"other": OTHER}, None, "has a router of a fleet (other)"),
        ({"a": deployed("a")}, "b", "No application `b` is deployed"),
        ({"mine": deployed("mine")}, "mien", "did you mean `mine`?"),
        (
            {"a": deployed("a"), "b": deployed("b")},
            None,
            "Several applications have a router: name one of a, b with --app",
        ),
        (
            {"a": deployed("a", deployed_app_config=None)},
            None,
            "Application a was not deployed from a Serve config file",
        ),
        ({"a": deployed("a", status="DELETING")}, None, "No application has a router"),
    ],
)
def test_no_such_application(applications: Any, wanted: Any, told: str) -> None:
    with pytest.raises(FleetError) as caught:
        find_application(serve_details(**applications), wanted)
    assert told in str(caught.value)


class Answers(BaseHTTPRequestHandler):
    """Answers every GET with the server's `status` and `content`."""

    def do_GET(self) -> None:
        content = self.server.content  # type: ignore[attr-defined]
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    made: Any = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    made.status, made.content = 200, b"{}"
    made.url = f"http://127.0.0.1:{made.server_port}"
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def nobody() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "asks for the cluster's token: set RAY_AUTH_MODE=token"),
        (403, "asks for the cluster's token: set RAY_AUTH_MODE=token"),
        (404, "Version check returned 404"),
        (500, "500 Server Error"),
        (200, "ray_version"),
    ],
)
def test_what_is_no_dashboard_is_one_message(
    server: Any, status: int, told: str
) -> None:
    server.status = status
    with pytest.raises(FleetError) as caught:
        DeployedRouter(server.url)
    assert told in str(caught.value)
    assert server.url in str(caught.value)


def test_a_dashboard_that_is_not_there(nobody: str) -> None:
    with pytest.raises(FleetError, match="Failed to connect to Ray"):
        DeployedRouter(nobody)
    with pytest.raises(FleetError, match=r"\(--address\)"):
        DeployedRouter("localhost:8265")


@pytest.mark.parametrize(
    ("status", "content", "told"),
    [
        (401, b"", "give an API key with --key or ORCH_API_KEY"),
        (404, b"", "HTTP status 404): is --url right?"),
        (200, b"<html>", "HTTP status 200): is --url right?"),
        (200, b'{"policy": {}}', "is --url right?"),
    ],
)
def test_what_is_no_router_is_one_message(
    server: Any, status: int, content: bytes, told: str
) -> None:
    server.status, server.content = status, content
    with pytest.raises(FleetError) as caught:
        RouterStatus(server.url, None).replicas()
    assert told in str(caught.value)


def test_a_router_that_is_not_there(nobody: str) -> None:
    with pytest.raises(FleetError, match="--url says where"):
        RouterStatus(nobody, None).replicas()


class Client:
    """Stands for Ray's client: takes what is deployed, and tells it."""

    def __init__(self, details: dict[str, Any]) -> None:
        self.details = details
        self.sent: list[dict[str, Any]] = []

    def get_serve_details(self) -> dict[str, Any]:
        return self.details

    def deploy_applications(self, config: dict[str, Any]) -> None:
        self.sent.append(config)


class Replicas:
    """Stands for RouterStatus: each look is the next of what the replicas say."""

    def __init__(self, *looks: dict[str, Any]) -> None:
        self.looks = list(looks)

    def replicas(self) -> dict[str, Any]:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


def says(policy: Any, rejected: Any = None) -> dict[str, Any]:
    parsed = parse_policy(policy)
    return {
        "name": parsed.name,
        "version": parsed.version,
        "hash": policy_hash(parsed),
        "rejected": rejected and {"error": rejected},
    }


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    mine = deployed("mine")
    mine["deployments"]["router"]["replicas"] = [
        {"replica_id": "r1", "state": "RUNNING"},
        {"replica_id": "r2", "state": "UPDATING"},
        {"replica_id": "r3", "state": "STARTING"},
    ]
    made = Client(serve_details(mine=mine))
    monkeypatch.setattr(apply, "ServeSubmissionClient", lambda address: made)
    monkeypatch.setattr(apply, "LOOK_EVERY_S", 0.0)
    return made


def put(*looks: Any, content: Any = NEW, timeout_s: float = 5) -> Any:
    told: list[tuple[int, int]] = []
    status: Any = Replicas(*looks)
    done = DeployedRouter("http://ray").apply(
        content, parse_policy(content), status, timeout_s, lambda *n: told.append(n)
    )
    return done, told


def test_it_waits_for_every_replica_that_runs(client: Client) -> None:
    old, new = says(OWN), says(NEW)
    unnumbered = says({**NEW, "version": "1"})
    looks = (
        {"r1": old, "r2": old},
        {"r1": new},  # r2 takes no calls while it is updated
        {"r1": new, "r2": unnumbered},
        {"r1": new, "r2": new},
    )
    done, told = put(*looks)
    assert (done.changed, done.replicas) == (True, ["r1", "r2"])
    assert told == [(1, 2), (1, 2), (2, 2)]
    assert len(client.sent) == 1


def test_the_deployed_policy_is_not_sent_again(client: Client) -> None:
    router = {"name": "router", "user_config": {"policy": NEW}}
    mine = client.details["applications"]["mine"]
    mine["deployed_app_config"]["deployments"] = [router]
    done, _ = put({"r1": says(NEW), "r2": says(NEW)})
    assert done.changed is False
    assert client.sent == []


def test_a_refusal_is_told_at_once_but_not_one_from_before(client: Client) -> None:
    before = {"r1": says(OWN), "r2": says(OWN, "an older one")}
    with pytest.raises(FleetError, match=r"replica r2 refuses .* there: no such pool"):
        put(before, before, {"r1": says(NEW), "r2": says(OWN, "no such pool")})


def test_who_lags_is_named(client: Client) -> None:
    with pytest.raises(FleetError) as caught:
        put({"r1": says(OWN)}, timeout_s=0.01)
    assert "After 0.01 s not every replica" in str(caught.value)
    assert f"r1: has own ({says(OWN)['hash']})" in str(caught.value)
    assert "r2: did not answer" in str(caught.value)
    assert "r3" not in str(caught.value)


def test_another_fleets_router_is_refused_before_anything_is_sent(
    client: Client,
) -> None:
    with pytest.raises(FleetError, match="not the one of application mine"):
        put({"elsewhere": says(OWN)})
    assert client.sent == []
