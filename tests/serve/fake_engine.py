"""A small engine without a model, for fast tests of the ingress on a real Ray Serve.

It speaks vLLM's protocol objects and events. What it does is asked for in the last
message: `words N` streams N words, `slow N` takes 50 ms for each of N words, `boom` is
refused, `break N` ends with an error event as vLLM's when its engine dies, `crash`
raises at once, `fall N` raises after N words, `cut N` ends without [DONE]; all else is
answered with 5 words.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from typing import Any

from ray.llm._internal.serve.core.engine.protocol import LLMEngine
from ray.serve.llm.openai_api_models import (
    ChatCompletionResponse,
    CompletionResponse,
    ErrorResponse,
)

METRICS = {
    "mean_acceptance_length": 2.0,
    "draft_acceptance_rate": 0.5,
    "acceptance_histogram": [1, 0, 1],
    "num_spec_steps": 2,
    "num_accepted_draft_tokens": 2,
    "num_draft_tokens": 4,
    "num_spec_tokens": 2,
}


class FakeEngine(LLMEngine):
    def __init__(self, llm_config: Any) -> None:
        self.config = llm_config
        self.speculative = "speculative_config" in llm_config.engine_kwargs
        self.running = 0

    async def start(self) -> None:
        if failure := os.environ.get("FAKE_ENGINE_FAILURE"):
            raise ValueError(failure)

    async def collective_rpc(self, method: str, **_: Any) -> list[Any]:
        return []

    async def check_health(self) -> None:
        pass

    async def chat(self, request: Any, raw_request_info: Any = None) -> Any:
        content = request.messages[-1]["content"]
        async for item in self._answer(request, content, chat=True):
            yield item

    async def completions(self, request: Any, raw_request_info: Any = None) -> Any:
        async for item in self._answer(request, request.prompt, chat=False):
            yield item

    async def _answer(
        self, request: Any, content: Any, *, chat: bool
    ) -> AsyncGenerator[Any, None]:
        verb, _, rest = str(content).partition(" ")
        count = int(rest) if rest.isdigit() else 5
        if verb == "boom":
            error = {"message": "no", "type": "BadRequestError", "code": 400}
            yield ErrorResponse(error=error)
            return
        if verb == "crash":
            raise RuntimeError("secret/path/of/engine.py exploded")
        usage = {"prompt_tokens": 7, "completion_tokens": count, "total_tokens": 0}
        metrics = {"speculative_decoding": METRICS} if self.speculative else None
        if not request.stream:
            if verb == "slow":
                await asyncio.sleep(0.05 * count)
            yield self._whole(request, "word " * count, usage, metrics, chat=chat)
            return
        for i in range(count):
            if verb == "slow":
                await asyncio.sleep(0.05)
            if verb == "break" and i == count - 1:
                yield 'data: {"error": {"message": "engine died", "code": 500}}\n\n'
                yield "data: [DONE]\n\n"
                return
            yield self._event(request, [self._choice("word ", chat=chat)])
        if verb == "fall":
            raise RuntimeError("secret/path/of/engine.py exploded")
        if verb == "cut":
            return
        if request.stream_options and request.stream_options.include_usage:
            yield self._event(request, [], usage=usage, metrics=metrics)
        yield "data: [DONE]\n\n"

    @staticmethod
    def _choice(text: str, *, chat: bool) -> dict[str, Any]:
        if chat:
            return {"index": 0, "delta": {"role": "assistant", "content": text}}
        return {"index": 0, "text": text}

    @staticmethod
    def _event(request: Any, choices: list[Any], **more: Any) -> str:
        chunk = {"id": "x", "object": "chunk", "created": 1, "model": request.model}
        body = json.dumps({**chunk, "choices": choices, **more}, separators=(",", ":"))
        return f"data: {body}\n\n"

    @staticmethod
    def _whole(request: Any, text: str, usage: Any, metrics: Any, *, chat: bool) -> Any:
        shared = {"model": request.model, "usage": usage, "metrics": metrics}
        if chat:
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return ChatCompletionResponse(choices=[choice], **shared)
        choice = {"index": 0, "text": text, "finish_reason": "stop"}
        return CompletionResponse(choices=[choice], **shared)

    # What Ray's abstract class asks for and no test uses.
    def routing_stats(self) -> dict[str, Any]:
        return {}

    async def resolve_lora(self, lora_model: Any) -> None:
        raise NotImplementedError

    async def embeddings(self, request: Any, raw_request_info: Any = None) -> Any:
        raise NotImplementedError
        yield

    async def transcriptions(self, request: Any, raw_request_info: Any = None) -> Any:
        raise NotImplementedError
        yield

    async def reset_prefix_cache(self) -> None:
        raise NotImplementedError
