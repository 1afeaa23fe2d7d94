"""The composition root: from a fleet to the Ray Serve application."""

from __future__ import annotations

from typing import Any

from fastapi.middleware.cors import CORSMiddleware
from ray import serve
from ray.serve.deployment import Application
from ray.serve.llm.ingress import make_fastapi_ingress

from orchestrator.config.fleet import ROUTER_DEPLOYMENT, Fleet
from orchestrator.config.servefile import parse_args
from orchestrator.serving import hooks
from orchestrator.serving.gate import Gate
from orchestrator.serving.ingress import ENDPOINTS, RouterIngress
from orchestrator.serving.model import check_model_folder, model_source
from orchestrator.serving.pools import build_pool
from orchestrator.serving.replies import HANDLED, handle


def build_app(args: dict[str, Any]) -> Application:
    """What a Serve config file's `import_path` names.

    Args:
        args: the application's `args`: `{fleet: ...}`. The policy does not stand here:
            Serve hashes `args` into the version of every deployment, so a changed
            policy would restart every engine. It is the router's `user_config`.

    Raises:
        ConfigError: the fleet has mistakes; all are listed.
    """
    fleet: Fleet = parse_args(args).fleet
    check_model_folder(fleet, "args")
    source = model_source(fleet.model.source)
    built = {name: build_pool(fleet, name, source) for name in fleet.pools}
    config, _ = next(iter(built.values()))
    app = hooks.make_app()
    app.add_middleware(Gate, max_body_bytes=fleet.router.max_body_mib * 2**20)
    # After it, so around it: a browser must be able to read the gate's refusals.
    app.add_middleware(
        CORSMiddleware,
        allow_origins=["*"],
        allow_credentials=True,
        allow_methods=["*"],
        allow_headers=["*"],
    )
    for error in HANDLED:
        app.add_exception_handler(error, handle)
    ingress = make_fastapi_ingress(RouterIngress, endpoint_map=ENDPOINTS, app=app)
    return serve.deployment(
        ingress,
        name=ROUTER_DEPLOYMENT,
        # In force where the cluster file gives the router no policy.
        user_config={"policy": "default"},
        ray_actor_options={"num_cpus": 0},
        # Serve's default is 10: a replica that has ended is replaced sooner.
        health_check_period_s=2,
        **fleet.router.serve_options(),
    ).bind(
        fleet=fleet.model_dump(mode="json", exclude_unset=True, by_alias=True),
        pools={name: application for name, (_, application) in built.items()},
        card=hooks.to_model_metadata(fleet.model.id, config),
    )
