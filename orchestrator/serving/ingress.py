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
from collections.abc import AsyncGenerator, Awaitable, Iterable
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from ray import serve
from ray.serve.handle import DeploymentHandle

from orchestrator.classify.classifier import classify
from orchestrator.classify.features import extract
from orchestrator.config.fleet import Fleet
from orchestrator.errors import OrchestratorError, RequestError, UnavailableError
from orchestrator.records import Endpoint
from orchestrator.routing.examples import endpoint_of
from orchestrator.serving import hooks
from orchestrator.serving.control import PolicyHolder, PoolWatch
from orchestrator.serving.metrics import OutcomeMetrics
from orchestrator.serving.replies import FULL, error_event, refusal, spec_headers
from orchestrator.serving.stream import Meter, Ticket, ask_for_usage
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
        self._watching = asyncio.create_task(self._watch.run())

    def __del__(self) -> None:
        """Serve calls this before a replica ends: what is queued is written."""
        if hasattr(self, "_recorder"):
            self._recorder.close()

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

    async def tokenize(
        self, body: hooks.TokenizeCompletionRequest, request: Request
    ) -> Response:
        """Tokens of a text; every pool answers alike."""
        return await self._unrouted(super().tokenize(body, request))

    async def detokenize(
        self, body: hooks.DetokenizeRequest, request: Request
    ) -> Response:
        """Text of tokens; every pool answers alike."""
        return await self._unrouted(super().detokenize(body, request))

    async def _unrouted(self, answer: Awaitable[Response]) -> Response:
        try:
            return await answer
        except Exception as error:
            return refusal(error)

    async def _routed(self, body: Any, request: Request, method: str) -> Response:
        ticket: Ticket | None = None
        response: Response
        try:
            await self._get_model_id(body.model)
            ticket = await self._ticket(request, _ENDPOINTS[method])
            request.state.ticket = ticket
            response = await self._process_llm_request(
                body, call_method=method, raw_request=request
            )
        except Exception as error:
            response = refusal(error)
        if ticket is not None:
            response.headers.update(spec_headers(ticket))
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

        Requests without a ticket (`/tokenize`, `/detokenize`) need no decision and
        leave no outcome.
        """
        ticket: Ticket | None = getattr(request.state, "ticket", None)
        if ticket is None:
            await self._get_model_id(body.model)
            async for item in self._first_free(
                self._watch.any_order(), call_method, body, request
            ):
                yield item
            return
        candidates = (ticket.decision.pool, *ticket.decision.alternatives)
        meter = Meter(wants_usage=ask_for_usage(body))
        begun = False
        try:
            async with contextlib.aclosing(
                self._first_free(candidates, call_method, body, request, ticket)
            ) as items:
                async for item in items:
                    if (passed := meter.watch(item, time.perf_counter())) is not None:
                        yield passed
                        begun = True
            meter.end(time.perf_counter())
        except asyncio.CancelledError:
            # Ray's own timeout cancels, too; else it is the client that went away, and
            # until told otherwise the meter says "cancel".
            now = time.perf_counter()
            if now - ticket.started >= hooks.REQUEST_TIMEOUT_S:
                meter.fail("Timeout", 408, now)
            raise
        except Exception as error:
            response = refusal(error)
            meter.fail(type(error).__name__, response.status_code, time.perf_counter())
            if not (begun and body.stream):
                raise
            yield error_event()
        finally:
            self._record(ticket, meter)

    async def _first_free(
        self,
        pools: Iterable[str],
        call_method: str,
        body: Any,
        request: Request,
        ticket: Ticket | None = None,
    ) -> AsyncGenerator[Any, None]:
        """What the first of `pools` yields that takes the request."""
        for pool in pools:
            if ticket is not None:
                ticket.pool = pool
            items = hooks.call_pool(self._pools[pool], call_method, body, request)
            try:
                async with contextlib.aclosing(items):
                    async for item in items:
                        yield item
                return
            except FULL as error:
                logger.warning("Pool %s takes no request: %s", pool, error)
        raise UnavailableError("All pools that can serve this request are full.")

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
            try:
                body = json.loads(await request.body())
            except (ValueError, RecursionError):
                raise RequestError("The body is not JSON.") from None
            if not isinstance(body, dict):
                raise RequestError("The body must be a JSON object: a request body.")
            features = extract(body, request.headers, endpoint=endpoint_of(body))
            request_class = classify(features, request.headers.get("x-spec-class"))
            explanation = self._policy.router.explain(
                features,
                request_class,
                healthy=self._watch.healthy,
                forced=request.headers.get("x-spec-pool"),
            )
        except OrchestratorError as error:
            return refusal(error)
        # ASCII: a lone surrogate in the request is no text that UTF-8 could carry.
        text = json.dumps(dataclasses.asdict(explanation))
        return Response(text, media_type="application/json")

    async def status(self) -> Response:
        """The policy in force, the pools, and what this replica counted."""
        return JSONResponse(
            {
                "model": self._fleet.model.id,
                "policy": self._policy.status(),
                "pools": await self._watch.status(),
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
