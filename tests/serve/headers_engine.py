"""The fake engine, answering with the names of the headers that reached it."""

from __future__ import annotations

from typing import Any

from fake_engine import FakeEngine


class HeadersEngine(FakeEngine):
    async def chat(self, request: Any, raw_request_info: Any = None) -> Any:
        async for answer in super().chat(request, raw_request_info):
            if not isinstance(answer, str):
                names = " ".join(sorted(raw_request_info.headers))
                answer.choices[0].message.content = names
            yield answer
