"""All that we touch of Ray Serve LLM's private parts, in one place.

Public Ray has no hook between the HTTP request and the model's handle, and that is
where routing belongs. `PoolCallIngress` replaces the one private method that joins the
two, `OpenAiIngress._get_response`, by a public one; `tests/serving/test_hooks.py` fails
when Ray changes that method, its caller, or the helpers imported here.
"""

from __future__ import annotations

import asyncio
import contextlib
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
from ray.llm._internal.serve.core.ingress.utils import (
    _sanitize_chat_completion_request as sanitize_chat,
)
from ray.llm._internal.serve.core.protocol import RawRequestInfo
from ray.llm._internal.serve.observability.metrics.fast_api_metrics import (
    add_http_metrics_middleware,
    metrics_lifespan,
)
from ray.serve._private.http_util import session_id_from_headers
from ray.serve.handle import DeploymentHandle, DeploymentResponseGenerator
from ray.serve.llm.ingress import OpenAiIngress
from vllm.entrypoints.generate.base.protocol import StreamOptions
from vllm.exceptions import VLLMClientError

__all__ = [
    "ENGINE_DEAD",
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
    "VLLMClientError",
    "ask_replicas",
    "call_pool",
    "cancel",
    "has_replica",
    "is_assigned",
    "join_tokenization",
    "make_app",
    "sanitize_chat",
    "to_model_metadata",
]


#: What vLLM says when its engine has died, in exceptions and in streams.
ENGINE_DEAD = "EngineCore encountered an issue"


def make_app() -> FastAPI:
    """A FastAPI app with Ray's metrics.

    The rest of what Ray puts into its app is not wanted: handlers that send traces and
    repeat the client's input, and a middleware that every chunk passes.
    """
    app = FastAPI(title="spec-orchestrator", lifespan=metrics_lifespan)
    add_http_metrics_middleware(app)
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


async def ask_replicas(
    handle: DeploymentHandle, method: str, timeout_s: float
) -> tuple[list[Any], list[str]]:
    """Call `method` on every running replica; the answers that came, and who was asked.

    The public `results_async` of a broadcast drops every answer where one is late.

    Raises:
        TimeoutError: Serve did not tell of the replicas within `timeout_s` seconds.
    """
    sent = handle.broadcast(method)._fetch_replica_results_async()
    results = await asyncio.wait_for(sent, timeout_s)
    router = handle._router._asyncio_router._request_router
    asked = [replica.unique_id for replica in router.curr_replicas]
    answers = [asyncio.ensure_future(result.get_async()) for result in results]
    done, late = await asyncio.wait(answers, timeout=timeout_s)
    for answer in late:
        answer.cancel()
    good = (a for a in done if not a.cancelled() and a.exception() is None)
    return [answer.result() for answer in good], asked


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


def is_assigned(call: DeploymentResponseGenerator) -> bool:
    """Whether a replica has accepted the call."""
    return bool(call._replica_result_future.done())


def cancel(call: DeploymentResponseGenerator) -> None:
    """Cancel a call; Ray raises what the call has failed with meanwhile."""
    with contextlib.suppress(Exception):
        call.cancel()


def call_pool(
    handle: DeploymentHandle, call_method: str, body: Any, request: Request
) -> DeploymentResponseGenerator:
    """Call `call_method` on a pool as Ray's own `_get_response` does.

    A chat's body must have passed `sanitize_chat` before, as `invalid.ChatBody` has.

    `handle` must have been made with `stream=True`, once: each `.options()` is a new
    handle. The one exception is Ray's own: a session's id is an option of the handle.

    The answer yields what the pool's `LLMServer` yields: response objects,
    `ErrorResponse`s, or lists of server-sent events as text.
    """
    session = session_id_from_headers(request.headers)
    if session:
        handle = handle.options(session_id=session)
    info = RawRequestInfo.from_starlette_request(request)
    # The caller's API key is the router's business only.
    info.headers.pop("authorization", None)
    return getattr(handle, call_method).remote(body, info)


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
