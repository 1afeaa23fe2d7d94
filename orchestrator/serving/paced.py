"""An engine without a model that takes as long for a token as the request says.

With it `orchestrator bench overhead` measures what is around the engine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from ray.llm._internal.serve.core.engine.protocol import LLMEngine
from ray.serve.llm.openai_api_models import ChatCompletionResponse

from orchestrator.bench.load import PACE


class PacedEngine(LLMEngine):
    """Answers chats with `max_tokens` times the same word, in vLLM's chunks."""

    def __init__(self, llm_config: Any) -> None:
        pass

    async def start(self) -> None:
        """Nothing to load."""

    async def check_health(self) -> None:
        """Always well."""

    async def collective_rpc(self, method: str, **_: Any) -> list[Any]:
        """No worker to call."""
        return []

    async def chat(
        self, request: Any, raw_request_info: Any = None
    ) -> AsyncGenerator[Any, None]:
        """Yield one response, or the events of a stream, at the request's pace."""
        tokens: int = request.max_tokens
        step_s = float(request.vllm_xargs[PACE]) / 1000
        usage = {
            "prompt_tokens": 1,
            "completion_tokens": tokens,
            "total_tokens": tokens + 1,
        }
        if not request.stream:
            await asyncio.sleep(step_s * tokens)
            message = {"role": "assistant", "content": "word " * tokens}
            choice = {"index": 0, "message": message, "finish_reason": "length"}
            yield ChatCompletionResponse(
                model=request.model or "", choices=[choice], usage=usage
            )
            return
        yield _event([_choice({"role": "assistant", "content": ""})])
        loop = asyncio.get_running_loop()
        started = loop.time()
        for i in range(1, tokens + 1):
            # By the clock, so that a late chunk does not delay all that follow.
            await asyncio.sleep(started + i * step_s - loop.time())
            end = "length" if i == tokens else None
            yield _event([_choice({"content": "word "}, end)])
        if request.stream_options and request.stream_options.include_usage:
            yield _event([], usage=usage)
        yield "data: [DONE]\n\n"

    # What Ray's abstract class asks for and the benchmark does not use.
    def routing_stats(self) -> dict[str, Any]:
        """None."""
        return {}

    async def resolve_lora(self, lora_model: Any) -> None:
        """Not for this engine."""
        raise NotImplementedError

    async def completions(
        self, request: Any, raw_request_info: Any = None
    ) -> AsyncGenerator[Any, None]:
        """Not for this engine."""
        raise NotImplementedError
        yield

    async def embeddings(
        self, request: Any, raw_request_info: Any = None
    ) -> AsyncGenerator[Any, None]:
        """Not for this engine."""
        raise NotImplementedError
        yield

    async def transcriptions(
        self, request: Any, raw_request_info: Any = None
    ) -> AsyncGenerator[Any, None]:
        """Not for this engine."""
        raise NotImplementedError
        yield

    async def reset_prefix_cache(self) -> None:
        """Not for this engine."""
        raise NotImplementedError


def _choice(delta: dict[str, str], end: str | None = None) -> dict[str, Any]:
    return {
        "index": 0,
        "delta": delta,
        "logprobs": None,
        "finish_reason": end,
        "token_ids": None,
    }


def _event(choices: list[dict[str, Any]], **more: Any) -> str:
    chunk = {
        "id": "chatcmpl-00000000-0000-0000-0000-000000000000",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "overhead",
        "choices": choices,
        **more,
    }
    return f"data: {json.dumps(chunk, separators=(',', ':'))}\n\n"
