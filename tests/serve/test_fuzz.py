"""Whatever a client sends, it is never answered with a 5xx of ours.

What schemathesis makes of our OpenAPI document, valid and not, and what no document
describes: any JSON, any bytes, odd headers.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error

from .conftest import Fleet

pytestmark = [pytest.mark.serve, pytest.mark.timeout(900)]

#: For each endpoint, of what its document allows and forbids.
EXAMPLES = 1000
PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/tokenize",
    "/detokenize",
    "/router/explain",
)
thorough = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def openapi(fleet: Fleet) -> Any:
    return schemathesis.openapi.from_url(f"{fleet.url}/openapi.json")


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("path", PATHS)
def test_bodies_that_our_openapi_document_allows_and_forbids(
    openapi: Any, path: str, mode: GenerationMode
) -> None:
    @settings(thorough, max_examples=EXAMPLES // 2)
    @given(openapi[path]["POST"].as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        case.call_and_validate(checks=[not_a_server_error])

    check()


@pytest.mark.parametrize("path", ["/v1/models/{model}"])
def test_names_in_paths(openapi: Any, path: str) -> None:
    @thorough
    @given(openapi[path]["GET"].as_strategy())
    def check(case: Any) -> None:
        case.call_and_validate(checks=[not_a_server_error])

    check()


@pytest.mark.parametrize("path", PATHS)
def test_our_openapi_document_has_a_body_for_every_post(
    fleet: Fleet, path: str
) -> None:
    document = fleet.client.get("/openapi.json").json()
    content = document["paths"][path]["post"]["requestBody"]["content"]
    assert content["application/json"]["schema"]


#: Fields of requests, which get values of any kind.
FIELDS = (
    "model",
    "messages",
    "prompt",
    "tokens",
    "stream",
    "n",
    "stop",
    "seed",
    "temperature",
    "top_p",
    "max_tokens",
    "tools",
    "tool_choice",
    "response_format",
    "logit_bias",
    "min_p",
    "stream_options",
    "logprobs",
    "structured_outputs",
    "vllm_xargs",
    "user",
    "echo",
    "best_of",
    "priority",
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
#: Has what every endpoint asks for, so that the odd fields beside it are looked at.
VALID = {
    "messages": [{"role": "user", "content": "Hello"}],
    "prompt": "Hello",
    "tokens": [1],
}
odd = st.dictionaries(st.sampled_from(FIELDS), json_values)
bodies = odd | odd.map(lambda fields: {**VALID, **fields})
contents = (
    bodies.map(json.dumps).map(str.encode)
    | json_values.map(json.dumps).map(str.encode)
    | st.binary()
)
headers = st.dictionaries(
    st.sampled_from(
        ["x-request-id", "x-session-id", "x-spec-class", "x-spec-pool", "authorization"]
    ),
    st.text(st.characters(min_codepoint=32, max_codepoint=126)).map(str.strip),
)


@pytest.mark.parametrize("path", PATHS)
def test_what_no_document_describes(fleet: Fleet, path: str) -> None:
    @settings(thorough, max_examples=EXAMPLES // 4)
    @given(contents, headers)
    def check(content: bytes, more: dict[str, str]) -> None:
        sent = {"content-type": "application/json", **more}
        response = fleet.client.post(path, content=content, headers=sent)
        assert response.status_code < 500, (content, response.text)
        if response.status_code >= 400:
            error = response.json()["error"]
            assert set(error) == {"message", "type", "param", "code"}

    check()
