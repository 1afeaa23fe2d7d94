"""Reading the fleet, and the router's own settings, out of a Ray Serve config file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.config.base import Mistake, StrictModel, suggest
from orchestrator.config.document import Document
from orchestrator.config.fleet import DEFAULT_APPLICATION, ROUTER_DEPLOYMENT, Fleet

#: The name of a shipped policy or a path, or the policy itself.
PolicyRef = str | Document


class AppArgs(StrictModel):
    """The application's `args`. Serve restarts every engine when they change."""

    fleet: Fleet

    @classmethod
    def unknown_field(cls, name: str) -> tuple[str, str]:
        """The router's own settings here would restart the engines with every edit."""
        if name in ("policy", "keys"):
            return (
                f"`{name}` must not stand in `args`: a change here restarts every"
                " engine",
                f"put it in the `user_config` of deployment `{ROUTER_DEPLOYMENT}`",
            )
        return super().unknown_field(name)


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """The router deployment's `user_config`: a change of it restarts nothing."""

    #: None where it has no policy.
    policy: PolicyRef | None = None
    #: Absolute path of the file with the API keys; None where it names none.
    keys: str | None = None


@dataclass(frozen=True, slots=True)
class FleetFile:
    """What a Serve config file says of one of our applications."""

    path: Path
    application: str
    fleet: Fleet
    router: RouterConfig


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
    return FleetFile(path, str(name), fleet, _router(app))


def router_config(user_config: Document) -> RouterConfig:
    """What the router's `user_config` says; raises ConfigError with every mistake."""
    data = user_config.data
    if data is None:
        return RouterConfig()
    if not isinstance(data, dict):
        raise user_config.error(Mistake("must be a mapping with `policy`"))
    mistakes = list(_mistakes(data))
    if mistakes:
        raise user_config.error(*mistakes)
    policy = data.get("policy")
    if isinstance(policy, dict):
        policy = user_config.at("policy")
    return RouterConfig(policy, data.get("keys"))


def keys_file(user_config: Document) -> str | None:
    """The keys file that the router's `user_config` names, whatever its policy is.

    Raises ConfigError where `keys` is wrong, or another field may be it, misspelt.
    """
    data = user_config.data
    if data is None:
        return None
    if not isinstance(data, dict):
        raise user_config.error(Mistake("must be a mapping with `policy`"))
    mistakes = [m for m in _mistakes(data) if m.at[0] != "policy"]
    if mistakes:
        raise user_config.error(*mistakes)
    keys: str | None = data.get("keys")
    return keys


def _mistakes(data: Mapping[str, Any]) -> Iterator[Mistake]:
    fields = ("policy", "keys")
    for key in data:
        if key not in fields:
            text, hint = f"unknown field `{key}`", suggest(key, fields)
            yield Mistake(text, (key,), hint, name=True)
    if not isinstance(data.get("policy"), str | dict | None):
        hint = "a shipped name, a path, or the policy itself"
        yield Mistake("is no policy", ("policy",), hint)
    keys = data.get("keys", "/")
    # Left empty it is a mistake: it must not open a fleet that was meant to be closed.
    if not isinstance(keys, str) or not Path(keys).is_absolute():
        hint = "of a file on the head node; without keys leave the field out"
        yield Mistake("must be an absolute path", ("keys",), hint)


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


def _router(app: Document) -> RouterConfig:
    deployments = app.data.get("deployments") or []
    if not isinstance(deployments, list):
        raise app.error(Mistake("must be a list", ("deployments",)))
    for i, deployment in enumerate(deployments):
        if isinstance(deployment, dict) and deployment.get("name") == ROUTER_DEPLOYMENT:
            if "user_config" in deployment:
                return router_config(app.at("deployments", i, "user_config"))
            break
    return RouterConfig()
