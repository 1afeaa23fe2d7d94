"""API keys on a real Ray Serve: who gets in, who may do what, and no key in any log."""

from __future__ import annotations

import copy
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import ray
import yaml
from openai import AuthenticationError, OpenAI
from ray.dashboard.modules.serve.sdk import ServeSubmissionClient

from orchestrator.config.keys import hash_key
from orchestrator.serving.apply import UP
from tests.waiting import until

from .conftest import Fleet, cluster, running

pytestmark = pytest.mark.serve

#: Long enough to be looked for in logs; the names are the keys' own.
KEYS = {name: f"sk-orch-test-{name}-{'k' * 30}" for name in ("web", "eval", "ops")}
NEXT, WRONG = f"sk-orch-test-next-{'k' * 30}", f"sk-orch-test-wrong-{'k' * 30}"
POLICY = {
    "name": "keyed",
    "rules": [{"name": "of-web", "when": {"tenant": "web"}, "use": "ngram"}],
    "otherwise": "plain",
    "fallback": ["plain", "ngram"],
}


def keys_file(folder: Path, name: str, **hashes: str) -> str:
    rights: dict[str, dict[str, Any]] = {
        "eval": {"pools": ["ngram"]},
        "ops": {"pools": "all", "admin": True},
    }
    entries = [
        {"name": n, "sha256": hash_key(KEYS[n]), **rights.get(n, {})} for n in KEYS
    ]
    for entry in entries:
        entry["sha256"] = hashes.get(entry["name"], entry["sha256"])
    file = folder / name
    file.write_text(yaml.safe_dump({"keys": entries}))
    return str(file)


@pytest.fixture(scope="module")
def fleet(fleets: Any, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    folder = tmp_path_factory.mktemp("fleet")
    config = cluster(POLICY)
    app = config["applications"][0]
    app["args"]["fleet"]["env"]["RAYLLM_VLLM_ENGINE_CLS"] = (
        "headers_engine.HeadersEngine"
    )
    del app["args"]["fleet"]["pools"]["tiny"]
    app["deployments"][0]["user_config"]["keys"] = keys_file(folder, "keys.yaml")
    own: Fleet = fleets.use("keys", lambda: running(config, folder))
    return own


def bearer(key: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}", **more}


def chat(fleet: Fleet, name: str, **headers: str) -> httpx.Response:
    return fleet.chat("Hello", headers=bearer(KEYS[name], **headers))


def in_force(fleet: Fleet, key: str = KEYS["ops"]) -> dict[str, Any]:
    """What the one router replica reports of its keys."""
    got = fleet.client.get("/router/status", headers=bearer(key)).json()
    (report,) = got["replicas"]
    return dict(report["keys"])


def deploy(fleet: Fleet, keys: str) -> None:
    config = copy.deepcopy(fleet.config)
    config["applications"][0]["deployments"][0]["user_config"]["keys"] = keys
    ServeSubmissionClient(fleet.dashboard).deploy_applications(config)


def healthy(fleet: Fleet) -> bool:
    """Whether a router replica answers; the proxy may wait for the one that died."""
    try:
        answer = httpx.get(f"{fleet.url}/health", timeout=5)
    except httpx.TransportError:
        return False
    return bool(answer.json()["status"] == "ok")


@pytest.fixture
def own_keys(fleet: Fleet) -> Iterator[None]:
    """Puts the cluster file's own keys back in force."""
    yield
    deploy(
        fleet, fleet.config["applications"][0]["deployments"][0]["user_config"]["keys"]
    )
    until(lambda: chat(fleet, "web").status_code == 200)


@pytest.mark.parametrize(
    "headers",
    [{}, bearer(WRONG), {"Authorization": KEYS["web"]}, {"x-api-key": KEYS["web"]}],
    ids=["none", "wrong", "no scheme", "other header"],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/completions"),
        ("GET", "/v1/models"),
        ("POST", "/tokenize"),
        ("GET", "/router/status"),
        ("POST", "/router/explain"),
        ("PUT", "/router/policy"),
        ("GET", "/nowhere"),
    ],
)
def test_without_a_known_key_everything_is_401(
    fleet: Fleet, method: str, path: str, headers: dict[str, str]
) -> None:
    response = fleet.client.request(method, path, json={}, headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    error = response.json()["error"]
    assert (error["type"], error["code"]) == (
        "invalid_request_error",
        "invalid_api_key",
    )
    assert "k" * 30 not in response.text


def test_openais_client_knows_the_refusal(fleet: Fleet) -> None:
    def client(key: str) -> OpenAI:
        return OpenAI(base_url=f"{fleet.url}/v1", api_key=key, max_retries=0)

    messages: Any = [{"role": "user", "content": "Hello"}]
    with pytest.raises(AuthenticationError) as caught:
        client(WRONG).chat.completions.create(model="fake", messages=messages)
    assert caught.value.code == "invalid_api_key"
    good = client(KEYS["web"])
    assert good.models.list().data[0].id == "fake"
    stream = good.chat.completions.create(model="fake", messages=messages, stream=True)
    assert sum(len(chunk.choices) for chunk in stream) == 5


def test_probes_docs_and_preflights_are_open(fleet: Fleet) -> None:
    assert fleet.client.get("/health").json()["keys"] == "keys"
    assert fleet.client.get("/docs").status_code == 200
    assert fleet.client.get("/openapi.json").status_code == 200
    preflight = fleet.client.options(
        "/v1/chat/completions",
        headers={"Origin": "http://x", "Access-Control-Request-Method": "POST"},
    )
    assert preflight.status_code == 200


def test_the_keys_name_is_the_tenant_of_rules_and_outcomes(fleet: Fleet) -> None:
    for name, rule, pool in (
        ("web", "of-web", "ngram"),
        ("eval", "otherwise", "plain"),
    ):
        response = chat(fleet, name)
        assert response.headers["x-spec-rule"] == rule
        assert response.headers["x-spec-pool"] == pool
        (row,) = fleet.outcomes(response.headers["x-request-id"])
        assert (row["tenant"], row["rule"]) == (name, rule)
        explained = fleet.client.post(
            "/router/explain", json={"messages": []}, headers=bearer(KEYS[name])
        ).json()
        assert explained["features"]["tenant"] == name
        assert explained["decision"]["rule"] == rule


@pytest.mark.parametrize(
    ("name", "pool", "status"),
    [
        ("web", "plain", 403),
        ("eval", "plain", 403),
        ("eval", "ngram", 200),
        ("ops", "plain", 200),
        ("ops", "ngram", 200),
        ("ops", "nowhere", 400),
        ("eval", "nowhere", 403),
    ],
)
def test_a_key_may_carry_the_right_to_choose_the_pool(
    fleet: Fleet, name: str, pool: str, status: int
) -> None:
    headers = {"x-spec-pool": pool}
    response = chat(fleet, name, **headers)
    assert response.status_code == status
    explained = fleet.client.post(
        "/router/explain",
        json={"messages": []},
        headers=bearer(KEYS[name], **headers),
    ).json()
    if status == 200:
        assert response.headers["x-spec-pool"] == pool
        assert response.headers["x-spec-rule"] == "forced"
        assert explained["decision"]["pool"] == pool
        return
    error = response.json()["error"]
    assert error["param"] == "x-spec-pool"
    assert error["message"] == explained["error"]
    if status == 403:
        assert error["type"] == "permission_error"
        assert f"no API key that allows pool '{pool}'" in error["message"]


def test_what_changes_the_router_needs_an_admin(fleet: Fleet) -> None:
    for name, allowed in (("web", False), ("eval", False), ("ops", True)):
        response = fleet.client.put("/router/policy", headers=bearer(KEYS[name]))
        # There is no such route yet: an admin is let through, and told so.
        assert response.status_code == (404 if allowed else 403), response.text
        if not allowed:
            assert response.json()["error"]["type"] == "permission_error"
            assert "admin: true" in response.json()["error"]["message"]
        status = fleet.client.get("/router/status", headers=bearer(KEYS[name]))
        assert status.status_code == 200


def test_no_pool_is_told_the_key(fleet: Fleet) -> None:
    response = chat(fleet, "web", **{"x-team": "t"})
    names = response.json()["choices"][0]["message"]["content"].split()
    assert "x-team" in names
    assert "authorization" not in names


@pytest.mark.usefixtures("own_keys")
def test_bad_keys_leave_the_old_and_good_ones_replace_them(
    fleet: Fleet, tmp_path: Path
) -> None:
    before = in_force(fleet)
    assert (before["state"], before["count"], before["rejected"]) == ("keys", 3, None)
    bad = keys_file(tmp_path, "bad.yaml", web=KEYS["web"])
    deploy(fleet, bad)
    until(lambda: in_force(fleet)["rejected"])
    rejected = in_force(fleet)["rejected"]
    assert rejected["source"] == bad
    assert "is no SHA-256" in rejected["error"]
    assert KEYS["web"] not in rejected["error"]
    assert in_force(fleet)["source"] == before["source"]
    assert chat(fleet, "web").status_code == 200
    deploy(fleet, keys_file(tmp_path, "next.yaml", web=hash_key(NEXT)))
    until(lambda: in_force(fleet)["source"] != before["source"])
    assert in_force(fleet)["rejected"] is None
    assert chat(fleet, "web").status_code == 401
    assert fleet.chat("Hello", headers=bearer(NEXT)).headers["x-spec-rule"] == "of-web"


@pytest.mark.usefixtures("own_keys")
def test_a_fresh_replica_that_cannot_read_its_keys_refuses_all(
    fleet: Fleet, tmp_path: Path
) -> None:
    def router() -> dict[str, int]:
        details = ServeSubmissionClient(fleet.dashboard).get_serve_details()
        deployments = details["applications"]["default"]["deployments"]
        return {
            replica["replica_id"]: replica["pid"]
            for replica in deployments["router"]["replicas"]
            if replica["state"] in UP
        }

    deploy(fleet, str(tmp_path / "missing.yaml"))
    until(lambda: in_force(fleet)["rejected"])
    ((old, pid),) = router().items()
    os.kill(pid, signal.SIGKILL)
    # Until Serve sees it, a request would wait for the dead one.
    until(lambda: router() and old not in router())
    until(lambda: healthy(fleet))
    assert fleet.client.get("/health").json()["keys"] == "closed"
    for headers in ({}, bearer(WRONG), *map(bearer, KEYS.values())):
        response = fleet.chat("Hello", headers=headers)
        assert response.status_code == 503
        assert "can't read its API keys" in response.json()["error"]["message"]
        assert response.headers["retry-after"] == "1"
    status = fleet.client.get("/router/status", headers=bearer(KEYS["ops"]))
    assert status.status_code == 503


def test_no_key_is_in_any_log_or_outcome(fleet: Fleet) -> None:
    """Last in this file: every key has been used by now, and a wrong one too."""
    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    files = [f for f in (*logs.rglob("*"), *fleet.data.rglob("*.jsonl")) if f.is_file()]
    texts = {file: file.read_bytes() for file in files}
    # It is the right folder: the router wrote of the keys, and of each request.
    assert any(b"API keys of " in text for text in texts.values())
    assert any(b"/v1/chat/completions" in text for text in texts.values())
    assert any(b'"tenant": "web"' in text for text in texts.values())
    secrets = [key.encode() for key in (*KEYS.values(), NEXT, WRONG)]
    assert not [
        (file, key) for file, text in texts.items() for key in secrets if key in text
    ]
