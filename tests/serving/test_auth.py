"""Who may call: what needs a key, and keys that can't be read never open the fleet."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers

from orchestrator.config.keys import KEYS_ENV, hash_key
from orchestrator.errors import (
    AdminRequiredError,
    ConfigError,
    OrchestratorError,
    Problem,
    UnauthorizedError,
    UnavailableError,
)
from orchestrator.records import Caller
from orchestrator.serving import auth
from orchestrator.serving.auth import KeyHolder
from orchestrator.serving.replies import refusal

WEB, OPS = "sk-orch-web", "sk-orch-ops"
KEYS = f"""\
keys:
  - {{name: web, sha256: {hash_key(WEB)}, pools: [ngram]}}
  - {{name: ops, sha256: {hash_key(OPS)}, admin: true}}
"""
CHAT = ("POST", "/v1/chat/completions")


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stands for the files of the head node; an exception is raised."""
    there: dict[str, Any] = {"/keys": KEYS, "/bad": "keys: [{name: a}]"}

    async def read(path: str) -> str:
        if path not in there:
            raise ConfigError(path, [Problem("no such file on the head node")])
        if isinstance(there[path], Exception):
            raise there[path]
        return str(there[path])

    monkeypatch.setattr(auth, "read_on_head", read)
    monkeypatch.delenv(KEYS_ENV, raising=False)
    return there


def admit(
    holder: KeyHolder, key: str | None, method: str, path: str, scheme: str = "Bearer"
) -> Caller | None:
    headers = {} if key is None else {"Authorization": f"{scheme} {key}"}
    return holder.admit(Headers(headers), method, path)


async def loaded(user_config: Any) -> KeyHolder:
    holder = KeyHolder()
    await holder.load(user_config)
    return holder


@pytest.mark.parametrize("user_config", [None, {}, {"policy": "default"}])
async def test_without_keys_everybody_may_call(
    files: Any, user_config: dict[str, Any] | None
) -> None:
    holder = await loaded(user_config)
    assert admit(holder, None, *CHAT) is None
    assert admit(holder, WEB, "PUT", "/router/policy") is None
    assert holder.status() == {
        "state": "open",
        "source": None,
        "count": 0,
        "rejected": None,
    }


async def test_a_known_key_is_admitted(files: Any) -> None:
    holder = await loaded({"keys": "/keys"})
    assert admit(holder, WEB, *CHAT) == Caller("web", ("ngram",))
    assert admit(holder, OPS, *CHAT) == Caller("ops", admin=True)
    for scheme in ("bearer", "BEARER", "Bearer "):
        assert admit(holder, WEB, *CHAT, scheme=scheme) == Caller("web", ("ngram",))
    assert holder.status() == {
        "state": "keys",
        "source": "/keys",
        "count": 2,
        "rejected": None,
    }


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": f"Basic {WEB}"},
        {"authorization": WEB},
        {"authorization": f"Bearer {WEB}x"},
        {"authorization": f"Bearer {hash_key(WEB)}"},
        {"x-api-key": WEB},
        {"api-key": WEB},
    ],
)
async def test_no_key_or_a_wrong_one_is_401(
    files: Any, headers: dict[str, str]
) -> None:
    holder = await loaded({"keys": "/keys"})
    with pytest.raises(UnauthorizedError) as caught:
        holder.admit(Headers(headers), *CHAT)
    response = refusal(caught.value)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    error = json.loads(bytes(response.body))["error"]
    assert error["code"] == "invalid_api_key"
    assert error["type"] == "invalid_request_error"
    assert WEB not in error["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/health"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("OPTIONS", "/v1/chat/completions"),
        ("OPTIONS", "/router/policy"),
    ],
)
async def test_open_paths(files: Any, method: str, path: str) -> None:
    assert admit(await loaded({"keys": "/keys"}), None, method, path) is None
    assert admit(await loaded({"keys": "/bad"}), None, method, path) is None


@pytest.mark.parametrize(
    ("method", "path", "needs_admin"),
    [
        ("GET", "/router/status", False),
        ("HEAD", "/router/status", False),
        ("POST", "/router/explain", False),
        ("POST", "/v1/completions", False),
        ("GET", "/health/", False),
        ("PUT", "/router/explain", True),
        ("PUT", "/router/policy", True),
        ("POST", "/router/anything/else", True),
        ("DELETE", "/router/", True),
    ],
)
async def test_what_changes_the_router_needs_an_admin(
    files: Any, method: str, path: str, needs_admin: bool
) -> None:
    holder = await loaded({"keys": "/keys"})
    with pytest.raises(UnauthorizedError):
        admit(holder, None, method, path)
    assert admit(holder, OPS, method, path) == Caller("ops", admin=True)
    if needs_admin:
        with pytest.raises(AdminRequiredError, match="admin: true") as caught:
            admit(holder, WEB, method, path)
        assert refusal(caught.value).status_code == 403
    else:
        assert admit(holder, WEB, method, path) == Caller("web", ("ngram",))


BAD: list[tuple[Any, str]] = [
    ({"keys": "/bad"}, "1:8: keys[0].sha256: is required"),
    ({"keys": "/missing"}, "no such file on the head node"),
    ({"keys": "relative.yaml"}, "must be an absolute path"),
    ({"keys": None}, "must be an absolute path"),
    ({"keyz": "/keys"}, "did you mean `keys`?"),
    ([], "must be a mapping"),
]


@pytest.mark.parametrize(("bad", "told"), BAD)
async def test_bad_keys_leave_the_old_ones(files: Any, bad: Any, told: str) -> None:
    holder = await loaded({"keys": "/keys"})
    await holder.load(bad)
    assert admit(holder, WEB, *CHAT) == Caller("web", ("ngram",))
    status = holder.status()
    assert (status["state"], status["source"], status["count"]) == ("keys", "/keys", 2)
    assert told in status["rejected"]["error"]
    files["/new"] = KEYS.replace(hash_key(WEB), hash_key("other"))
    await holder.load({"keys": "/new"})
    assert holder.status()["rejected"] is None
    assert admit(holder, "other", *CHAT) == Caller("web", ("ngram",))
    with pytest.raises(UnauthorizedError):
        admit(holder, WEB, *CHAT)


@pytest.mark.parametrize(("bad", "told"), BAD)
async def test_a_fresh_replica_with_bad_keys_is_closed(
    files: Any, bad: Any, told: str
) -> None:
    holder = await loaded(bad)
    for key in (None, WEB, OPS):
        for method, path in (CHAT, ("GET", "/router/status")):
            with pytest.raises(UnavailableError, match="can't read its API keys") as no:
                admit(holder, key, method, path)
    assert refusal(no.value).status_code == 503
    assert (holder.status()["state"], holder.status()["count"]) == ("closed", 0)
    assert told in holder.status()["rejected"]["error"]
    await holder.load({"keys": "/keys"})
    assert admit(holder, WEB, *CHAT) == Caller("web", ("ngram",))


async def test_a_replica_is_closed_before_it_has_read_anything() -> None:
    with pytest.raises(OrchestratorError):
        admit(KeyHolder(), None, *CHAT)


async def test_keys_of_the_environment(
    files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS_ENV, KEYS)
    holder = await loaded({"policy": "default"})
    assert admit(holder, WEB, *CHAT) == Caller("web", ("ngram",))
    assert holder.status()["source"] == KEYS_ENV
    files["/one"] = KEYS.replace(hash_key(WEB), hash_key("other"))
    await holder.load({"keys": "/one"})
    assert admit(holder, "other", *CHAT) == Caller("web", ("ngram",))


@pytest.mark.parametrize("text", ["", WEB, "keys: []"])
async def test_a_bad_environment_closes(
    files: Any, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(KEYS_ENV, text)
    holder = await loaded({"policy": "default"})
    assert holder.status()["state"] == "closed"
    assert holder.status()["rejected"]["source"] == KEYS_ENV


async def test_no_key_reaches_the_log(
    files: Any, caplog: pytest.LogCaptureFixture
) -> None:
    key = "sk-orch-27OetlLp5aJpt5_n9q1lzta7frmbxOb4GAcBMDL80bc"
    files["/pasted"] = f"keys: {key}"
    files["/broken"] = RuntimeError(f"what was read: {key}")
    logging.getLogger("ray.serve").propagate = True
    with caplog.at_level(logging.INFO, logger="ray.serve"):
        for path in ("/keys", "/pasted", "/broken"):
            holder = await loaded({"keys": path})
            for token in (key, WEB):
                try:
                    admit(holder, token, *CHAT)
                except OrchestratorError as error:
                    caplog.handler.emit(_record(str(error)))
            caplog.handler.emit(_record(str(holder.status())))
    assert "rejected" in caplog.text
    assert "2 API keys of /keys are in force" in caplog.text
    assert key[8:20] not in caplog.text
    assert WEB not in caplog.text


def _record(text: str) -> logging.LogRecord:
    return logging.LogRecord("test", logging.INFO, "", 0, text, None, None)


async def test_the_head_nodes_file_is_read_or_told_of(tmp_path: Path) -> None:
    """The part of `read_on_head` that runs on the head node."""
    from orchestrator.serving.policies import _read

    file = tmp_path / "k.yaml"
    file.write_text(KEYS)
    assert _read(str(file)) == KEYS
    file.write_bytes(b"\xff\xfe")
    assert "no UTF-8 text" in str(_read(str(file)))
    assert "no such file on the head node" in str(_read(str(tmp_path / "none")))


async def test_a_bad_policy_does_not_close_a_fresh_replica() -> None:
    """It starts on all plain, open as its `user_config` says."""
    holder = await loaded({"policy": 5})
    assert admit(holder, None, *CHAT) is None
    assert holder.status()["state"] == "open"
