"""Checks request bodies, and says what is wrong with one."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from orchestrator.serving import hooks
from orchestrator.serving.hooks import VLLMClientError, sanitize_chat

#: Longer messages come from validators that repeat what they were given.
MAX_TEXT = 300
#: A name in `param` is the client's own; cut, as messages are.
MAX_PARAM = 100
#: More than any request needs, so that checking one can't take the router's time or
#: memory: pydantic keeps several mistakes for each item of a list.
MAX_FIELDS = 256
MAX_MESSAGES = 10_000
MAX_MISTAKES = 1000
#: Characters of a body in which the wrong field is looked for: that checks the body
#: once for each field, and no other request passes meanwhile.
MAX_SEARCHED = 2**16
_OURS = "checked_here"
_TYPES = ("str", "int", "float", "bool", "list", "dict", "none")
_NO_OBJECT = (
    "The body must be a JSON object, sent with the header"
    " `Content-Type: application/json`."
)


def _checked(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Check a body with vLLM's model, and bound what checking may cost.

    vLLM's own checks stumble over types that they do not expect: `-1 > "a"` is a
    TypeError, and would be the router's failure. The wrong field is the one without
    which that does not happen.
    """
    fields = value if isinstance(value, dict) else {}
    messages = fields.get("messages")
    if len(fields) > MAX_FIELDS:
        raise _custom(f"The body has more than {MAX_FIELDS} fields.")
    if isinstance(messages, list) and len(messages) > MAX_MESSAGES:
        raise _custom(f"messages: more than {MAX_MESSAGES} of them", "messages")
    try:
        return check(value)
    except ValidationError as error:
        if error.error_count() > MAX_MISTAKES:  # each would become a dictionary
            raise _custom(f"The body has {error.error_count()} mistakes.") from None
        raise
    except VLLMClientError:
        raise
    except Exception as error:
        kind = type(error)
    for field in fields if _is_small(fields) else ():
        try:
            check({name: item for name, item in fields.items() if name != field})
        except kind:
            continue
        except Exception:
            pass
        raise _custom(f"{field}: has a value of the wrong type", field)
    raise _custom("The body has values of the wrong type.")


def _is_small(body: dict[str, Any]) -> bool:
    try:
        return len(json.dumps(body)) <= MAX_SEARCHED
    except RecursionError:
        return False


def _custom(message: str, field: str | None = None) -> PydanticCustomError:
    return PydanticCustomError(_OURS, "{message}", {"message": message, "field": field})


def _whole_messages(body: hooks.ChatCompletionRequest) -> hooks.ChatCompletionRequest:
    """Check what pydantic has left for later: the parts of messages' contents."""
    try:
        return sanitize_chat(body)
    except ValueError:
        raise _custom("messages: a content is not valid", "messages") from None


def _small_ids(body: hooks.DetokenizeRequest) -> hooks.DetokenizeRequest:
    """Refuse ids that a tokenizer, which counts in 32 bits, would fail on."""
    if any(token >= 2**31 for token in body.tokens):
        raise _custom("tokens: an id is larger than any vocabulary", "tokens")
    return body


#: The bodies of the endpoints: vLLM's models, checked to the end.
ChatBody = Annotated[
    hooks.ChatCompletionRequest,
    WrapValidator(_checked),
    AfterValidator(_whole_messages),
]
TextBody = Annotated[hooks.CompletionRequest, WrapValidator(_checked)]
TokenizeBody = Annotated[hooks.TokenizeCompletionRequest, WrapValidator(_checked)]
DetokenizeBody = Annotated[
    hooks.DetokenizeRequest, WrapValidator(_checked), AfterValidator(_small_ids)
]


def explain(errors: Sequence[Any]) -> tuple[str, str | None]:
    """The message and the `param` for the errors of a `RequestValidationError`.

    What the client sent is not repeated. Of a field that may be one of several types,
    as the messages of a chat, pydantic lists every type's errors: those of the type
    that has the fewest are the ones that the client meant.

    >>> explain([{"type": "missing", "loc": ("body", "n"), "msg": "Field required"}])
    ('n: Field required', 'n')
    """
    by_type: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for error in errors:
        if error["type"] == "json_invalid":
            reason = (error.get("ctx") or {}).get("error", "")
            return f"The body is not valid JSON: {reason}".rstrip(": ") + ".", None
        field, type_ = _place(error["loc"])
        if error["type"] == _OURS:
            named: str | None = error["ctx"]["field"]
            return error["msg"][:MAX_TEXT], named and named[:MAX_PARAM]
        if not field:
            message = str(error["msg"]).removeprefix("Value error, ")
            if error["type"] in ("model_attributes_type", "dict_type", "missing"):
                message = _NO_OBJECT
            return message[:MAX_TEXT], None
        message = str(error["msg"]).removeprefix("Value error, ")
        by_type[type_].append((field, message))
    if not by_type:
        return "The request is not valid.", None
    field, message = min(by_type.values(), key=len)[0]
    return f"{field}: {message}"[:MAX_TEXT], field[:MAX_PARAM]


def _place(loc: Sequence[str | int]) -> tuple[str, str]:
    """The field as a client would write it, and the first type that pydantic tried.

    Fields of OpenAI's API are written small; pydantic puts types between them, such as
    `ChatCompletionUserMessageParam`, `str` and `generator[...]`.
    """
    field, type_ = "", ""
    for part in loc[1:]:  # the first is "body", "query" or "path"
        if isinstance(part, int):
            field += f"[{part}]"
        elif part in _TYPES or not part.isidentifier() or part != part.lower():
            type_ = type_ or part
        else:
            field += f".{part}" if field else part
    return field, type_
