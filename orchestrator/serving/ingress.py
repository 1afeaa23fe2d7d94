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
import pickle
import time
import uuid
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from ray import serve
from ray.serve.handle import DeploymentHandle

from orchestrator.classify.classifier import classify
from orchestrator.classify.features import extract
from orchestrator.config.fleet import Fleet
from orchestrator.errors import (
    OrchestratorError,
    QuarantinedError,
    RequestError,
    UnavailableError,
    UnknownModelError,
)
from orchestrator.records import Caller, Endpoint, PoolRights
from orchestrator.routing.attempts import Attempts
from orchestrator.routing.examples import endpoint_of
from orchestrator.routing.quarantine import Quarantine
from orchestrator.serving import hooks
from orchestrator.serving.auth import KeyHolder
from orchestrator.serving.control import PolicyHolder, PoolWatch, ask_all
from orchestrator.serving.failures import FULL, PoolFailedError, failure_of
from orchestrator.serving.invalid import (
    ChatBody,
    DetokenizeBody,
    TextBody,
    TokenizeBody,
)
from orchestrator.serving.metrics import OutcomeMetrics
from orchestrator.serving.replies import error_event, refusal, spec_headers
from orchestrator.serving.stream import Meter, Ticket, ask_for_usage
from orchestrator.serving.tally import Tally
from orchestrator.store.recorder import OutcomeRecorder, outcomes_dir

logger = logging.getLogger("ray.serve")

#: Seconds before a failed request is sent to the same pool again: longer than a replica
#: whose engine has died takes to end.
SAME_POOL_S = 1.0
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

    def __del__(self) -> None:
        """Serve calls this before a replica ends: what is queued is written."""
        if hasattr(self, "_recorder"):
            self._recorder.close()

    async def reconfigure(self, user_config: dict[str, Any] | None, rank: Any) -> None:
        """Take a policy from the deployment's `user_config`; never raises.

        `rank` is not used, but Serve leaves this call out without it where a file has
        `user_config: null`: running replicas would keep the policy they have, and new
        ones start on another.

        A bad policy leaves the old one in force and shows in `/router/status`: an
        exception here would make Serve stop the replica, and the next one too.
        """
        await self.keys.load(user_config)
        await self._policy.load(user_config)

    # --- the OpenAI endpoints -----------------------------------------------------

    async def chat(self, body: ChatBody, request: Request) -> Response:
        """Chat completions, routed by the policy."""
        return await self._routed(body, request, "chat")

    async def completions(self, body: TextBody, request: Request) -> Response:
        """Text completions, routed by the policy."""
        return await self._routed(body, request, "completions")

    async def tokenize(self, body: TokenizeBody, request: Request) -> Response:
        """Tokens of a text; every pool answers alike."""
        return await self._unrouted(super().tokenize(body, request), request)

    async def detokenize(self, body: DetokenizeBody, request: Request) -> Response:
        """Text of tokens; every pool answers alike."""
        return await self._unrouted(super().detokenize(body, request), request)

    async def _unrouted(
        self, answer: Coroutine[Any, Any, Response], request: Request
    ) -> Response:
        try:
            with contextlib.closing(answer):
                self._refuse_killers(await request.body())
                return await answer
        except Exception as error:
            return refusal(error)

    async def _routed(self, body: Any, request: Request, method: str) -> Response:
        ticket: Ticket | None = None
        response: Response
        try:
            self._check_model(body.model)
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
        self._refuse_killers(await request.body())
        body = await request.json()  # parsed once: FastAPI has cached it
        headers = request.headers
        tenant, may_force = _caller(request)
        features = extract(body, headers, endpoint=endpoint, tenant=tenant)
        request_class = classify(features, headers.get("x-spec-class"))
        router = self._policy.router
        decision = router.decide(
            features,
            request_class,
            healthy=self._watch.healthy,
            forced=headers.get("x-spec-pool"),
            may_force=may_force,
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

    def _check_model(self, model: str | None) -> None:
        if model not in (None, self._fleet.model.id):
            raise UnknownModelError(
                f"There is no such model; the one here is `{self._fleet.model.id}`.",
                param="model",
            )

    def _refuse_killers(self, body: bytes) -> None:
        left = self._quarantine.refused_for(body, time.monotonic())
        if left is not None:
            raise QuarantinedError(left)

    async def respond(
        self, body: Any, call_method: str, request: Request
    ) -> AsyncGenerator[Any, None]:
        """Call the decision's pool, or the next of its alternatives.

        A full pool is passed over; one that fails before the first byte costs a retry.
        After the first byte a failure ends the stream with an error event.

        Requests without a ticket (`/tokenize`, `/detokenize`) need no decision and
        leave no outcome.
        """
        ticket: Ticket | None = getattr(request.state, "ticket", None)
        if ticket is None:
            self._check_model(body.model)
            pools = self._watch.any_order()
        else:
            pools = [ticket.decision.pool, *ticket.decision.alternatives]
        attempts = Attempts(pools)
        # What needs no decision has no usage, and only by chance a field `stream`.
        meter = Meter(wants_usage=ticket is None or ask_for_usage(body))
        failure: OrchestratorError = UnavailableError(
            "All pools that can serve this request are full or down."
        )
        try:
            while (pool := attempts.next(self._watch.has_replica)) is not None:
                if pool == attempts.failed:
                    # It has no other replica that is known to be well: give it the
                    # time to lose the one that failed.
                    await asyncio.sleep(SAME_POOL_S)
                    if not self._watch.has_replica(pool):
                        break
                if ticket is not None:
                    ticket.pool, ticket.failed_pool = pool, attempts.failed
                answer = hooks.call_pool(self._pools[pool], call_method, body, request)
                self._watch.began(pool, answer)
                try:
                    async for item in answer:
                        passed = meter.watch(item, time.perf_counter())
                        if passed is not None:
                            yield passed
                    meter.end(time.perf_counter())
                    return
                except (asyncio.CancelledError, GeneratorExit):
                    if meter.status == "cancel":  # the engine must not go on
                        hooks.cancel(answer)
                    raise
                except pickle.PicklingError:
                    raise RequestError("The request is nested too deeply.") from None
                except FULL as error:
                    task = asyncio.current_task()
                    if task is not None and task.cancelling():
                        # Ray takes the client's leaving for our own cancelling.
                        raise asyncio.CancelledError from None
                    logger.warning("Pool %s takes no request: %s", pool, error)
                    if meter.begun:
                        break
                except Exception as error:
                    failure = await self._failure(error, attempts, request)
                    if meter.begun or not attempts.may_retry():
                        break
                finally:
                    self._watch.ended(pool, answer)
            raise failure
        except asyncio.CancelledError:
            # Ray's own timeout cancels, too; else it is the client that went away, and
            # until told otherwise the meter says "cancel".
            now = time.perf_counter()
            late = ticket and now - ticket.started >= hooks.REQUEST_TIMEOUT_S
            if late and not meter.begun:
                meter.fail("Timeout", 408, now)
            raise
        except OrchestratorError as error:
            kind = getattr(error, "kind", type(error).__name__)
            meter.fail(kind, error.status, time.perf_counter())
            if not meter.begun:
                raise
            yield error_event(error)
        except Exception as error:
            meter.fail(type(error).__name__, 500, time.perf_counter())
            raise
        finally:
            if ticket is not None:
                self._record(ticket, meter)

    async def _failure(
        self, error: Exception, attempts: Attempts, request: Request
    ) -> PoolFailedError:
        """Log and count a pool's failure; remember the body if an engine died of it."""
        failure, pool = failure_of(error), attempts.pool
        logger.error("Pool %s failed (%s)", pool, failure.kind, exc_info=error)
        self._metrics.failed(pool, "died" if failure.died else "failed")
        if failure.died:
            body, now = await request.body(), time.monotonic()
            death = 1 if attempts.failed is None else 2
            self._quarantine.died(body, pool, death, now)
        return failure

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
            tenant, may_force = _caller(request)
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
        """This replica's policy and counts; every replica is asked for them."""
        return {
            "replica": self._replica,
            "policy": self._policy.status(),
            "keys": self.keys.status(),
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
        healthy = self._watch.healthy
        policy = self._policy.status()
        body = {
            "status": "ok" if healthy else "no healthy pool",
            "replica": self._replica,
            "policy": {key: policy[key] for key in ("name", "version", "hash")},
            "rejected": policy["rejected"] is not None,
            "keys": self.keys.status()["state"],
            "pools": {name: name in healthy for name in self._pools},
        }
        return JSONResponse(body, 200 if healthy else 503)


def _caller(request: Request) -> tuple[str | None, PoolRights]:
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
#: Route of each method; the generation endpoints stay Ray's, ours come beside them.
ENDPOINTS = {
    "models": lambda app: app.get("/v1/models"),
    "model_data": lambda app: app.get("/v1/models/{model:path}"),
    "chat": lambda app: app.post("/v1/chat/completions"),
    "completions": lambda app: app.post("/v1/completions"),
    "tokenize": lambda app: app.post("/tokenize"),
    "detokenize": lambda app: app.post("/detokenize"),
    "explain": lambda app: app.post("/router/explain", openapi_extra=_ANY_REQUEST),
    "status": lambda app: app.get("/router/status"),
    "health": lambda app: app.get("/health"),
}
