"""Every speculative mode of the local fleet: the same text, drafts that are right."""

from __future__ import annotations

import json

import httpx
import pytest

from orchestrator.config.servefile import load_fleet
from orchestrator.models.trained import WEIGHTS
from orchestrator.serving.memory import memory_gib, needed_gib

from .conftest import MODEL, SPECULATIVE, LocalFleet
from .greedy import DETAILS, EDIT_PROMPT, PROMPTS, Step, assert_same_text, steps

pytestmark = pytest.mark.engine

SENTENCE = "The quick brown fox jumps over the lazy dog."


@pytest.mark.parametrize("pool", SPECULATIVE)
def test_sampling_on_a_speculative_pool_is_mended(fleet: LocalFleet, pool: str) -> None:
    """Unmended, vLLM 0.29 answers with noise here; see docs/compatibility.md."""
    pools = httpx.get(f"{fleet.url}/router/status").json()["pools"]
    assert pools[pool]["sampling"] is True
    # At 0.1 nearly every token is the most probable one, as when greedy.
    greedy, sampled = (
        _acceptance_rate(fleet, pool, EDIT_PROMPT, temperature=temperature)
        for temperature in (0.0, 0.1)
    )
    assert sampled > 0.5 * greedy > 0.05
    body = {
        "model": MODEL,
        "prompt": f"{SENTENCE} " * 6,
        "max_tokens": 40,
        "temperature": 0.1,
    }
    answer = fleet.post("/v1/completions", body, **{"x-spec-pool": pool}).json()
    assert "quick brown fox" in answer["choices"][0]["text"]
    if pool == "ngram":  # the trained drafts can't copy
        drafts = answer["metrics"]["speculative_decoding"]
        assert drafts["draft_acceptance_rate"] > 0.3


@pytest.mark.parametrize("pool", SPECULATIVE)
@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_greedy_text_is_plains(fleet: LocalFleet, pool: str, prompt: str) -> None:
    """In bfloat16 a verification step of six tokens rounds otherwise than of one."""
    plain, drafted = (_greedy(fleet, prompt, name) for name in ("plain", pool))
    assert_same_text(plain, drafted, rounding=2**-5)


def test_all_modes_together_fit_in_20_gib(fleet: LocalFleet) -> None:
    taken = memory_gib()
    assert taken.keys() == {"plain", *SPECULATIVE, "router"}
    assert min(taken.values()) > 0.3
    # What was reckoned before the start counts Ray's own processes too.
    reckoned = needed_gib(load_fleet(fleet.cluster).fleet)
    assert sum(taken.values()) < reckoned < 20


@pytest.mark.parametrize("pool", ["draft", "eagle"])
def test_the_longest_prompt_is_answered(fleet: LocalFleet, pool: str) -> None:
    """With no room for the drafts in its step, it would wait for ever."""
    body = {"model": MODEL, "prompt": [100] * 2047, "max_tokens": 1}
    answer = fleet.post("/v1/completions", body, **{"x-spec-pool": pool}).json()
    assert answer["usage"]["prompt_tokens"] == 2047


@pytest.mark.parametrize("pool", ["draft", "eagle"])
def test_a_trained_draft_is_right_as_often_as_in_training(
    fleet: LocalFleet, pool: str
) -> None:
    """Wrongly joined, it would still give the right text, and hardly ever be right."""
    drafted = right = 0
    for prompt in PROMPTS.values():
        answer = fleet.chat(prompt, max_tokens=96, pool=pool).json()
        histogram = answer["metrics"]["speculative_decoding"]["acceptance_histogram"]
        drafted += sum(histogram)
        right += sum(histogram[1:])
    reported = json.loads((WEIGHTS / f"{pool}.json").read_text())["held_out"]["all"][0]
    assert right / drafted > 0.4 * reported


def _greedy(fleet: LocalFleet, prompt: str, pool: str) -> list[Step]:
    response = fleet.chat(prompt, max_tokens=64, pool=pool, **DETAILS)
    assert response.headers["x-spec-pool"] == pool
    return steps(response.json())


def _acceptance_rate(
    fleet: LocalFleet, pool: str, prompt: str, temperature: float
) -> float:
    body = {"max_tokens": 96, "temperature": temperature, "seed": 1}
    answer = fleet.chat(prompt, pool=pool, **body).json()
    return float(answer["metrics"]["speculative_decoding"]["draft_acceptance_rate"])
