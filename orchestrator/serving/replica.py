"""A replica of the router: what it holds, and the endpoints that tell of it.

`ingress.RouterIngress` adds the OpenAI endpoints and the request's way.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from ray import serve
from ray.serve.handle import DeploymentHandle

from orchestrator.classify.classifier import classify
from orchestrator.classify.features import extract
from orchestrator.config.fleet import Fleet
from orchestrator.errors import OrchestratorError, RequestError
from orchestrator.records import Caller, PoolRights
from orchestrator.routing.examples import endpoint_of
from orchestrator.routing.quarantine import Quarantine
from orchestrator.serving import hooks
from orchestrator.serving.auth import KeyHolder
from orchestrator.serving.control import PolicyHolder, PoolWatch, ask_all
from orchestrator.serving.metrics import OutcomeMetrics
from orchestrator.serving.replies import refusal
from orchestrator.serving.tally import Tally
from orchestrator.store.recorder import OutcomeRecorder, outcomes_dir

#: The longest that a new replica waits for the pools before it takes requests, in
#: seconds: a pool that is down must not keep the router down.
START_S = 5.0


class RouterReplica(hooks.PoolCallIngress):
    """What the router knows and counts in one of its processes.

    Args:
        fleet: the fleet as plain data, as it stands in the Serve config file.
        pools: the handle of each pool's deployment.
        card: the public model's card.
    """

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self,
        fleet: dict[str, Any],
        pools: dict[str, DeploymentHandle],
        card: hooks.ModelCard,
    ) -> None:
        self._fleet = Fleet.model_validate(fleet)
        model = self._fleet.model.id
        # Every handle is made once: each `.options()` is a new handle. The first also
        # connects the pool's own handle to the controller, which then tells it of
        # replicas; nothing has to be sent before.
        self._pools = {name: h.options(stream=True) for name, h in pools.items()}
        super().__init__(
            llm_deployments={model: next(iter(self._pools.values()))},
            model_cards={model: card},
        )
        self._watch = PoolWatch(self._fleet, pools)
        self._policy = PolicyHolder(self._watch)
        self._quarantine = Quarantine()
        self.keys = KeyHolder()
        context = serve.get_replica_context()
        self._replica = context.replica_tag
        self._recorder = OutcomeRecorder(outcomes_dir() / f"{self._replica}.jsonl")
        self._metrics = OutcomeMetrics()
        self._tally = Tally()
        # The first request must not pay for what is made at first use.
        classify(extract({"messages": [{"role": "user", "content": "Hello"}]}))
        self._watching = asyncio.create_task(self._watch.run())
        # Serve sends requests once this returns. They must not all go to `plain`, or be
        # refused, while the pools that run have not been seen.
        await self._watch.wait_healthy(START_S)

    def __del__(self) -> None:
        """Serve calls this before a replica ends: what is queued is written."""
        if hasattr(self, "_recorder"):
            self._recorder.close()

    async def reconfigure(self, user_config: dict[str, Any] | None, rank: Any) -> None:
        """Take keys and policy from the deployment's `user_config`; never raises.

        `rank` is not used, but Serve leaves this call out without it where a file has
        `user_config: null`: running replicas would keep the policy they have, and new
        ones start on another.

        A bad policy leaves the old one in force and shows in `/router/status`: an
        exception here would make Serve stop the replica, and the next one too.
        """
        await self.keys.load(user_config)
        await self._policy.load(user_config)

    async def explain(self, request: Request) -> Response:
        """Say where a request would go and why; runs nothing on any engine."""
        try:
            try:
                body = json.loads(await request.body())
            except (ValueError, RecursionError):
                raise RequestError("The body is not JSON.") from None
            if not isinstance(body, dict):
                raise RequestError("The body must be a JSON object: a request body.")
            tenant, may_force = caller_of(request)
            features = extract(
                body, request.headers, endpoint=endpoint_of(body), tenant=tenant
            )
            request_class = classify(features, request.headers.get("x-spec-class"))
            explanation = self._policy.router.explain(
                features,
                request_class,
                healthy=self._watch.healthy,
                forced=request.headers.get("x-spec-pool"),
                may_force=may_force,
            )
        except OrchestratorError as error:
            return refusal(error)
        # ASCII: a lone surrogate in the request is no text that UTF-8 could carry.
        text = json.dumps(dataclasses.asdict(explanation))
        return Response(text, media_type="application/json")

    async def report(self) -> dict[str, Any]:
        """What this replica has and has counted; every replica is asked for it."""
        return {
            "replica": self._replica,
            "policy": self._policy.status(),
            "keys": self.keys.status(),
            "pools": self._watch.health(),
            "counts": {
                **self._tally.status(),
                "outcomes_dropped": self._recorder.dropped,
            },
        }

    async def status(self) -> Response:
        """The pools, and what this replica and all of them report."""
        own = await self.report()
        scope = f"ingress replica {self._replica} since it started"
        return JSONResponse(
            {
                "model": self._fleet.model.id,
                "policy": own["policy"],
                "pools": await self._watch.status(),
                "counts": {"scope": scope, **own["counts"]},
                **await ask_all(own),
            }
        )

    async def health(self) -> Response:
        """Whether this replica has a pool to send requests to; asks nobody."""
        pools = self._watch.health()
        healthy = any(pools.values())
        policy = self._policy.status()
        body = {
            "status": "ok" if healthy else "no healthy pool",
            "replica": self._replica,
            "policy": {key: policy[key] for key in ("name", "version", "hash")},
            "rejected": policy["rejected"] is not None,
            "keys": self.keys.status()["state"],
            "pools": pools,
        }
        return JSONResponse(body, 200 if healthy else 503)


def caller_of(request: Request) -> tuple[str | None, PoolRights]:
    """Name and rights of who sends a request; none where no keys are in force."""
    caller: Caller | None = getattr(request.state, "caller", None)
    return (caller.name, caller.pools) if caller else (None, ())


#: `explain` reads its body itself: one that no pool would take is explained too.
_ANY_REQUEST = {
    "requestBody": {
        "description": "What /v1/chat/completions or /v1/completions would be sent.",
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}
#: Route of each method, beside the OpenAI endpoints.
OWN_ENDPOINTS = {
    "explain": lambda app: app.post("/router/explain", openapi_extra=_ANY_REQUEST),
    "status": lambda app: app.get("/router/status"),
    "health": lambda app: app.get("/health"),
}
