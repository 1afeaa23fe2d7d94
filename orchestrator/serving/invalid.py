"""Checks request bodies, and says what is wrong with one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

from orchestrator.serving.hooks import VLLMClientError

#: Longer messages come from validators that repeat what they were given.
MAX_MESSAGE = 300
_WRONG_TYPE = "wrong_type"
_TYPES = ("str", "int", "float", "bool", "list", "dict", "none")
_NO_OBJECT = (
    "The body must be a JSON object, sent with the header"
    " `Content-Type: application/json`."
)


def _checked(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Check a body with vLLM's model, whose own checks may stumble over wrong types.

    As `-1 > "a"` does: that is a TypeError, and would be the router's failure. The
    field is the one without which it does not happen.
    """
    try:
        return check(value)
    except (ValidationError, VLLMClientError):
        raise
    except Exception as error:
        kind = type(error)
    for field in value if isinstance(value, dict) else ():
        try:
            check({name: item for name, item in value.items() if name != field})
        except kind:
            continue
        except Exception:
            pass
        raise PydanticCustomError(
            _WRONG_TYPE, "{field}: has a value of the wrong type", {"field": field}
        )
    raise PydanticCustomError(_WRONG_TYPE, "The body has values of the wrong type.")


#: Annotates the model of a body whose checks are vLLM's.
Checked = WrapValidator(_checked)


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
        if error["type"] == _WRONG_TYPE:
            named: str | None = (error.get("ctx") or {}).get("field")
            return str(error["msg"])[:MAX_MESSAGE], named
        if not field:
            message = str(error["msg"]).removeprefix("Value error, ")
            if error["type"] in ("model_attributes_type", "dict_type", "missing"):
                message = _NO_OBJECT
            return message[:MAX_MESSAGE], None
        message = str(error["msg"]).removeprefix("Value error, ")
        by_type[type_].append((field, message))
    if not by_type:
        return "The request is not valid.", None
    field, message = min(by_type.values(), key=len)[0]
    return f"{field}: {message}"[:MAX_MESSAGE], field


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
