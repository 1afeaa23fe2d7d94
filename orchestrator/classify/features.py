"""What a request's body and headers say: body -> Features, for any JSON object.

Nothing here raises on a body that the engine would refuse: what is missing or of the
wrong type reads as left out, and the engine's own message reaches the caller.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.classify.language import detect
from orchestrator.classify.shapes import code_lines
from orchestrator.records import Endpoint, Features

#: Characters of a text that are looked at: its beginning and its end.
HEAD, TAIL = 4096, 2048
#: Units (words, or characters without spaces) compared for the overlap.
_OVERLAP_UNITS = 100
_GUIDED = (
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
)


#: Keys and cookies decide nothing and must show up nowhere, `explain` included.
_SECRET_HEADERS = ("authorization", "cookie", "proxy-authorization", "x-api-key")


def extract(
    body: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
    *,
    endpoint: Endpoint = "chat",
    tenant: str | None = None,
) -> Features:
    """The features of one request; `headers` in any case, `body` as parsed JSON."""
    lower = {str(k).lower(): str(v) for k, v in (headers or {}).items()}
    for secret in _SECRET_HEADERS:
        lower.pop(secret, None)
    text = _completion(body) if endpoint == "completions" else _conversation(body)
    code = code_lines(text.last)
    return Features(
        endpoint=endpoint,
        model=_string(body.get("model")),
        stream=_flag(body.get("stream")),
        temperature=_number(body.get("temperature")),
        top_p=_number(body.get("top_p")),
        max_tokens=_integer(body.get("max_completion_tokens"))
        or _integer(body.get("max_tokens")),
        n=max(1, _integer(body.get("n")) or 1),
        prompts=text.prompts,
        prompt_chars=text.chars,
        prompt_tokens=text.tokens + _tokens_of_tools(body),
        turns=text.turns,
        tools=_tools(body),
        tool_choice=_choice(body),
        response_format=_type(body.get("response_format")),
        structured_outputs=any(map(body.get, _GUIDED)),
        min_p=_number(body.get("min_p")),
        logit_bias=bool(body.get("logit_bias")),
        language="code" if code >= 2 else detect(text.last),
        media=text.media,
        system_prompt=text.system,
        last_message=text.last,
        overlap=overlap(text.last, (text.system, text.previous, text.answer)),
        tenant=tenant,
        session=lower.get("x-session-id") or None,
        headers=lower,
        message_chars=text.last_chars,
        code_lines=code,
        previous_message=text.previous,
        previous_answer=text.answer,
        tool_result=text.tool_result,
    )


@dataclass(slots=True)
class _Text:
    """The texts of a request, truncated, and the size of the whole."""

    prompts: int = 1
    chars: int = 0
    tokens: int = 0
    turns: int = 0
    media: int = 0
    system: str = ""
    last: str = ""
    last_chars: int = 0
    previous: str = ""
    answer: str = ""
    tool_result: bool = False

    def count(self, text: str) -> None:
        self.chars += len(text)
        # The bytes of UTF-8 over four: a word of English, two thirds of a token for a
        # Han character, one for an emoji.
        size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
        self.tokens += -(-size // 4)


def _conversation(body: Mapping[str, Any]) -> _Text:
    out = _Text()
    messages = body.get("messages")
    answer = other = ""
    system: list[str] = []
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, Mapping):
            continue
        text, media = _content(message.get("content"))
        out.count(text)
        out.media += media
        role = message.get("role")
        out.tool_result = role in ("tool", "function") or (
            out.tool_result and role == "assistant"
        )
        if role == "user":
            out.turns += 1
            out.previous, out.last, out.last_chars = out.last, excerpt(text), len(text)
            out.answer = answer
        elif role in ("system", "developer"):
            system.append(excerpt(text))
        elif role == "assistant":
            answer = excerpt(text)
        else:
            other = text
    out.system = excerpt("\n".join(filter(None, system)))
    if not out.turns:
        out.last, out.last_chars = excerpt(other), len(other)
    return out


def _completion(body: Mapping[str, Any]) -> _Text:
    """A completion's prompt: a text, texts, token ids, or lists of token ids."""
    out = _Text()
    prompt = body.get("prompt")
    items: list[Any] = [prompt]
    if isinstance(prompt, list) and not _is_ids(prompt):
        items = prompt
    out.prompts = max(1, len(items))
    for item in items:
        if isinstance(item, str):
            out.count(item)
        elif isinstance(item, list):
            out.tokens += len(item)
    out.turns = 1 if out.chars or out.tokens else 0
    first = next((item for item in items if isinstance(item, str)), "")
    out.last, out.last_chars = excerpt(first), len(first)
    return out


def _is_ids(prompt: list[Any]) -> bool:
    return bool(prompt) and isinstance(prompt[0], int)


def _content(content: Any) -> tuple[str, int]:
    """The text of a message's content, and how many of its parts are no text."""
    if isinstance(content, str):
        return content, 0
    if not isinstance(content, list):
        return "", 0
    texts: list[str] = []
    media = 0
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) else part
        if isinstance(text, str):
            texts.append(text)
        elif isinstance(part, Mapping):
            media += 1
    return "\n".join(texts), media


def excerpt(text: str) -> str:
    """`text`, or its beginning and end where it is long."""
    if len(text) <= HEAD + TAIL:
        return text
    return f"{text[:HEAD]}\n{text[-TAIL:]}"


def overlap(text: str, earlier: Iterable[str]) -> float:
    """Share of the 4-grams of `text` seen before: in `earlier` texts or in itself.

    Grams of words, of characters where there are no spaces; only the beginnings of the
    texts are compared.

    >>> overlap("a b c d e", ["x a b c d e y"])
    1.0
    >>> overlap("one two three four", [])
    0.0
    """
    units = _units(text)
    if len(units) < 4:
        return 0.0
    seen: set[tuple[str, ...]] = set()
    for other in filter(None, earlier):
        seen |= _grams(_units(other))
    return 1.0 - len(_grams(units) - seen) / (len(units) - 3)


def _grams(units: list[str]) -> set[tuple[str, ...]]:
    return set(zip(units, units[1:], units[2:], units[3:], strict=False))


def _units(text: str) -> list[str]:
    head = text[: _OVERLAP_UNITS * 6]
    units: list[str] = head.split()[:_OVERLAP_UNITS]
    if units and len(head) > 20 * len(units):
        # No spaces: Chinese, Japanese, minified code.
        units = list(text[:_OVERLAP_UNITS])
    return units


def _tools(body: Mapping[str, Any]) -> tuple[str, ...]:
    names: list[str] = []
    for key in ("tools", "functions"):
        offered = body.get(key)
        for item in offered if isinstance(offered, list) else ():
            if isinstance(item, Mapping):
                function = item.get("function", item)
                name = function.get("name") if isinstance(function, Mapping) else None
                names.append(name if isinstance(name, str) else "")
    return tuple(names)


def _tokens_of_tools(body: Mapping[str, Any]) -> int:
    """Tools are part of the prompt: their JSON, four characters a token."""
    try:
        return len(repr(body["tools"])) // 4 if body.get("tools") else 0
    except RecursionError:
        return 0


def _choice(body: Mapping[str, Any]) -> str | None:
    """`tool_choice` as a word: a forced function reads as "function"."""
    choice = body.get("tool_choice", body.get("function_call"))
    if isinstance(choice, Mapping):
        return _type(choice) or "function"
    return _string(choice)


def _type(value: Any) -> str | None:
    return _string(value.get("type") if isinstance(value, Mapping) else value)


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


# The engine's own models take "0.7" and true for numbers, and "true" for a flag; what
# it would act on counts here, or a request could slip past the policy.


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _integer(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number.is_integer() else None


def _flag(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() in ("true", "t", "yes", "y", "on", "1")
    return value in (True, 1)
