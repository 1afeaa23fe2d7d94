"""A policy's way into a running fleet with two router replicas, and what undoes it."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.dashboard.modules.serve.sdk import ServeSubmissionClient

from orchestrator.config.policy import load_policy, parse_policy, policy_hash
from orchestrator.serving.apply import UP, DeployedRouter, RouterStatus
from tests.waiting import until

from .conftest import Fleet, cluster, running

pytestmark = pytest.mark.serve

OWN = {"name": "own", "version": "file-1", "otherwise": "plain", "fallback": ["ngram"]}
NEW = {"name": "new", "version": "7", "otherwise": "ngram", "fallback": ["plain"]}
BROKEN = {"name": "broken", "rules": [{"name": "r", "usee": "plain"}]}


def hash_of(policy: dict[str, Any]) -> str:
    return policy_hash(parse_policy(policy))


@pytest.fixture(scope="module")
def fleet(fleets: Any, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    folder = tmp_path_factory.mktemp("fleet")
    config = cluster(OWN)
    fleet = config["applications"][0]["args"]["fleet"]
    fleet["router"] = {"replicas": 2}
    del fleet["pools"]["tiny"]
    other = {
        "name": "other",
        "route_prefix": "/other",
        "import_path": "other_app:app",
        "runtime_env": {
            "env_vars": {"PYTHONPATH": str(Path(__file__).parent), "OTHER": "untouched"}
        },
    }
    config["applications"].append(other)
    own: Fleet = fleets.use("reload", lambda: running(config, folder))
    return own


def details(fleet: Fleet) -> dict[str, Any]:
    client = ServeSubmissionClient(fleet.dashboard)
    return dict(client.get_serve_details()["applications"])


def replicas(fleet: Fleet) -> dict[str, dict[str, int]]:
    """The process of every running replica of every deployment."""
    return {
        name: {r["replica_id"]: r["pid"] for r in d["replicas"] if r["state"] in UP}
        for application in details(fleet).values()
        for name, d in application["deployments"].items()
    }


def status(fleet: Fleet) -> dict[str, Any]:
    return dict(fleet.client.get("/router/status").json())


def all_report(fleet: Fleet, key: str, value: Any) -> bool:
    """Whether two replicas report, and each has this of its policy."""
    got = [report["policy"][key] for report in status(fleet)["replicas"]]
    return got == [value, value]


def recorded(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """Every outcome, by the request's id."""
    return {
        row["request_id"]: row
        for file in fleet.data.glob("outcomes/*.jsonl")
        for row in map(json.loads, file.read_text("utf-8").splitlines())
    }


def deploy(fleet: Fleet, config: dict[str, Any]) -> None:
    ServeSubmissionClient(fleet.dashboard).deploy_applications(config)


def with_router(fleet: Fleet, *router: dict[str, Any]) -> dict[str, Any]:
    """The cluster file with other entries of the router's deployment."""
    config = copy.deepcopy(fleet.config)
    config["applications"][0]["deployments"] = list(router)
    return config


def put(fleet: Fleet, policy: dict[str, Any]) -> None:
    """Deploy a policy past the checks of `policy apply`."""
    user_config = {"policy": policy}
    deploy(fleet, with_router(fleet, {"name": "router", "user_config": user_config}))


@pytest.fixture
def own(fleet: Fleet) -> None:
    """The cluster file's own policy is in force."""
    deploy(fleet, fleet.config)
    until(lambda: all_report(fleet, "hash", hash_of(OWN)))


def apply(
    fleet: Fleet, folder: Path, policy: dict[str, Any], *more: str
) -> tuple[int, str]:
    """Run the command as a person does; its exit code and all that it prints."""
    file = folder / "policy.yaml"
    file.write_text(yaml.safe_dump(policy))
    command = [str(Path(sys.executable).parent / "orchestrator"), "policy", "apply"]
    to = ["--address", fleet.dashboard, "--url", fleet.url]
    done = subprocess.run(
        [*command, str(file), *to, *more],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"RAY_AUTH_MODE": "token"},
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def test_apply_reaches_every_replica_and_restarts_nothing(
    fleet: Fleet, own: None, tmp_path: Path
) -> None:
    before, config = replicas(fleet), details(fleet)
    out = tmp_path / "out.json"
    code, text = apply(fleet, tmp_path, NEW, "--json", str(out))
    assert code == 0, text
    assert "is in force on all 2 replicas of the router" in text
    assert replicas(fleet) == before
    got = status(fleet)
    assert got["consistent"] is True
    assert got["unanswered"] == []
    assert {r["replica"] for r in got["replicas"]} == set(before["router"])
    assert {r["policy"]["version"] for r in got["replicas"]} == {"7"}
    result = json.loads(out.read_text())
    assert result["changed"] is True
    assert set(result["replicas"]) == set(before["router"])

    assert fleet.client.get("/other").text == "untouched"
    applications = details(fleet)
    assert (
        applications["other"]["deployed_app_config"]
        == (config["other"]["deployed_app_config"])
    )
    changed = applications["default"]["deployed_app_config"]
    assert changed["deployments"][0]["user_config"].pop("policy") == NEW
    kept = config["default"]["deployed_app_config"]
    assert kept["deployments"][0]["user_config"].pop("policy") == OWN
    assert changed == kept


def test_a_request_in_flight_keeps_its_decision(fleet: Fleet, own: None) -> None:
    message = {"role": "user", "content": "slow 200"}
    body = {"model": "fake", "messages": [message], "stream": True}
    with fleet.client.stream("POST", "/v1/chat/completions", json=body) as stream:
        lines = stream.iter_lines()
        next(lines)
        router, status = DeployedRouter(fleet.dashboard), RouterStatus(fleet.url, None)
        router.apply(NEW, parse_policy(NEW), status, 30, lambda have, running: None)
        applied = time.time()
        after = fleet.chat("Hello").headers
        words = 1 + sum("word" in line for line in lines)
    assert words == 200
    assert stream.headers["x-spec-pool"] == "plain"
    assert after["x-spec-pool"] == "ngram"
    told = ("policy", "policy_version", "policy_hash", "status", "pool")
    (row,) = fleet.outcomes(after["x-request-id"])
    assert [row[k] for k in told] == ["new", "7", hash_of(NEW), "end", "ngram"]
    (row,) = fleet.outcomes(stream.headers["x-request-id"])
    assert [row[k] for k in told] == ["own", "file-1", hash_of(OWN), "end", "plain"]
    assert row["time"] + row["total_s"] > applied


def test_apply_sends_nothing_that_is_not_needed_or_not_right(
    fleet: Fleet, own: None, tmp_path: Path
) -> None:
    deployed = details(fleet)["default"]["last_deployed_time_s"]
    code, text = apply(fleet, tmp_path, OWN)
    assert (code, "unchanged: own" in text) == (0, True), text
    code, text = apply(fleet, tmp_path, BROKEN)
    assert (code, "did you mean `use`?" in text) == (2, True), text
    example = {"request": {"messages": []}, "expect": {"pool": "ngram"}}
    code, text = apply(fleet, tmp_path, {**OWN, "examples": [example]})
    assert (code, "pool is plain, expected ngram" in text) == (1, True), text
    code, text = apply(fleet, tmp_path, NEW, "--app", "other")
    assert (code, "No application has a router" in text) == (1, True), text
    assert details(fleet)["default"]["last_deployed_time_s"] == deployed


def test_twenty_reloads_in_a_minute_half_of_them_broken_under_load(
    fleet: Fleet, own: None
) -> None:
    before = replicas(fleet)
    stop = threading.Event()
    failed: list[str] = []
    ids: list[str] = []

    def client(number: int) -> None:
        with Fleet(fleet.url, fleet.dashboard, fleet.config, fleet.data).client as http:
            for turn in range(10**6):
                if stop.is_set():
                    return
                message = {"role": "user", "content": f"slow {1 + turn % 8}"}
                body = {"model": "fake", "messages": [message], "stream": turn % 2 == 1}
                try:
                    answer = http.post("/v1/chat/completions", json=body)
                except Exception as error:
                    failed.append(f"{number}: {error!r}")
                    continue
                words = answer.text.count("word")
                if answer.status_code != 200 or words != 1 + turn % 8:
                    failed.append(f"{answer.status_code} {words} {answer.text[:200]}")
                ids.append(answer.headers.get("x-request-id", ""))

    clients = [threading.Thread(target=client, args=(i,)) for i in range(8)]
    begun = time.monotonic()
    for thread in clients:
        thread.start()
    good = [{**NEW, "name": f"good-{i}", "version": str(i)} for i in range(10)]
    try:
        for policy in good:
            put(fleet, {**BROKEN, "name": f"broken-{policy['version']}"})
            until(
                lambda: all(r["policy"]["rejected"] for r in status(fleet)["replicas"])
            )
            put(fleet, policy)
            until(lambda wanted=policy: all_report(fleet, "hash", hash_of(wanted)))  # type: ignore[misc]
        took = time.monotonic() - begun
    finally:
        stop.set()
        for thread in clients:
            thread.join()
    assert failed == []
    assert replicas(fleet) == before
    assert took <= 60
    assert len(ids) > 100
    until(lambda: recorded(fleet).keys() >= set(ids), 10)
    rows = recorded(fleet)
    seen = {(rows[i]["policy_version"], rows[i]["policy_hash"]) for i in ids}
    assert seen == {(p["version"], hash_of(p)) for p in (OWN, *good)}


DEFAULT = policy_hash(load_policy("default"))


@pytest.mark.parametrize("entry", [{}, {"user_config": {}}], ids=str)
def test_a_redeploy_without_a_policy_brings_the_default(
    fleet: Fleet, entry: dict[str, Any]
) -> None:
    put(fleet, NEW)
    until(lambda: all_report(fleet, "hash", hash_of(NEW)))
    before = replicas(fleet)
    deploy(fleet, with_router(fleet, {"name": "router", **entry}))
    until(lambda: all_report(fleet, "hash", DEFAULT))
    assert replicas(fleet) == before


@pytest.mark.parametrize(
    ("router", "wanted"),
    [
        ([{"name": "router", "user_config": {"policy": OWN}}], hash_of(OWN)),
        ([], DEFAULT),
        ([{"name": "router", "user_config": None}], DEFAULT),
    ],
    ids=["own", "no-router", "null"],
)
def test_after_a_redeploy_and_a_killed_replica_all_have_one_policy(
    fleet: Fleet, router: list[dict[str, Any]], wanted: str
) -> None:
    put(fleet, NEW)
    until(lambda: all_report(fleet, "hash", hash_of(NEW)))
    before = replicas(fleet)
    deploy(fleet, with_router(fleet, *router))
    until(lambda: all_report(fleet, "hash", wanted))
    assert replicas(fleet) == before
    killed, pid = next(iter(before["router"].items()))
    os.kill(pid, signal.SIGKILL)
    until(lambda: killed not in replicas(fleet)["router"])
    until(lambda: len(replicas(fleet)["router"]) == 2)
    until(lambda: all_report(fleet, "hash", wanted), 10)
    assert status(fleet)["consistent"] is True
    after = replicas(fleet)
    assert after.pop("router") != before.pop("router")
    assert after == before


def test_fresh_replicas_with_a_bad_policy_send_all_to_the_plain_pool(
    fleet: Fleet, own: None
) -> None:
    put(fleet, BROKEN)
    until(lambda: all(r["policy"]["rejected"] for r in status(fleet)["replicas"]))
    assert all_report(fleet, "name", "own")
    before = replicas(fleet)
    for pid in before["router"].values():
        os.kill(pid, signal.SIGKILL)
    until(lambda: not before["router"].keys() & replicas(fleet)["router"].keys())
    until(lambda: len(replicas(fleet)["router"]) == 2)
    until(lambda: all_report(fleet, "source", "built in"))
    assert all_report(fleet, "name", "all-plain")
    told = status(fleet)["policy"]["rejected"]["error"]
    assert "did you mean `use`?" in told
    until(lambda: fleet.client.get("/health").status_code == 200)
    health = fleet.client.get("/health").json()
    assert (health["status"], health["rejected"]) == ("ok", True)
    assert health["policy"]["name"] == "all-plain"
    assert fleet.chat("Hello").headers["x-spec-pool"] == "plain"
    put(fleet, NEW)
    until(lambda: all_report(fleet, "name", "new"))
    assert fleet.client.get("/health").json()["rejected"] is False
