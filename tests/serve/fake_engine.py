"""A small engine without a model, for fast tests of the ingress on a real Ray Serve.

It speaks vLLM's protocol objects and events. The last message asks for what it does;
where the message has a second line `only ngram` or `only plain`, engines of the other
kind leave that, and answer as they answer all else: with 5 words.

- `words N`: N words; `slow N`: 50 ms for each
- `boom`: refused with 400; `boom500`: with an error of the engine's own
- `wrong`: a stream whose first event is an error with status 400
- `break N`: a stream that ends with an error event as vLLM's
- `crash`: an exception at once; `fall N`: after N words of a stream
- `cut N`: a stream without [DONE]
- `die N`: the engine dies after N words; `exit`: its whole process
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from typing import Any

from ray.llm._internal.serve.core.configs.openai_api_models import (
    DetokenizeResponse,
    TokenizeResponse,
)
from ray.llm._internal.serve.core.engine.protocol import LLMEngine
from ray.serve.llm.openai_api_models import (
    ChatCompletionResponse,
    CompletionResponse,
    ErrorResponse,
)
from vllm.v1.engine.exceptions import EngineDeadError

#: What vLLM's streams say when their engine has died.
DEAD = str(EngineDeadError())
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
        self.dead = False

    async def start(self) -> None:
        if failure := os.environ.get("FAKE_ENGINE_FAILURE"):
            raise ValueError(failure)

    async def collective_rpc(self, method: str, **_: Any) -> list[Any]:
        return []

    async def check_health(self) -> None:
        if self.dead:
            raise EngineDeadError()

    async def chat(self, request: Any, raw_request_info: Any = None) -> Any:
        content = request.messages[-1].get("content") if request.messages else ""
        async for item in self._answer(request, content, chat=True):
            yield item

    async def completions(self, request: Any, raw_request_info: Any = None) -> Any:
        async for item in self._answer(request, request.prompt, chat=False):
            yield item

    async def tokenize(self, request: Any, raw_request_info: Any = None) -> Any:
        tokens = list(range(len(request.prompt)))
        yield TokenizeResponse(count=len(tokens), max_model_len=9, tokens=tokens)

    async def detokenize(self, request: Any, raw_request_info: Any = None) -> Any:
        yield DetokenizeResponse(prompt="word " * len(request.tokens))

    async def _answer(
        self, request: Any, content: Any, *, chat: bool
    ) -> AsyncGenerator[Any, None]:
        if self.dead:
            raise EngineDeadError()
        command, _, where = str(content).partition("\nonly ")
        kind = "ngram" if self.speculative else "plain"
        verb, _, rest = command.partition(" ")
        if where not in ("", kind):
            verb = "words"
        count = int(rest) if rest.isdigit() else 5
        if verb == "boom":
            error = {"message": "no", "type": "BadRequestError", "code": 400}
            yield ErrorResponse(error=error)
            return
        if verb == "boom500":
            error = {"message": "secret", "type": "InternalServerError", "code": 500}
            yield ErrorResponse(error=error)
            return
        if verb == "crash":
            raise RuntimeError("secret/path/of/engine.py exploded")
        if verb == "exit":
            os._exit(1)
        if verb == "wrong":
            yield 'data: {"error": {"message": "no such", "code": 400}}\n\n'
            yield "data: [DONE]\n\n"
            return
        if verb == "die" and count == 0:
            self.dead = True
        usage = {"prompt_tokens": 7, "completion_tokens": count, "total_tokens": 0}
        metrics = {"speculative_decoding": METRICS} if self.speculative else None
        if not request.stream:
            if verb == "slow":
                await self._words(0.05 * count)
            if self.dead:
                raise EngineDeadError()
            yield self._whole(request, "word " * count, usage, metrics, chat=chat)
            return
        for i in range(count):
            if verb == "slow":
                await self._words(0.05)
            if self.dead:
                yield f'data: {{"error": {{"message": "{DEAD}", "code": 500}}}}\n\n'
                yield "data: [DONE]\n\n"
                return
            if verb == "break" and i == count - 1:
                yield 'data: {"error": {"message": "engine died", "code": 500}}\n\n'
                yield "data: [DONE]\n\n"
                return
            yield self._event(request, [self._choice("word ", chat=chat)])
        if verb == "die":
            self.dead = True
            yield f'data: {{"error": {{"message": "{DEAD}", "code": 500}}}}\n\n'
            yield "data: [DONE]\n\n"
            return
        if verb == "fall":
            raise RuntimeError("secret/path/of/engine.py exploded")
        if verb == "cut":
            return
        if request.stream_options and request.stream_options.include_usage:
            yield self._event(request, [], usage=usage, metrics=metrics)
        yield "data: [DONE]\n\n"

    async def _words(self, seconds: float) -> None:
        """Take a while; an engine that dies meanwhile ends it."""
        end = asyncio.get_running_loop().time() + seconds
        while not self.dead and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.01)

    @staticmethod
    def _choice(text: str, *, chat: bool) -> dict[str, Any]:
        if chat:
            return {"index": 0, "delta": {"role": "assistant", "content": text}}
        return {"index": 0, "text": text}

    @staticmethod
    def _event(request: Any, choices: list[Any], **more: Any) -> str:
        model = request.model or "fake"
        chunk = {"id": "x", "object": "chunk", "created": 1, "model": model}
        body = json.dumps({**chunk, "choices": choices, **more}, separators=(",", ":"))
        return f"data: {body}\n\n"

    @staticmethod
    def _whole(request: Any, text: str, usage: Any, metrics: Any, *, chat: bool) -> Any:
        model = request.model or "fake"
        shared = {"model": model, "usage": usage, "metrics": metrics}
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
