"""What can go wrong with a pool's answer: it is full, it failed, or its engine died."""

from __future__ import annotations

import json
from typing import Any

from ray.exceptions import RayActorError
from ray.serve.exceptions import (
    BackPressureError,
    DeploymentUnavailableError,
    RequestCancelledError,
)

from orchestrator.errors import OrchestratorError
from orchestrator.serving import hooks

#: How vLLM's streams begin an event that is an error, whatever the HTTP status.
ERROR_MARK = 'data: {"error"'


class PoolFailedError(OrchestratorError):
    """A pool failed to answer. What it said about it goes to the log only.

    Args:
        kind: what failed, such as the class of an exception.
        died: the replica or its engine died, so that a later try may find another.
    """

    type = "server_error"

    def __init__(self, kind: str, *, died: bool) -> None:
        super().__init__("The pool failed to answer.")
        self.kind = kind
        self.died = died
        self.status = 503 if died else 500


class PoolFullError(OrchestratorError):
    """The engine itself takes no more requests now."""

    status = 503
    type = "server_error"


#: Exceptions of a pool that takes no request now: its queue or its engine is full, or
#: it lost its last replica while the request waited for one (see PoolWatch).
FULL = (
    BackPressureError,
    DeploymentUnavailableError,
    RequestCancelledError,
    PoolFullError,
)


def failure_of(error: Exception) -> PoolFailedError:
    """The failure that an exception of a pool's answer is.

    A replica that can't be reached has died: so the death of its process shows first.
    """
    if isinstance(error, PoolFailedError):
        return error
    died = isinstance(error, RayActorError) or hooks.ENGINE_DEAD in str(error)
    return PoolFailedError(type(error).__name__, died=died)


def read_error(event: str) -> hooks.ErrorResponse:
    """The error that an event of vLLM's carries; an unreadable one is a failure."""
    try:
        error: dict[str, Any] = json.loads(event[event.index("{") :])["error"]
        return hooks.ErrorResponse(
            error={
                "message": str(error.get("message", "")),
                "type": str(error.get("type", "server_error")),
                "code": int(error.get("code", 500)),
            }
        )
    except (ValueError, AttributeError, TypeError, KeyError):
        raise PoolFailedError("unreadable event", died=False) from None


def raise_failure(error: hooks.ErrorResponse) -> None:
    """Raise where an engine's error is its own fault, not the request's.

    Raises:
        PoolFullError: it takes no request now (503).
        PoolFailedError: it failed; all other codes from 500 on but 501, which says
            that vLLM does not have what the request asks for.
    """
    code = error.error.code
    if code == 503:
        raise PoolFullError("The engine takes no request now.")
    if code >= 500 and code != 501:
        said = error.error.message
        raise PoolFailedError(error.error.type, died=hooks.ENGINE_DEAD in said)
