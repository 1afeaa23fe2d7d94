"""The real local fleet through its own endpoint: vLLM engines behind the router."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from orchestrator.bench.demo import compare
from orchestrator.bench.demo_requests import REQUESTS

from .conftest import MODEL, SPECULATIVE, LocalFleet, processes
from .greedy import (
    EDIT_PROMPT,
    JSON_PROMPT,
    TRANSLATE_PROMPT,
)

pytestmark = pytest.mark.engine


def drafts_of(answer: Any) -> dict[str, Any]:
    return dict(answer.model_extra["metrics"]["speculative_decoding"])


def test_models(fleet: LocalFleet) -> None:
    assert [model.id for model in fleet.openai.models.list()] == [MODEL]
    assert fleet.openai.models.retrieve(MODEL).id == MODEL


def test_a_whole_chat_answer_with_its_metrics(fleet: LocalFleet) -> None:
    raw = fleet.openai.chat.completions.with_raw_response.create(
        model=MODEL,
        messages=[{"role": "user", "content": EDIT_PROMPT}],
        temperature=0,
        max_tokens=96,
    )
    answer = raw.parse()
    assert raw.headers["x-spec-class"] == "code"
    assert raw.headers["x-spec-pool"] == "ngram"
    assert "def" in (answer.choices[0].message.content or "")
    assert drafts_of(answer)["num_accepted_draft_tokens"] > 10


def test_a_streamed_chat_answer_with_its_metrics(fleet: LocalFleet) -> None:
    stream = fleet.openai.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": EDIT_PROMPT}],
        temperature=0,
        max_tokens=96,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert "def" in text
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 10
    assert drafts_of(chunks[-1])["num_accepted_draft_tokens"] > 10


def test_a_stream_hides_the_usage_that_nobody_asked_for(fleet: LocalFleet) -> None:
    response = fleet.chat(EDIT_PROMPT, max_tokens=64, stream=True)
    events = [line for line in response.text.splitlines() if line]
    assert events[-1] == "data: [DONE]"
    assert all(json.loads(event[6:])["choices"] for event in events[:-1])
    row = fleet.outcome(response)
    assert row["status"] == "end"
    assert row["accepted"] > 5
    assert row["effective_tokens"] > 1
    assert sum(row["acceptance_histogram"]) > 0
    assert 0 < row["ttft_s"] < row["total_s"]
    assert row["tpot_s"] > 0


def test_text_completions(fleet: LocalFleet) -> None:
    whole = fleet.openai.completions.create(
        model=MODEL, prompt="def fibonacci(n):", temperature=0, max_tokens=32
    )
    assert "return" in whole.choices[0].text
    stream = fleet.openai.completions.create(
        model=MODEL,
        prompt="def fibonacci(n):",
        temperature=0,
        max_tokens=32,
        stream=True,
    )
    assert "".join(chunk.choices[0].text for chunk in stream) == whole.choices[0].text


def test_tokenize_and_back(fleet: LocalFleet) -> None:
    prompt = "Grüße, 世界! def f(x): return x"
    got = fleet.post("/tokenize", {"model": MODEL, "prompt": prompt}).json()
    assert got["count"] == len(got["tokens"]) > 5
    back = fleet.post("/detokenize", {"model": MODEL, "tokens": got["tokens"]}).json()
    assert back["prompt"] == prompt


@pytest.mark.parametrize("parameter", [{"min_p": 0.1}, {"logit_bias": {"42": -1}}])
def test_what_vllm_refuses_with_speculation_goes_to_plain(
    fleet: LocalFleet, parameter: dict[str, Any]
) -> None:
    assert fleet.chat(JSON_PROMPT, max_tokens=4).headers["x-spec-pool"] == "ngram"
    response = fleet.chat(JSON_PROMPT, max_tokens=4, **parameter)
    assert response.status_code == 200
    assert response.headers["x-spec-pool"] == "plain"
    forced = fleet.chat(JSON_PROMPT, max_tokens=4, pool="ngram", **parameter)
    assert forced.status_code == 400
    assert next(iter(parameter)) in forced.json()["error"]["message"]


def test_structured_outputs_on_a_speculative_pool(fleet: LocalFleet) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    response = fleet.chat(
        "Give me a person named Ada, 36 years old, as JSON.",
        max_tokens=64,
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "person", "schema": schema},
        },
    )
    assert response.headers["x-spec-pool"] == "ngram"
    answer = json.loads(response.json()["choices"][0]["message"]["content"])
    assert set(answer) == {"name", "age"}


def test_a_forced_tool_call(fleet: LocalFleet) -> None:
    demo = next(r for r in REQUESTS if r.name == "tool call")
    response = fleet.post("/v1/chat/completions", {"model": MODEL, **demo.body()})
    assert response.headers["x-spec-class"] == "structured"
    assert response.headers["x-spec-pool"] == "ngram"
    (call,) = response.json()["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    arguments = json.loads(call["function"]["arguments"])
    assert set(arguments) == {"city", "unit"}
    assert arguments["unit"] in ("celsius", "fahrenheit")


def test_several_answers_have_no_effective_tokens(fleet: LocalFleet) -> None:
    two = fleet.chat(JSON_PROMPT, max_tokens=8, n=2, temperature=0.5)
    assert len(two.json()["choices"]) == 2
    assert fleet.outcome(two)["effective_tokens"] is None
    body = {"model": MODEL, "prompt": ["a b", "c d"], "max_tokens": 4}
    batch = fleet.post("/v1/completions", body)
    assert len(batch.json()["choices"]) == 2
    assert fleet.outcome(batch)["effective_tokens"] is None


def test_a_plain_answer_yields_one_token_a_step(fleet: LocalFleet) -> None:
    row = fleet.outcome(fleet.chat("Why do cats purr?", max_tokens=8, pool="plain"))
    assert (row["pool"], row["effective_tokens"]) == ("plain", 1.0)
    assert row["drafts"] is None


def test_the_demos_comparison(fleet: LocalFleet) -> None:
    wanted = [r for r in REQUESTS if r.name in ("JSON records", "poem, T=1.0")]
    json_records, poem = compare(fleet.url, MODEL, ["plain", "ngram"], "plain", wanted)
    assert (json_records.routed.pool, json_records.plain.pool) == ("ngram", "plain")
    assert json_records.routed.rule == "structured"
    assert json_records.plain.rule == "forced"
    assert json_records.routed.acceptance_rate is not None
    assert json_records.routed.effective_tokens is not None
    assert json_records.routed.effective_tokens > 1
    assert json_records.plain.effective_tokens == 1
    assert poem.routed is poem.plain


def test_explain_says_what_the_request_would_get(fleet: LocalFleet) -> None:
    body = {"messages": [{"role": "user", "content": TRANSLATE_PROMPT}]}
    got = fleet.post("/router/explain", body).json()
    assert got["request_class"]["name"] == "translation"
    assert got["decision"]["pool"] == "ngram"
    assert {p["pool"] for p in got["pools"] if p["healthy"]} == {"plain", *SPECULATIVE}


def test_long_seeded_prompts_leave_the_engines_alive(fleet: LocalFleet) -> None:
    """Prefilled in chunks, one of them kills its engine; see docs/compatibility.md.

    Those that arrive together are more than an engine takes in one step.
    """
    engines = processes("EngineCore")
    assert len(engines) == 1 + len(SPECULATIVE)
    ended = threading.Event()
    with ThreadPoolExecutor(12) as clients:
        others = [
            clients.submit(_until, ended, fleet, pool, stream)
            for pool in ("plain", "ngram")
            for stream in (False, True)
        ]
        try:
            answers = list(clients.map(lambda i: _seeded(fleet, i), range(1, 41)))
        finally:
            ended.set()
        beside = [response for other in others for response in other.result()]
    assert [answer.status_code for answer in answers] == [200] * 40
    assert min(a.json()["usage"]["prompt_tokens"] for a in answers) > 1000
    assert {a.headers["x-spec-pool"] for a in answers} == {"plain", "ngram"}
    assert {(r.status_code, "error" in r.text) for r in beside} == {(200, False)}
    assert processes("EngineCore") == engines


def _seeded(fleet: LocalFleet, number: int) -> httpx.Response:
    """One of the long requests; no two share the beginning that a cache would keep."""
    words = " ".join(f"{number * n % 997}" for n in range(1, 281))
    return fleet.chat(
        f"List {number} of numbers: {words}. What do you see?",
        pool=("plain", "ngram")[number % 2],
        temperature=0.7,
        seed=number,
        max_tokens=16,
    )


def _until(
    ended: threading.Event, fleet: LocalFleet, pool: str, stream: bool
) -> list[httpx.Response]:
    """Short requests without a seed, one after the other."""
    responses = []
    while not ended.is_set():
        responses.append(
            fleet.chat(EDIT_PROMPT, pool=pool, max_tokens=32, stream=stream)
        )
    return responses


@pytest.mark.parametrize("pool", ["plain", "ngram"])
def test_a_seed_repeats_its_text_on_an_idle_engine(
    fleet: LocalFleet, pool: str
) -> None:
    """Among others it need not: vLLM promises no equal rounding in another batch."""
    first, again, other = (
        fleet.chat(TRANSLATE_PROMPT, pool=pool, temperature=0.7, seed=s, max_tokens=32)
        for s in (1, 1, 2)
    )
    texts = [
        r.json()["choices"][0]["message"]["content"] for r in (first, again, other)
    ]
    assert texts[0] == texts[1] != texts[2]
