"""What `bench overhead` runs on: engines without a model, and two ingresses."""

from __future__ import annotations

from typing import Any

from ray.dashboard.modules.serve.sdk import ServeSubmissionClient

from orchestrator.bench.load import Target
from orchestrator.config.fleet import DEFAULT_APPLICATION, ROUTER_DEPLOYMENT
from orchestrator.serving.launcher import RunningFleet

_STOCK = "stock"
_FLEET = {
    "model": {"id": "overhead", "source": "overhead"},
    "accelerator": "cpu",
    "cpu": {"cores": 0.1},
    "env": {"RAYLLM_VLLM_ENGINE_CLS": "orchestrator.serving.paced.PacedEngine"},
    "pools": {
        # Both ingresses call this one.
        "plain": {"speculation": {"method": "none"}, "replicas": 1},
        # The router has a choice to make.
        "ngram": {
            "speculation": {"method": "ngram", "num_speculative_tokens": 5},
            "replicas": 1,
        },
    },
}


def cluster(port: int, data: str) -> dict[str, Any]:
    """A Serve config: our application, and Ray's ingress under `/stock`.

    `data` is the folder for the outcomes.
    """
    return {
        "http_options": {"host": "127.0.0.1", "port": port},
        "applications": [
            {
                "name": DEFAULT_APPLICATION,
                "route_prefix": "/",
                "import_path": "orchestrator.serving.app:build_app",
                "runtime_env": {"env_vars": {"ORCH_DATA_DIR": data}},
                "args": {"fleet": _FLEET},
            },
            {
                "name": _STOCK,
                "route_prefix": f"/{_STOCK}",
                "import_path": "orchestrator.serving.stock:build_stock",
                "args": {"fleet": _FLEET},
            },
        ],
    }


def ingresses(running: RunningFleet) -> tuple[Target, Target]:
    """Ours and Ray's, of a fleet started from `cluster`."""
    client = ServeSubmissionClient(running.dashboard)
    applications = client.get_serve_details()["applications"]

    def target(application: str, deployment: str, prefix: str) -> Target:
        (replica,) = applications[application]["deployments"][deployment]["replicas"]
        return Target(f"{running.url}{prefix}/v1/chat/completions", int(replica["pid"]))

    return (
        target(DEFAULT_APPLICATION, ROUTER_DEPLOYMENT, ""),
        target(_STOCK, _STOCK, f"/{_STOCK}"),
    )
