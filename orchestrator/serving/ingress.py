"""The router's ingress: classify, decide, call the pool, watch, record.

A request's way: `chat`/`completions` make its `Ticket` (features, class, decision);
Ray's own handler then calls `respond`, which calls the pool; the `Meter` watches what
passes; exactly one `Outcome` is recorded when it ends, fails, or is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import time
import uuid
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse, Response
from ray import serve
from ray.serve.exceptions import BackPressureError
from ray.serve.handle import DeploymentHandle

from orchestrator.classify.classifier import classify
from orchestrator.classify.features import extract
from orchestrator.config.fleet import Fleet
from orchestrator.errors import OrchestratorError, RequestError
from orchestrator.records import Endpoint
from orchestrator.routing.examples import endpoint_of
from orchestrator.serving import hooks
from orchestrator.serving.control import PolicyHolder, PoolWatch
from orchestrator.serving.metrics import OutcomeMetrics
from orchestrator.serving.stream import Meter, Ticket
from orchestrator.serving.tally import Tally
from orchestrator.store.recorder import OutcomeRecorder, outcomes_dir

logger = logging.getLogger("ray.serve")

_ENDPOINTS: dict[str, Endpoint] = {"chat": "chat", "completions": "completions"}


class RouterIngress(hooks.PoolCallIngress):
    """One replica of the router: Ray's OpenAI ingress in front of all pools.

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
        # Every handle is made once: each `.options()` is a new handle with its own
        # connection to the controller.
        self._pools = {name: h.options(stream=True) for name, h in pools.items()}
        super().__init__(
            llm_deployments={model: next(iter(self._pools.values()))},
            model_cards={model: card},
        )
        self._watch = PoolWatch(self._fleet, pools)
        self._policy = PolicyHolder(self._watch)
        context = serve.get_replica_context()
        self._replica = context.replica_tag
        self._recorder = OutcomeRecorder(outcomes_dir() / f"{self._replica}.jsonl")
        self._metrics = OutcomeMetrics()
        self._tally = Tally()
        # The first request must not pay for what is made at first use.
        classify(extract({"messages": [{"role": "user", "content": "Hello"}]}))
        await self._watch.refresh()
        self._watching = asyncio.create_task(self._watch.run())

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Take a policy from the deployment's `user_config`; never raises.

        A bad policy leaves the old one in force and shows in `/router/status`: an
        exception here would make Serve stop the replica, and the next one too.
        """
        await self._policy.load(user_config)

    # --- the OpenAI endpoints -----------------------------------------------------

    async def chat(
        self, body: hooks.ChatCompletionRequest, request: Request
    ) -> Response:
        """Chat completions, routed by the policy."""
        return await self._routed(body, request, "chat")

    async def completions(
        self, body: hooks.CompletionRequest, request: Request
    ) -> Response:
        """Text completions, routed by the policy."""
        return await self._routed(body, request, "completions")

    async def _routed(self, body: Any, request: Request, method: str) -> Response:
        ticket: Ticket | None = None
        response: Response
        try:
            ticket = await self._ticket(request, _ENDPOINTS[method])
            request.state.ticket = ticket
            response = await self._process_llm_request(
                body, call_method=method, raw_request=request
            )
        except OrchestratorError as error:
            response = JSONResponse(error.body(), error.status)
        except hooks.OpenAIHTTPException as error:
            response = _error(error.status_code, error.message, error.type)
        except HTTPException as error:
            response = _error(error.status_code, str(error.detail))
        if ticket is not None:
            response.headers.update(_headers(ticket))
        return response

    async def _ticket(self, request: Request, endpoint: Endpoint) -> Ticket:
        """Classify and decide; raises what the client must be told."""
        started, arrived = time.perf_counter(), time.time()
        body = await request.json()  # parsed once: FastAPI has cached it
        headers = request.headers
        features = extract(body, headers, endpoint=endpoint)
        request_class = classify(features, headers.get("x-spec-class"))
        router = self._policy.router
        decision = router.decide(
            features,
            request_class,
            healthy=self._watch.healthy,
            forced=headers.get("x-spec-pool"),
        )
        return Ticket(
            request_id=headers.get("x-request-id") or uuid.uuid4().hex,
            time=arrived,
            started=started,
            features=features,
            request_class=router.effective_class(features, request_class),
            decision=decision,
            pool=decision.pool,
            overhead_s=time.perf_counter() - started,
        )

    async def respond(
        self, body: Any, call_method: str, request: Request
    ) -> AsyncGenerator[Any, None]:
        """Call the decision's pool, or the next of its alternatives when it is full.

        Requests without a ticket (`/tokenize`, `/detokenize`) need no decision: all
        pools serve the same model.
        """
        ticket: Ticket | None = getattr(request.state, "ticket", None)
        if ticket is None:
            await self._get_model_id(body.model)
            handle = self._pools[self._watch.any_pool()]
            async for item in hooks.call_pool(handle, call_method, body, request):
                yield item
            return
        wants_usage = _ask_for_usage(body)
        meter = Meter(wants_usage=wants_usage)
        try:
            await self._get_model_id(body.model)
            async with contextlib.aclosing(
                self._first_free(ticket, call_method, body, request)
            ) as items:
                async for item in items:
                    passed = self._watched(item, meter)
                    if passed is not None:
                        yield passed
        except HTTPException as error:
            meter.fail("HTTPException", error.status_code, time.perf_counter())
            raise
        except Exception as error:
            # Not for a cancelled request: until told otherwise the meter says "cancel".
            meter.fail(type(error).__name__, 500, time.perf_counter())
            raise
        finally:
            self._record(ticket, meter)

    async def _first_free(
        self, ticket: Ticket, call_method: str, body: Any, request: Request
    ) -> AsyncGenerator[Any, None]:
        candidates = (ticket.decision.pool, *ticket.decision.alternatives)
        for pool in candidates:
            ticket.pool = pool
            items = hooks.call_pool(self._pools[pool], call_method, body, request)
            try:
                async with contextlib.aclosing(items):
                    async for item in items:
                        yield item
                return
            except BackPressureError:
                # Raised before anything ran: the pool's queue is full.
                logger.warning("Pool %s is full; trying the next", pool)
        raise HTTPException(503, "All pools that can serve this request are full.")

    @staticmethod
    def _watched(item: Any, meter: Meter) -> Any:
        """Measure one item; return what of it goes to the client, or None."""
        now = time.perf_counter()
        if isinstance(item, list):
            passed = [
                part
                for part in item
                if not isinstance(part, str) or meter.event(part, now)
            ]
            return passed or None
        if isinstance(item, str):
            return item if meter.event(item, now) else None
        if isinstance(item, hooks.ErrorResponse):
            meter.fail(item.error.type, item.error.code, now)
        else:
            meter.whole(item, now)
        return item

    def _record(self, ticket: Ticket, meter: Meter) -> None:
        method = self._fleet.pools[ticket.pool].speculation.method
        outcome = meter.outcome(ticket, method=method, now=time.perf_counter())
        self._recorder.record(outcome)
        self._metrics.observe(outcome)
        self._tally.add(outcome)

    # --- the router's own endpoints -----------------------------------------------

    async def explain(self, request: Request) -> Response:
        """Say where a request would go and why; runs nothing on any engine."""
        try:
            body = json.loads(await request.body())
            if not isinstance(body, dict):
                raise RequestError("The body must be a JSON object: a request body.")
            endpoint = endpoint_of(body)
            features = extract(body, request.headers, endpoint=endpoint)
            request_class = classify(features, request.headers.get("x-spec-class"))
            explanation = self._policy.router.explain(
                features,
                request_class,
                healthy=self._watch.healthy,
                forced=request.headers.get("x-spec-pool"),
            )
        except ValueError:
            error = RequestError("The body is not JSON.")
            return JSONResponse(error.body(), error.status)
        except OrchestratorError as error:
            return JSONResponse(error.body(), error.status)
        return JSONResponse(dataclasses.asdict(explanation))

    async def status(self) -> Response:
        """The policy in force, the pools, and what this replica counted."""
        return JSONResponse(
            {
                "model": self._fleet.model.id,
                "policy": self._policy.status(),
                "pools": self._watch.status(),
                "counts": {
                    "scope": f"ingress replica {self._replica} since it started",
                    **self._tally.status(),
                    "outcomes_dropped": self._recorder.dropped,
                },
            }
        )


#: Route of each method; the generation endpoints stay Ray's, ours come beside them.
ENDPOINTS = {
    "models": lambda app: app.get("/v1/models"),
    "model_data": lambda app: app.get("/v1/models/{model:path}"),
    "chat": lambda app: app.post("/v1/chat/completions"),
    "completions": lambda app: app.post("/v1/completions"),
    "tokenize": lambda app: app.post("/tokenize"),
    "detokenize": lambda app: app.post("/detokenize"),
    "explain": lambda app: app.post("/router/explain"),
    "status": lambda app: app.get("/router/status"),
}


def _ask_for_usage(body: Any) -> bool:
    """Make a stream end with its usage; tell whether the client asked for that.

    The usage chunk carries the tokens and the engine's speculation metrics, which
    every outcome needs; a client that did not ask for it never sees it.
    """
    if not body.stream:
        return True
    options = body.stream_options
    asked = bool(options and options.include_usage)
    if not asked:
        body.stream_options = hooks.StreamOptions(include_usage=True)
    return asked


def _headers(ticket: Ticket) -> dict[str, str]:
    decision = ticket.decision
    headers = {
        "x-spec-pool": ticket.pool,
        "x-spec-class": ticket.request_class.name,
        "x-spec-rule": decision.rule,
        "x-spec-overhead-ms": f"{ticket.overhead_s * 1000:.3f}",
    }
    if decision.experiment and decision.arm:
        headers["x-spec-experiment"] = decision.experiment
        headers["x-spec-arm"] = decision.arm
    return headers


def _error(status: int, message: str, type_: str | None = None) -> JSONResponse:
    """An error in OpenAI's shape."""
    if type_ is None:
        type_ = "invalid_request_error" if status < 500 else "server_error"
    body = {"message": message, "type": type_, "param": None, "code": status}
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    return JSONResponse({"error": body}, status, headers)
