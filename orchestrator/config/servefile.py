"""Reading the fleet, and the policy's reference, out of a Ray Serve config file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.config.base import Mistake, StrictModel
from orchestrator.config.document import Document
from orchestrator.config.fleet import DEFAULT_APPLICATION, ROUTER_DEPLOYMENT, Fleet

#: The name of a shipped policy or a path, or the policy itself.
PolicyRef = str | Document


class AppArgs(StrictModel):
    """The application's `args`. Serve restarts every engine when they change."""

    fleet: Fleet

    @classmethod
    def unknown_field(cls, name: str) -> tuple[str, str]:
        """A policy here would restart the engines with every edit."""
        if name == "policy":
            return (
                "the policy must not stand in `args`: a change here restarts every"
                " engine",
                f"put it in the `user_config` of deployment `{ROUTER_DEPLOYMENT}`",
            )
        return super().unknown_field(name)


@dataclass(frozen=True, slots=True)
class FleetFile:
    """What a Serve config file says of one of our applications."""

    path: Path
    application: str
    fleet: Fleet
    #: None where the router deployment has no policy.
    policy: PolicyRef | None


def parse_args(args: Mapping[str, Any], source: str = "args") -> AppArgs:
    """The application's arguments as Serve hands them over; raises ConfigError."""
    return Document(dict(args), source).parse(AppArgs)


def load_fleet(path: Path | str, application: str | None = None) -> FleetFile:
    """Read a Serve config file; raises ConfigError with the file's lines.

    `application` names one of several; by default it is the first with a fleet.
    """
    path = Path(path)
    document = Document.of_file(path)
    index = _application(document, application)
    app = document.at("applications", index)
    name = app.data.get("name", DEFAULT_APPLICATION)
    fleet = app.at("args").parse(AppArgs).fleet
    return FleetFile(path, str(name), fleet, _router_policy(app))


def policy_ref(user_config: Document) -> PolicyRef | None:
    """The policy that the router deployment's `user_config` names or holds."""
    data = user_config.data
    if data is None:
        return None
    if not isinstance(data, dict):
        raise user_config.error(Mistake("must be a mapping with `policy`"))
    unknown = [
        Mistake(f"unknown field `{key}`", (key,), "allowed: policy", name=True)
        for key in data
        if key != "policy"
    ]
    if unknown:
        raise user_config.error(*unknown)
    policy = data.get("policy")
    if policy is None or isinstance(policy, str):
        return policy
    if isinstance(policy, dict):
        return user_config.at("policy")
    hint = "a shipped name, a path, or the policy itself"
    raise user_config.error(Mistake("is no policy", ("policy",), hint))


def _application(document: Document, wanted: str | None) -> int:
    data = document.data
    applications = data.get("applications") if isinstance(data, dict) else None
    if not isinstance(applications, list) or not applications:
        hint = "a file for `serve deploy` has a list `applications`"
        raise document.error(Mistake("no application", hint=hint))
    for i, app in enumerate(applications):
        if not isinstance(app, dict):
            continue
        if wanted is not None:
            if app.get("name", DEFAULT_APPLICATION) == wanted and "args" in app:
                return i
        elif isinstance(app.get("args"), dict) and "fleet" in app["args"]:
            return i
    if wanted is not None:
        text = f"no application `{wanted}` with `args`"
        raise document.error(Mistake(text, ("applications",)))
    text, hint = "no application has a fleet", "it stands in `args: {fleet: ...}`"
    raise document.error(Mistake(text, ("applications",), hint))


def _router_policy(app: Document) -> PolicyRef | None:
    deployments = app.data.get("deployments") or []
    if not isinstance(deployments, list):
        raise app.error(Mistake("must be a list", ("deployments",)))
    for i, deployment in enumerate(deployments):
        if isinstance(deployment, dict) and deployment.get("name") == ROUTER_DEPLOYMENT:
            if "user_config" not in deployment:
                return None
            return policy_ref(app.at("deployments", i, "user_config"))
    return None
