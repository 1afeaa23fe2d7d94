"""Every error becomes a response in OpenAI's shape that gives nothing away."""

import json
from typing import Any

import pydantic
import pytest
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from orchestrator.errors import QuarantinedError, UnauthorizedError, UnavailableError
from orchestrator.serving import hooks
from orchestrator.serving.failures import PoolFailedError
from orchestrator.serving.invalid import (
    MAX_PARAM,
    MAX_SEARCHED,
    MAX_TEXT,
    ChatBody,
    DetokenizeBody,
)
from orchestrator.serving.replies import HANDLED, error_event, handle, refusal

CHAT: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(ChatBody)
IDS: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(DetokenizeBody)
USER = {"messages": [{"role": "user", "content": "x"}]}


def told(error: Exception) -> tuple[int, dict[str, Any], Any]:
    response = refusal(error)
    body = json.loads(response.body)
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return response.status_code, body["error"], response.headers


def invalid(body: dict[str, Any]) -> Exception:
    """What FastAPI hands to the app's handlers for a chat request."""
    try:
        CHAT.validate_python(body)
    except pydantic.ValidationError as error:
        return RequestValidationError(
            [{**e, "loc": ("body", *e["loc"])} for e in error.errors()]
        )
    except hooks.VLLMClientError as error:
        return error
    raise AssertionError("valid")


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        ({}, "messages: Field required", "messages"),
        ({"messages": "x"}, "messages: Input should be a valid list", "messages"),
        (
            {"messages": [{"role": "user", "content": 5}]},
            "messages[0].content: Input should be a valid string",
            "messages[0].content",
        ),
        (
            {"messages": [{"content": "x"}]},
            "messages[0].role: Field required",
            "messages[0].role",
        ),
        (
            {**USER, "temperature": "hot"},
            "temperature: Input should be a valid number, unable to parse string as a "
            "number",
            "temperature",
        ),
        (
            {**USER, "response_format": {"type": "SECRET"}},
            "response_format.type: Input should be 'text', 'json_object' or "
            "'json_schema'",
            "response_format.type",
        ),
        (
            {**USER, "logprobs": True, "top_logprobs": -777},
            "`top_logprobs` must be a positive value or -1.",
            "top_logprobs",
        ),
        (
            {**USER, "stream_options": {"include_usage": True}},
            "Stream options can only be defined when `stream=True`.",
            "stream_options",
        ),
        (
            {**USER, "tool_choice": "SECRET"},
            "When using `tool_choice`, `tools` must be set.",
            "tool_choice",
        ),
        # vLLM's own checks fail with a TypeError or the like on these.
        (
            {**USER, "structured_outputs": [1]},
            "structured_outputs: has a value of the wrong type",
            "structured_outputs",
        ),
        ({"messages": 5}, "messages: has a value of the wrong type", "messages"),
        # pydantic leaves these to who reads the content.
        (
            {"messages": [{"role": "user", "content": [5]}]},
            "messages: a content is not valid",
            "messages",
        ),
        ({**USER, "logit_bias": {"S" * 999: "SECRET"}}, None, None),
    ],
)
def test_a_wrong_field_is_named_and_not_repeated(
    body: dict[str, Any], message: str | None, param: str | None
) -> None:
    status, error, _ = told(invalid(body))
    assert status == 400
    if message is not None:
        assert (error["message"], error["param"]) == (message, param)
    assert len(error["message"]) <= MAX_TEXT
    assert len(error["param"]) <= MAX_PARAM
    assert error["type"] == "invalid_request_error"
    assert "SECRET" not in json.dumps(error)
    assert "777" not in json.dumps(error)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({**USER, **{f"f{i}": 1 for i in range(300)}}, "more than 256 fields"),
        ({"messages": [0] * 20_000}, "more than 10000"),
        ({"messages": [0] * 1000}, "has 8000 mistakes"),
    ],
)
def test_checking_a_body_has_its_bounds(body: dict[str, Any], message: str) -> None:
    _, error, _ = told(invalid(body))
    assert message in error["message"]


def nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.mark.parametrize(
    ("other", "param"),
    [
        ("y" * (MAX_SEARCHED // 2), "messages"),
        ("y" * MAX_SEARCHED, None),
        # Nothing that could be parsed; writing it out reaches Python's limit as well.
        (nested(2000), None),
    ],
    ids=["small", "large", "deep"],
)
def test_a_wrong_field_is_looked_for_in_small_bodies_only(
    other: Any, param: str | None
) -> None:
    status, error, _ = told(invalid({"messages": 5, "other": other}))
    field = f"{param}: has a value" if param else "The body has values"
    assert (status, error["param"]) == (400, param)
    assert error["message"].startswith(f"{field} of the wrong type")


def test_ids_that_no_tokenizer_takes_are_refused() -> None:
    assert IDS.validate_python({"tokens": [2**31 - 1]}).tokens == [2**31 - 1]
    with pytest.raises(pydantic.ValidationError, match="larger than any vocabulary"):
        IDS.validate_python({"tokens": [1, 2**40]})


def test_what_is_no_json_object() -> None:
    no_object = {"type": "model_attributes_type", "loc": ("body",), "msg": "?"}
    _, error, _ = told(RequestValidationError([no_object]))
    assert "Content-Type: application/json" in error["message"]
    broken = {
        "type": "json_invalid",
        "loc": ("body", 3),
        "msg": "JSON decode error",
        "ctx": {"error": "Expecting value"},
    }
    _, error, _ = told(RequestValidationError([broken]))
    assert error["message"] == "The body is not valid JSON: Expecting value."


def test_headers_of_refusals() -> None:
    assert told(UnavailableError("full"))[2]["retry-after"] == "1"
    assert told(HTTPException(429, "slowly"))[2]["retry-after"] == "1"
    assert told(UnauthorizedError("no"))[2]["www-authenticate"] == "Bearer"
    assert told(HTTPException(405, "no", {"Allow": "GET"}))[2]["allow"] == "GET"
    assert "retry-after" not in told(HTTPException(404, "no"))[2]


def test_codes() -> None:
    assert told(QuarantinedError(9.7))[1]["code"] == "quarantined"
    assert told(HTTPException(404, "no"))[1]["code"] == 404
    status, error, _ = told(RuntimeError("secret/path.py"))
    assert (status, error["message"]) == (500, "The router failed; its log says why.")


def test_a_message_need_not_be_valid_text() -> None:
    assert told(HTTPException(404, "no model \ud800"))[0] == 404


def test_an_event_that_ends_a_stream() -> None:
    event = error_event(PoolFailedError("X", died=True))
    assert event.startswith('data: {"error": {')
    assert event.endswith("}\n\n")
    error = json.loads(event[6:])["error"]
    assert error["message"] == "The pool failed; the answer is not complete."


def test_ray_and_fastapi_handle_nothing_themselves() -> None:
    app = hooks.make_app()
    for error in HANDLED:
        app.add_exception_handler(error, handle)
    others = {e for e, h in app.exception_handlers.items() if h is not handle}
    assert {e.__name__ for e in others} <= {"WebSocketRequestValidationError"}
