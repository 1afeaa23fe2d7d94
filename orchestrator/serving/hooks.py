"""All that we touch of Ray Serve LLM's private parts, in one place.

Public Ray has no hook between the HTTP request and the model's handle, and that is
where routing belongs. `PoolCallIngress` replaces the one private method that joins the
two, `OpenAiIngress._get_response`, by a public one; `tests/serving/test_hooks.py` fails
when Ray changes that method, its caller, or the helpers imported here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from fastapi import FastAPI, Request
from ray.llm._internal.common.callbacks.base import CallbackBase
from ray.llm._internal.serve.constants import (
    DEFAULT_LLM_ROUTER_HTTP_TIMEOUT as REQUEST_TIMEOUT_S,
)
from ray.llm._internal.serve.core.configs.openai_api_models import (
    ChatCompletionRequest,
    CompletionRequest,
    DetokenizeRequest,
    ErrorResponse,
    ModelCard,
    OpenAIHTTPException,
    TokenizeCompletionRequest,
    to_model_metadata,
)
from ray.llm._internal.serve.core.ingress.ingress import init as ray_app
from ray.llm._internal.serve.core.ingress.utils import (
    _sanitize_chat_completion_request,
)
from ray.llm._internal.serve.core.protocol import RawRequestInfo
from ray.serve._private.http_util import session_id_from_headers
from ray.serve.handle import DeploymentHandle
from ray.serve.llm.ingress import OpenAiIngress
from vllm.entrypoints.generate.base.protocol import StreamOptions

__all__ = [
    "REQUEST_TIMEOUT_S",
    "ChatCompletionRequest",
    "CompletionRequest",
    "DetokenizeRequest",
    "ErrorResponse",
    "ModelCard",
    "NoDownload",
    "OpenAIHTTPException",
    "PoolCallIngress",
    "StreamOptions",
    "TokenizeCompletionRequest",
    "call_pool",
    "has_replica",
    "join_tokenization",
    "make_app",
    "to_model_metadata",
]


def make_app() -> FastAPI:
    """The FastAPI app that Ray itself would make: its middlewares and metrics."""
    app: FastAPI = ray_app()
    app.title = "spec-orchestrator"
    return app


def has_replica(handle: DeploymentHandle) -> bool:
    """Whether Serve has told this handle of a running replica, as it does within a
    second of each change. The public `running_replicas_populated` says only whether
    there ever was one.
    """
    router = handle._router
    if router is None:
        return False
    inner = router._asyncio_router
    if inner._request_router is None:  # made at the first request
        return bool(inner._running_replicas)
    return bool(inner._request_router.curr_replicas)


def join_tokenization(engine: Any) -> None:
    """Let `/tokenize` and `/detokenize` work: Ray 2.60 looks for vLLM's old name.

    vLLM 0.29 calls it `serving_tokenization` in the state that Ray's engine keeps; Ray
    asks for `openai_serving_tokenization` and, without it, answers every request with
    "does not support the 'tokenization' task". Does nothing once Ray finds it.
    """
    if getattr(engine, "_oai_serving_tokenization", None) is None:
        state = getattr(engine, "_app_state", None)
        engine._oai_serving_tokenization = getattr(state, "serving_tokenization", None)


class NoDownload(CallbackBase):
    """For weights that lie in a folder: start without a task that would fetch them.

    The task finds nothing to do, but it imports vLLM on every node of the pool first.
    """

    async def on_before_node_init(self) -> None:
        """Tell Ray to leave the download out."""
        self.ctx.run_init_node = False


async def call_pool(
    handle: DeploymentHandle, call_method: str, body: Any, request: Request
) -> AsyncGenerator[Any, None]:
    """Call `call_method` on a pool as Ray's own `_get_response` does.

    `handle` must have been made with `stream=True`, once: each `.options()` is a new
    handle. The one exception is Ray's own: a session's id is an option of the handle.

    Yields what the pool's `LLMServer` yields: response objects, `ErrorResponse`s, or
    lists of server-sent events as text.
    """
    session = session_id_from_headers(request.headers)
    if session:
        handle = handle.options(session_id=session)
    if isinstance(body, ChatCompletionRequest):
        body = _sanitize_chat_completion_request(body)
    info = RawRequestInfo.from_starlette_request(request)
    async for item in getattr(handle, call_method).remote(body, info):
        yield item


class PoolCallIngress(OpenAiIngress):
    """Ray's OpenAI ingress with the call of the model as a method to override."""

    def respond(
        self, body: Any, call_method: str, request: Request
    ) -> AsyncGenerator[Any, None]:
        """Yield the response to `body`, item by item, as `call_pool` does."""
        raise NotImplementedError

    def _get_response(
        self, *, body: Any, call_method: str, raw_request: Request | None = None
    ) -> AsyncGenerator[Any, None]:
        assert raw_request is not None, "every route of ours passes its request"
        return self.respond(body, call_method, raw_request)
