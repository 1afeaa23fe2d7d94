"""Ray's own ingress in front of a pool of another application, to compare with ours."""

from __future__ import annotations

from typing import Any

from ray import serve
from ray.serve.deployment import Application
from ray.serve.handle import DeploymentHandle
from ray.serve.llm.ingress import OpenAiIngress, make_fastapi_ingress

from orchestrator.config.fleet import DEFAULT_APPLICATION
from orchestrator.config.servefile import parse_args
from orchestrator.serving import hooks
from orchestrator.serving.pools import llm_config


def build_stock(args: dict[str, Any]) -> Application:
    """What a Serve config file's `import_path` names, beside the fleet's application.

    It gets as many replicas, each for as many requests at once, as our ingress.

    Args:
        args: `{fleet: ...}`, the same as the application `default` has. Its first
            pool is the one that is called.

    Raises:
        ConfigError: the fleet has mistakes; all are listed.
    """
    fleet = parse_args(args).fleet
    model, pool = fleet.model.id, next(iter(fleet.pools))
    card = hooks.to_model_metadata(model, llm_config(fleet, pool, fleet.model.source))
    return serve.deployment(
        make_fastapi_ingress(OpenAiIngress),
        name="stock",
        ray_actor_options={"num_cpus": 0},
        **fleet.router.serve_options(),
    ).bind(
        # Not `serve.get_deployment_handle`: the pool need not be there yet.
        llm_deployments={
            model: DeploymentHandle(f"{pool}:{model}", DEFAULT_APPLICATION)
        },
        model_cards={model: card},
    )
