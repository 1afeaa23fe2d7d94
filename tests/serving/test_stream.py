import json

import pytest

from orchestrator.classify.features import extract
from orchestrator.records import Decision, RequestClass
from orchestrator.serving.failures import PoolFailedError
from orchestrator.serving.stream import Meter, Ticket

DRAFTS = {
    "num_draft_tokens": 10,
    "num_accepted_draft_tokens": 6,
    "num_spec_steps": 3,
    "acceptance_histogram": [1, 0, 0, 2],
}
USAGE = {"prompt_tokens": 12, "completion_tokens": 11}


def event(choices: list[object], **more: object) -> str:
    body = json.dumps({"id": "x", "choices": choices, **more}, separators=(",", ":"))
    return f"data: {body}\n\n"


def word(text: str = "hello") -> str:
    return event([{"delta": {"content": text}}])


def ticket(**body: object) -> Ticket:
    features = extract({"messages": [], "stream": True, **body}, {})
    return Ticket(
        request_id="r1",
        time=1000.0,
        started=10.0,
        features=features,
        request_class=RequestClass("code", 0.9),
        decision=Decision("ngram", "code", "why", "default", "abc"),
        pool="ngram",
        overhead_s=0.0001,
    )


def test_a_stream_from_first_chunk_to_end() -> None:
    meter = Meter(wants_usage=False)
    assert meter.event(word(), 10.5)
    assert meter.event(word(), 11.5)
    assert not meter.event(
        event([], usage=USAGE, metrics={"speculative_decoding": DRAFTS}), 11.5
    ), "a client that did not ask for the usage chunk never sees it"
    assert meter.event("data: [DONE]\n\n", 11.6)
    outcome = meter.outcome(ticket(), method="ngram", now=99.0)
    assert (outcome.status, outcome.http_status, outcome.error) == ("end", 200, None)
    assert outcome.ttft_s == pytest.approx(0.5)
    assert outcome.tpot_s == pytest.approx(1.0 / 10)
    assert outcome.total_s == pytest.approx(1.6)
    assert outcome.tokens_per_s == pytest.approx(11 / 1.6)
    assert (outcome.drafts, outcome.accepted) == (10, 6)
    assert outcome.acceptance_histogram == (1, 0, 0, 2)
    assert outcome.effective_tokens == pytest.approx(10 / 4)
    assert (outcome.pool, outcome.rule, outcome.policy_hash) == ("ngram", "code", "abc")


def test_a_client_that_asked_gets_the_usage_chunk() -> None:
    assert Meter(wants_usage=True).event(event([], usage=USAGE), 11.0)


def test_an_answer_that_looks_like_the_usage_chunk_is_passed() -> None:
    meter = Meter(wants_usage=False)
    assert meter.event(word('{"choices":[],"usage":{}}'), 11.0)
    assert meter.outcome(ticket(), method="ngram", now=12).completion_tokens is None


def test_an_error_event_in_the_stream_is_an_error() -> None:
    meter = Meter(wants_usage=False)
    meter.event(word(), 10.5)
    with pytest.raises(PoolFailedError):
        meter.event('data: {"error": {"message": "died"}}\n\n', 10.6)
    meter.fail("died", 503, 10.6)
    meter.event("data: [DONE]\n\n", 10.7)
    outcome = meter.outcome(ticket(), method="ngram", now=11.0)
    assert (outcome.status, outcome.error) == ("error", "died")
    assert outcome.total_s == pytest.approx(0.6)


def test_a_response_never_ended_was_cancelled() -> None:
    meter = Meter(wants_usage=False)
    meter.event(word(), 10.5)
    outcome = meter.outcome(ticket(), method="ngram", now=12.0)
    assert (outcome.status, outcome.http_status) == ("cancel", 499)
    assert outcome.total_s == pytest.approx(2.0)
    assert outcome.effective_tokens is None


@pytest.mark.parametrize("body", [{"n": 2}, {"prompt": ["a", "b"]}])
def test_effective_tokens_are_unknown_for_several_answers(body: dict) -> None:
    meter = Meter(wants_usage=True)
    meter.event(event([], usage=USAGE), 11.0)
    t = ticket(**body)
    if "prompt" in body:
        t.features = extract(body, {}, endpoint="completions")
    assert meter.outcome(t, method="none", now=12).effective_tokens is None


def test_a_plain_pool_yields_one_token_a_step() -> None:
    meter = Meter(wants_usage=True)
    meter.event(event([], usage=USAGE), 11.0)
    assert meter.outcome(ticket(), method="none", now=12).effective_tokens == 1.0
