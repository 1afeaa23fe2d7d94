"""Starts a fleet on this machine, tells how far it is, and stops what it started."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import ray
import yaml
from ray import serve
from ray.dashboard.modules.serve.sdk import ServeSubmissionClient
from ray.exceptions import RayActorError
from ray.serve.exceptions import RayServeException

from orchestrator.config.document import read_text
from orchestrator.config.fleet import ROUTER_DEPLOYMENT
from orchestrator.config.keys import KEYS_ENV, parse_keys
from orchestrator.config.policy import load_policy
from orchestrator.config.servefile import PolicyRef, load_fleet
from orchestrator.errors import FleetError
from orchestrator.serving.memory import check_memory
from orchestrator.serving.model import check_model_folder

#: The longest that a fleet may take to start, in seconds.
START_TIMEOUT_S = 900.0
#: The longest that the router may then take to see all pools, and to say so.
SEEN_TIMEOUT_S = 60.0
ANSWER_S = 30.0

Progress = Callable[[dict[str, str]], None]


@dataclass(frozen=True, slots=True)
class RunningFleet:
    """A fleet that answers.

    `url` is the OpenAI base without `/v1`; `dashboard` is the address of Ray's.
    """

    url: str
    dashboard: str


@contextlib.contextmanager
def running_fleet(path: Path, progress: Progress) -> Iterator[RunningFleet]:
    """Start the fleet of a Serve config file in a Ray of its own; stop it at the end.

    Args:
        path: a file as `serve deploy` takes it.
        progress: called with the state of every deployment whenever one changes.

    Raises:
        ConfigError: the file has mistakes.
        FleetError: a port is taken, memory is short, or a replica fails to start; the
            message has the cause from the replica's log.
    """
    file = load_fleet(path)
    fleet = file.fleet
    if file.router.policy is not None:
        _check_policy(file.router.policy)
    _check_keys(file.router.keys)
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    http = config.get("http_options") or {}
    host, port = http.get("host", "127.0.0.1"), int(http.get("port", 8000))
    check_model_folder(fleet, str(path))
    _check_port(port)
    if fleet.accelerator == "cpu":
        check_memory(fleet)
    # In this order: Ray, too, installs a handler for SIGTERM.
    with _own_ray() as dashboard, _interruptible():
        # What `serve deploy` uses; it brings the token that Ray's dashboard asks for.
        client = ServeSubmissionClient(dashboard)
        _deploy(client, config)
        _wait(client, progress)
        reach = "127.0.0.1" if host in ("0.0.0.0", "::") else host
        url = f"http://{reach}:{port}"
        try:
            _wait_for_router(file.application, url)
            yield RunningFleet(url=url, dashboard=dashboard)
        finally:
            # Lets requests in flight end. A fleet that never came up has none, and
            # Serve would wait for its replicas.
            with contextlib.suppress(Exception):
                serve.shutdown()


@contextlib.contextmanager
def _own_ray() -> Iterator[str]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # The driver owns nothing but the fleet: its own output stays clean.
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    context = ray.init(
        address="local",
        include_dashboard=True,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=200 * 1024**2,
    )
    try:
        yield f"http://{context.dashboard_url}"
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM end the fleet as Ctrl-C does, and Ctrl-C where a shell ignores it."""
    ends = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(end, signal.default_int_handler) for end in ends]
    try:
        yield
    finally:
        for end, handler in zip(ends, before, strict=True):
            signal.signal(end, handler)


def _check_policy(reference: PolicyRef) -> None:
    """Tell of a bad policy now: the router would start without it, all plain."""
    try:
        load_policy(reference)
    except FileNotFoundError as error:
        raise FleetError(f"The router's policy can't be read: {error}") from error


def _check_keys(path: str | None) -> None:
    """Tell of bad API keys now: the router would start, and refuse every request."""
    # This machine becomes the head node, so its files and its environment count.
    if path is not None:
        parse_keys(read_text(Path(path)), path)
    elif KEYS_ENV in os.environ:
        parse_keys(os.environ[KEYS_ENV], KEYS_ENV)


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise FleetError(
                f"Port {port} is in use. Stop what listens there, or write another "
                "port under http_options in the cluster file."
            ) from error


def _deploy(client: ServeSubmissionClient, config: dict[str, Any]) -> None:
    try:
        client.deploy_applications(config)
    except RuntimeError as error:
        raise FleetError(f"Ray Serve refused the cluster file: {error}") from error


def _wait(client: ServeSubmissionClient, progress: Progress) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    shown: dict[str, str] = {}
    while time.monotonic() < deadline:
        applications = client.get_serve_details()["applications"].values()
        states = {
            name: deployment["status"]
            for application in applications
            for name, deployment in application["deployments"].items()
        }
        if states != shown:
            shown = states
            progress(states)
        for application in applications:
            failed = [
                d["message"]
                for d in application["deployments"].values()
                if "failed to start" in d["message"]
            ]
            if application["status"] == "DEPLOY_FAILED" or failed:
                raise FleetError(_explain_failure(application["message"], failed))
        if applications and all(a["status"] == "RUNNING" for a in applications):
            return
        time.sleep(0.5)
    raise FleetError(f"The fleet was not ready after {START_TIMEOUT_S:.0f} s.")


def _wait_for_router(application: str, url: str) -> None:
    """Wait until every router replica has seen all pools, a moment after Serve has.

    Each looks for itself, so each is asked; and by Serve, since HTTP may want a key.
    """
    router = serve.get_deployment_handle(ROUTER_DEPLOYMENT, application)
    deadline = time.monotonic() + SEEN_TIMEOUT_S
    while time.monotonic() < deadline:
        reports: list[dict[str, Any]] = []
        # A replica that has just ended, or is late, will be asked again.
        with contextlib.suppress(TimeoutError, RayActorError, RayServeException):
            reports = router.broadcast("report").results(timeout_s=ANSWER_S)
        if any(report["policy"]["rejected"] for report in reports):
            raise FleetError(
                f"The router refused its policy; {url}/router/status says why"
            )
        if reports and all(all(report["pools"].values()) for report in reports):
            # This is the way that all requests will come.
            with contextlib.suppress(httpx.HTTPError):
                httpx.get(f"{url}/health", timeout=ANSWER_S).raise_for_status()
                return
        time.sleep(0.5)
    raise FleetError(
        f"The router does not answer at {url}/health, or does not see all of its pools;"
        f" see {url}/router/status"
    )


def _explain_failure(message: str, failed: list[str]) -> str:
    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    texts = [
        file.read_text(encoding="utf-8", errors="replace")
        for pattern in ("worker-*", "serve/replica_*")
        for file in sorted(logs.glob(pattern), key=lambda f: f.stat().st_mtime)
    ]
    # What Serve says has the replica's own exception; one from an engine's process,
    # which the replica only sees die, is in the logs.
    cause = find_cause([message, *failed, *texts])
    return f"The fleet failed to start: {cause}\nThe logs lie in {logs}"


#: An exception at the end of a traceback, behind whatever a log puts before a line.
_CAUSE = re.compile(
    r"(?:^|[\])] )\s*(?:\w+\.)*([A-Z]\w*(?:Error|Exception))(?:: (.+))?$"
)
#: Exceptions that only say that another process failed.
_WRAPPERS = ("Engine core initialization failed", "The actor died", "Traceback (")


def find_cause(texts: list[str]) -> str:
    """The first exception in the texts that is not merely about another one.

    >>> find_cause(["RuntimeError: Engine core initialization failed. See above",
    ...             "(EngineCore pid=3) ERROR [core.py:9] ValueError: too long"])
    'ValueError: too long'
    """
    for text in texts:
        before = ""
        for line in text.splitlines():
            if match := _CAUSE.search(line):
                # A bare AssertionError says nothing; the line before it does.
                rest = match[2] or before.rpartition("  ")[2]
                if not any(wrapper in rest for wrapper in _WRAPPERS):
                    return f"{match[1]}: {rest.strip()}"
            before = line
    return (texts[0].strip().splitlines() or ["no message; see the logs"])[-1]
