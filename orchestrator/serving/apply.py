"""Puts a policy in force on a running fleet, and waits until every replica has it."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from ray.dashboard.modules.serve.sdk import ServeSubmissionClient
from ray.exceptions import AuthenticationError

from orchestrator.config.base import suggest
from orchestrator.config.fleet import ROUTER_DEPLOYMENT, Fleet
from orchestrator.config.policy import Policy, policy_hash
from orchestrator.config.servefile import parse_args
from orchestrator.errors import FleetError

#: Seconds between two looks at the replicas.
LOOK_EVERY_S = 0.3
#: Seconds that the router has to answer one look.
ANSWER_S = 15.0

#: Serve's states of a replica that takes requests, or soon will again: while it takes a
#: new policy it is `UPDATING`, and Serve sends it no new ones.
UP = ("RUNNING", "UPDATING")

#: Called with the router's replicas that have the policy, and all that run.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a policy: all `replicas` of the router have it in force."""

    application: str
    #: False where it was the deployed one already, and nothing was sent.
    changed: bool
    replicas: list[str]
    seconds: float


class RouterStatus:
    """Reads `/router/status`.

    Args:
        url: where the router answers, without `/v1`.
        key: an API key, where the router asks for one.
    """

    def __init__(self, url: str, key: str | None) -> None:
        self._url = f"{url.rstrip('/')}/router/status"
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    def replicas(self) -> dict[str, dict[str, Any]]:
        """The policy of every replica that reports, by the replica's name.

        Raises FleetError where the router does not answer so.
        """
        try:
            answer = httpx.get(self._url, headers=self._headers, timeout=ANSWER_S)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise FleetError(
                f"The router can't be reached at {self._url}: {error} (--url says "
                "where it answers)"
            ) from error
        if answer.status_code in (401, 403):
            raise FleetError(
                f"The router refuses {self._url}: give an API key with --key or "
                "ORCH_API_KEY"
            )
        try:
            reports = answer.raise_for_status().json()["replicas"]
            return {report["replica"]: report["policy"] for report in reports}
        except (httpx.HTTPStatusError, ValueError, LookupError, TypeError) as error:
            raise FleetError(
                f"{self._url} is no answer of this router (HTTP status "
                f"{answer.status_code}): is --url right?"
            ) from error


class DeployedRouter:
    """The router of an application that runs on a Ray cluster.

    Args:
        address: of Ray's dashboard, such as `http://127.0.0.1:8265`.
        application: its name; by default the one application that has a fleet.

    Raises:
        FleetError: the cluster can't be reached or has no such application.
        ConfigError: the application's arguments are not of this version.
    """

    def __init__(self, address: str, application: str | None = None) -> None:
        self._address = address
        with _reaching(address):
            self._client = ServeSubmissionClient(address)
        details = self._details()
        self.application = find_application(details, application)
        config = details["applications"][self.application]["deployed_app_config"]
        self.fleet: Fleet = parse_args(config["args"], "the deployed `args`").fleet

    def _details(self) -> dict[str, Any]:
        with _reaching(self._address):
            details: dict[str, Any] = self._client.get_serve_details()
        return details

    def _running(self) -> list[str]:
        """The names of the router's replicas that take requests, or soon will again."""
        application = self._details()["applications"].get(self.application, {})
        router = application.get("deployments", {}).get(ROUTER_DEPLOYMENT, {})
        return [
            replica["replica_id"]
            for replica in router.get("replicas", ())
            if replica["state"] in UP
        ]

    def apply(
        self,
        content: Mapping[str, Any],
        policy: Policy,
        status: RouterStatus,
        timeout_s: float,
        progress: Progress,
    ) -> Applied:
        """Make `policy`, written as `content`, the deployed one; wait for the replicas.

        Raises:
            FleetError: Serve or a replica refuses it, or not every replica has it after
                `timeout_s` seconds. What was refused stays in the deployed config.
        """
        begun = time.monotonic()
        before = status.replicas()
        if not before.keys() & set(self._running()):
            raise FleetError(
                f"The router at --url is not the one of application {self.application}"
                f" at {self._address}"
            )
        details = self._details()
        config = with_policy(details, self.application, content)
        changed = config != with_policy(details, self.application, None)
        if changed:
            with _reaching(self._address):
                self._client.deploy_applications(config)
        wanted = (policy_hash(policy), policy.version)
        while True:
            running = self._running()
            seen: dict[str, dict[str, Any]] = {}
            # A replica that ends may take the answer with it.
            with contextlib.suppress(FleetError):
                seen = status.replicas()
            have = {n for n, p in seen.items() if (p["hash"], p["version"]) == wanted}
            lagging = [name for name in running if name not in have]
            progress(len(running) - len(lagging), len(running))
            if running and not lagging:
                seconds = time.monotonic() - begun
                return Applied(self.application, changed, running, seconds)
            for name in lagging:
                rejected = seen.get(name, {}).get("rejected")
                if rejected and rejected != before.get(name, {}).get("rejected"):
                    raise FleetError(
                        f"The router's replica {name} refuses the policy; the one "
                        f"before stays in force there: {rejected['error']}"
                    )
            if time.monotonic() - begun > timeout_s:
                raise FleetError(_late(lagging, seen, timeout_s))
            time.sleep(LOOK_EVERY_S)


def _late(
    lagging: list[str], seen: Mapping[str, Mapping[str, Any]], timeout_s: float
) -> str:
    """Which replicas do not have the policy, and what they have instead."""
    lines = [
        f"  {name}: has {seen[name]['name']} ({seen[name]['hash']})"
        if name in seen
        else f"  {name}: did not answer"
        for name in lagging
    ] or ["  no replica of the router is running"]
    return (
        f"After {timeout_s:g} s not every replica of the router has the policy; Serve "
        "has it and will hand it to them:\n" + "\n".join(lines)
    )


@contextlib.contextmanager
def _reaching(address: str) -> Iterator[None]:
    """Tell what went wrong with Ray's dashboard as one FleetError."""
    try:
        yield
    except AuthenticationError as error:
        raise FleetError(
            f"Ray's dashboard at {address} asks for the cluster's token: set "
            "RAY_AUTH_MODE=token, and have the token in ~/.ray/auth_token or "
            "RAY_AUTH_TOKEN (`ray get-auth-token` shows it on the cluster)"
        ) from error
    # The client's errors: of the connection, of an address, of an answer.
    except (OSError, ValueError, RuntimeError, LookupError) as error:
        raise FleetError(
            f"Ray's dashboard at {address} (--address): {error}"
        ) from error


def find_application(details: Mapping[str, Any], wanted: str | None) -> str:
    """The name of the application with a fleet, in what Serve tells of all of them.

    Raises FleetError where there is none or no way to tell which.
    """
    applications = details["applications"]
    if wanted is not None and wanted not in applications:
        raise FleetError(
            f"No application `{wanted}` is deployed ({suggest(wanted, applications)})"
        )
    ours: list[str] = [
        name
        for name, application in applications.items()
        if name == (wanted or name) and _is_ours(application)
    ]
    if not ours:
        among = wanted or ", ".join(applications) or "none are deployed"
        raise FleetError(f"No application has a router of a fleet ({among})")
    if len(ours) > 1:
        raise FleetError(
            f"Several applications have a router: name one of {', '.join(ours)} with "
            "--app"
        )
    if not applications[ours[0]].get("deployed_app_config"):
        raise FleetError(
            f"Application {ours[0]} was not deployed from a Serve config file, so Serve"
            " has no config to change: deploy one with `serve deploy`"
        )
    return ours[0]


def _is_ours(application: Mapping[str, Any]) -> bool:
    """Whether it has our router; one without config may, and is told of later."""
    config = application.get("deployed_app_config")
    return (
        application["status"] != "DELETING"
        and ROUTER_DEPLOYMENT in application["deployments"]
        and (not config or "fleet" in (config.get("args") or {}))
    )


def with_policy(
    details: Mapping[str, Any], application: str, policy: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The whole deployed config, with `policy` in the router's `user_config`.

    Serve takes nothing less: an application that the config leaves out is deleted,
    unless it was deployed from Python. With None all stays as it is.

    Raises:
        FleetError: Serve tells no config of an application that would be deleted.
    """
    config: dict[str, Any] = {
        key: details[key]
        for key in ("proxy_location", "http_options", "grpc_options", "target_capacity")
        if details.get(key) is not None
    }
    applications = config["applications"] = []
    for name, deployed in details["applications"].items():
        if deployed["source"] == "imperative" or deployed["status"] == "DELETING":
            continue
        if not deployed.get("deployed_app_config"):
            raise FleetError(
                f"Serve does not tell the config of application {name}, and would "
                "delete it: try again in a moment"
            )
        applications.append(copy.deepcopy(deployed["deployed_app_config"]))
        if name == application and policy is not None:
            router = _router_of(applications[-1])
            user_config = router.get("user_config") or {}
            router["user_config"] = {**user_config, "policy": copy.deepcopy(policy)}
    return config


def _router_of(application: dict[str, Any]) -> dict[str, Any]:
    """The entry of the router's deployment, made where the file has none."""
    deployments: list[dict[str, Any]] = application.setdefault("deployments", [])
    for deployment in deployments:
        if deployment["name"] == ROUTER_DEPLOYMENT:
            return deployment
    deployments.append({"name": ROUTER_DEPLOYMENT})
    return deployments[-1]
