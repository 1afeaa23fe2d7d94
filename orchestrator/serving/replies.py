"""What the router itself says: errors in OpenAI's shape, and the x-spec headers."""

from __future__ import annotations

import json
import logging
from typing import Any

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError

from orchestrator.errors import OrchestratorError, UnavailableError
from orchestrator.serving import hooks
from orchestrator.serving.stream import Ticket

logger = logging.getLogger("ray.serve")

#: Serve's exceptions for a pool that takes no request now; nothing has run when one is
#: raised.
FULL = (BackPressureError, DeploymentUnavailableError)
#: Seconds after which a client may try again.
RETRY_AFTER_S = 1
_FAILED = "The pool failed to answer."


def refusal(error: Exception) -> JSONResponse:
    """The response that an exception becomes; never a trace, which goes to the log."""
    if isinstance(error, OrchestratorError):
        return _response(error.status, error.message, error.type, error.param)
    if isinstance(error, FULL):
        return refusal(UnavailableError("The pool is full or not available now."))
    if isinstance(error, hooks.OpenAIHTTPException):
        return _response(error.status_code, error.message, error.type)
    if isinstance(error, HTTPException):
        return _response(error.status_code, str(error.detail))
    logger.error("A pool failed", exc_info=error)
    return _response(500, _FAILED)


def error_event() -> str:
    """The event that ends a stream whose pool failed; clients of OpenAI know it."""
    return f"data: {json.dumps(_body(500, _FAILED))}\n\n"


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


def _body(
    status: int, message: str, type_: str | None = None, param: str | None = None
) -> dict[str, Any]:
    if type_ is None:
        type_ = "invalid_request_error" if status < 500 else "server_error"
    error = {"message": message, "type": type_, "param": param, "code": status}
    return {"error": error}


def _response(
    status: int, message: str, type_: str | None = None, param: str | None = None
) -> JSONResponse:
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status in (429, 503) else {}
    return JSONResponse(_body(status, message, type_, param), status, headers)
