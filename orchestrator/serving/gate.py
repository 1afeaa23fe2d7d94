"""What every request passes before its route: its key, and the limit of its size."""

from __future__ import annotations

from fastapi import HTTPException, Request
from ray import serve
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.errors import OrchestratorError
from orchestrator.serving.replies import refusal


class Gate:
    """ASGI middleware of the router's app; it looks at no chunk of a response.

    Args:
        app: what comes after it.
        max_body_bytes: larger bodies are refused, with 413.
    """

    def __init__(self, app: ASGIApp, *, max_body_bytes: int) -> None:
        self._app = app
        self._max = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            ingress = serve.get_replica_context().servable_object
            # Serve puts the application's route prefix before the app's own path.
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            request.state.caller = ingress.keys.admit(
                request.headers, scope["method"], path
            )
            length = request.headers.get("content-length", "0")
            if length.isdecimal() and int(length) > self._max:
                raise self._too_large()
        except (OrchestratorError, HTTPException) as error:
            await refusal(error)(scope, receive, send)
            return
        await self._app(scope, self._limited(receive), send)

    def _limited(self, receive: Receive) -> Receive:
        """`receive`, counting: a body sent in chunks says no length beforehand."""
        seen = 0

        async def counting() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._max:
                raise self._too_large()
            return message

        return counting

    def _too_large(self) -> HTTPException:
        limit = self._max / 2**20
        text = (
            f"The body is larger than {limit:g} MiB. Send less, or let the operator"
            " raise `router.max_body_mib` of the fleet."
        )
        return HTTPException(413, text)
