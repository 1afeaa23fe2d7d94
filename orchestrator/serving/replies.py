"""What the router itself says: errors in OpenAI's shape, and the x-spec headers."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from orchestrator.errors import OrchestratorError
from orchestrator.serving import hooks
from orchestrator.serving.invalid import MAX_TEXT, explain
from orchestrator.serving.stream import Ticket

logger = logging.getLogger("ray.serve")

#: Seconds after which a client may try again.
RETRY_AFTER_S = 1
_CUT_OFF = "The pool failed; the answer is not complete."


def refusal(error: Exception) -> Response:
    """The response that an exception becomes; never a trace, which goes to the log."""
    if isinstance(error, OrchestratorError):
        return _response(error.status, error.body()["error"])
    if isinstance(error, RequestValidationError):
        message, param = explain(error.errors())
        return _response(400, _error(400, message, param=param))
    if isinstance(error, hooks.VLLMClientError):  # of vLLM's checks of a body's fields
        param, value = (getattr(error, n, None) for n in ("parameter", "value"))
        message = str(error.args[0]).replace(str(value), "…") if value else ""
        message = message or str(error.args[0])
        return _response(400, _error(400, message[:MAX_TEXT], param=param))
    if isinstance(error, hooks.OpenAIHTTPException):
        told = _error(error.status_code, error.message, error.type)
        return _response(error.status_code, told)
    if isinstance(error, HTTPException):
        told = _error(error.status_code, str(error.detail))
        return _response(error.status_code, told, error.headers)
    logger.error("A request failed in the router", exc_info=error)
    return _response(500, _error(500, "The router failed; its log says why."))


async def handle(request: Request, error: Exception) -> Response:
    """`refusal` as an exception handler of the app."""
    return refusal(error)


#: What the app hands to `handle`; each needs its own entry, since FastAPI has handlers
#: of its own for some.
HANDLED = (
    HTTPException,
    RequestValidationError,
    OrchestratorError,
    hooks.OpenAIHTTPException,
    hooks.VLLMClientError,
    Exception,
)


def error_event(error: OrchestratorError) -> str:
    """The event that ends a stream whose pool failed; clients of OpenAI know it."""
    told = {**error.body()["error"], "message": _CUT_OFF}
    return f"data: {json.dumps({'error': told})}\n\n"


def spec_headers(ticket: Ticket) -> dict[str, str]:
    """The headers that say where a request went, and why."""
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


def _error(
    status: int, message: str, type_: str | None = None, *, param: str | None = None
) -> dict[str, Any]:
    if type_ is None:
        type_ = "invalid_request_error" if status < 500 else "server_error"
    return {"message": message, "type": type_, "param": param, "code": None}


def _response(
    status: int, error: dict[str, Any], headers: Mapping[str, str] | None = None
) -> Response:
    more = dict(headers or {})
    if status in (429, 503):
        more["Retry-After"] = str(RETRY_AFTER_S)
    if status == 401:
        more["WWW-Authenticate"] = "Bearer"
    if error["code"] is None:
        error = {**error, "code": status}
    # ASCII: a message may name what a client sent, and that may be no valid text.
    text = json.dumps({"error": error})
    return Response(text, status, more, media_type="application/json")
