"""clusters/local-cpu-tp.yaml: a model split over processes gives the same text."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest

from orchestrator.config.servefile import load_fleet
from orchestrator.models.target import ensure_target

from .conftest import CLUSTERS, LocalFleet, local_fleet, processes
from .greedy import DETAILS, PROMPTS, Step, assert_same_text, steps

pytestmark = pytest.mark.engine

CLUSTER = CLUSTERS / "local-cpu-tp.yaml"
#: Length of each answer in tokens; the split engine makes about two steps a second.
TOKENS = 24


@pytest.fixture(scope="module")
def whole(fleets: Any) -> dict[str, list[Step]]:
    """Answers of one process with the same settings, which ends before the fleet."""
    from vllm import LLM, SamplingParams

    fleets.stop()
    engine = load_fleet(CLUSTER).fleet.engine_args("plain")
    # vLLM sets variables that the fleet's processes should not inherit.
    ours = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    with mock.patch.dict(os.environ, ours):
        llm = LLM(str(ensure_target()), enable_chunked_prefill=False, **engine)
        outputs = llm.chat(
            [[{"role": "user", "content": prompt}] for prompt in PROMPTS.values()],
            SamplingParams(temperature=0, max_tokens=TOKENS, logprobs=5),
            use_tqdm=False,
        )
        llm.llm_engine.engine_core.shutdown()
    answers = {}
    for name, output in zip(PROMPTS, outputs, strict=True):
        [answer] = output.outputs
        answers[name] = [
            Step(
                f"token_id:{token}",
                likely[token].logprob,
                {f"token_id:{other}": lp.logprob for other, lp in likely.items()},
            )
            for token, likely in zip(answer.token_ids, answer.logprobs, strict=True)
        ]
    return answers


@pytest.fixture(scope="module")
def split_fleet(
    whole: dict[str, list[Step]],
    fleets: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> LocalFleet:
    data = tmp_path_factory.mktemp("data")
    started: LocalFleet = fleets.use("local-cpu-tp", lambda: local_fleet(CLUSTER, data))
    return started


def test_a_split_model_gives_the_text_of_a_whole_one(
    split_fleet: LocalFleet, whole: dict[str, list[Step]]
) -> None:
    ranks = sorted(processes("Worker_TP").values())
    assert ranks == [f"VLLM::Worker_TP{rank}" for rank in range(3)]

    def ask(prompt: str) -> list[Step]:
        answer = split_fleet.chat(prompt, max_tokens=TOKENS, **DETAILS)
        assert answer.status_code == 200, answer.text
        return steps(answer.json())

    with ThreadPoolExecutor() as clients:
        split = dict(zip(PROMPTS, clients.map(ask, PROMPTS.values()), strict=True))
    for name in PROMPTS:
        assert len(whole[name]) > TOKENS / 2
        assert_same_text(whole[name], split[name], rounding=1e-4)
