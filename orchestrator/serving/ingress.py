"""The request's way: classify, decide, call the pool, watch, record.

`chat`/`completions` make its `Ticket` (features, class, decision); Ray's own handler
then calls `respond`, which calls the pool; the `Meter` watches what passes; exactly one
`Outcome` is recorded when it ends, fails, or is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
import time
import uuid
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from orchestrator.classify.classifier import classify
from orchestrator.classify.features import extract
from orchestrator.errors import (
    OrchestratorError,
    QuarantinedError,
    RequestError,
    UnavailableError,
    UnknownModelError,
)
from orchestrator.records import Endpoint
from orchestrator.routing.attempts import Attempts
from orchestrator.serving import hooks
from orchestrator.serving.failures import FULL, PoolFailedError, failure_of
from orchestrator.serving.invalid import (
    ChatBody,
    DetokenizeBody,
    TextBody,
    TokenizeBody,
)
from orchestrator.serving.replica import OWN_ENDPOINTS, RouterReplica, caller_of
from orchestrator.serving.replies import error_event, refusal, spec_headers
from orchestrator.serving.stream import Meter, Ticket, ask_for_usage

logger = logging.getLogger("ray.serve")

#: Seconds before a failed request is sent to the same pool again: longer than a replica
#: whose engine has died takes to end.
SAME_POOL_S = 1.0
_ENDPOINTS: dict[str, Endpoint] = {"chat": "chat", "completions": "completions"}


class RouterIngress(RouterReplica):
    """The deployment that takes all requests: Ray's OpenAI ingress before the pools."""

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
        tenant, may_force = caller_of(request)
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


#: Route of each method.
ENDPOINTS = {
    "models": lambda app: app.get("/v1/models"),
    "model_data": lambda app: app.get("/v1/models/{model:path}"),
    "chat": lambda app: app.post("/v1/chat/completions"),
    "completions": lambda app: app.post("/v1/completions"),
    "tokenize": lambda app: app.post("/tokenize"),
    "detokenize": lambda app: app.post("/detokenize"),
    **OWN_ENDPOINTS,
}
