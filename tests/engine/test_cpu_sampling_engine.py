"""Sampling with speculation on CPU, in a real vLLM engine with the mend applied.

Everything runs in float32: a request's probabilities then don't depend on the shape of
the batch that it is in, and frequencies can be tested against exact probabilities.
"""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import pytest

from orchestrator.models.target import ensure_target

pytestmark = pytest.mark.engine


SENTENCE = "The quick brown fox jumps over the lazy dog."
#: The prompt goes on with " is" nearly always; the token after that varies, and n-gram
#: drafts one of the two fruits.
PROMPT = "My favourite fruit is apple. My favourite fruit is banana. My favourite fruit"
FIRST = " is"
#: A right sampler fails a test of frequencies this often.
FALSE_ALARM = 1e-4


@dataclass(frozen=True)
class ChiSquare:
    """A goodness-of-fit statistic beside its critical value at `FALSE_ALARM`."""

    statistic: float
    critical: float

    @property
    def fits(self) -> bool:
        return self.statistic <= self.critical


def chi_square(counts: dict[int, int], expected: dict[int, float]) -> ChiSquare:
    """Compare counts with expected probabilities; rare outcomes count as one.

    The critical value is Wilson and Hilferty's approximation.
    """
    total = sum(counts.values())
    common = [token for token, p in expected.items() if p * total >= 5]
    cells = [(counts.get(token, 0), expected[token] * total) for token in common]
    rest = total - sum(seen for seen, _ in cells)
    rest_expected = total - sum(wanted for _, wanted in cells)
    if rest_expected >= 5:
        cells.append((rest, rest_expected))
    elif rest > 20:  # what can't occur did
        return ChiSquare(math.inf, 0.0)
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in cells)
    freedom = len(cells) - 1
    spread = 2 / (9 * freedom)
    z = NormalDist().inv_cdf(1 - FALSE_ALARM)
    return ChiSquare(statistic, freedom * (1 - spread + z * math.sqrt(spread)) ** 3)


def tempered(
    logprobs: dict[int, float],
    temperature: float,
    top_k: int | None = None,
    top_p: float = 1.0,
) -> dict[int, float]:
    """The distribution that a request with these parameters samples from."""
    ranked = sorted(logprobs.items(), key=lambda item: -item[1])[:top_k]
    weights = [(token, math.exp(value / temperature)) for token, value in ranked]
    total = sum(weight for _, weight in weights)
    kept, mass = [], 0.0
    for token, weight in weights:
        if mass >= top_p * total:
            break
        kept.append((token, weight))
        mass += weight
    return {token: weight / mass for token, weight in kept}


class Engine:
    """A vLLM engine with n-gram drafts, and its counters."""

    def __init__(self) -> None:
        from vllm import LLM

        from orchestrator.serving.cpu_sampling import EXTENSION, METHOD

        self.llm = LLM(
            str(ensure_target()),
            dtype="float32",
            max_model_len=1024,
            max_num_seqs=64,
            enforce_eager=True,
            max_logprobs=-1,
            disable_log_stats=False,
            speculative_config={
                "method": "ngram",
                "num_speculative_tokens": 5,
                "prompt_lookup_min": 2,
                "prompt_lookup_max": 3,
            },
            worker_extension_cls=EXTENSION,
        )
        self.mended = self.llm.collective_rpc(METHOD)

    def counts(self) -> Counter[str]:
        """Drafts, draft tokens and accepted tokens since the engine started."""
        return Counter(
            {
                metric.name.removeprefix("vllm:spec_decode_"): metric.value
                for metric in self.llm.get_metrics()
                if metric.name.startswith("vllm:spec_decode_num_")
                and hasattr(metric, "value")
            }
        )

    def repeat_sentence(
        self, temperature: float, times: int
    ) -> tuple[list[str], float]:
        """Answers to a request for repetition, and the drafts' acceptance rate."""
        from vllm import SamplingParams

        question = f"Repeat this sentence ten times: {SENTENCE}"
        # The start of an answer, so that it repeats whatever this small model would do.
        messages = [
            {"role": "user", "content": question},
            {"role": "assistant", "content": f"{SENTENCE} {SENTENCE} {SENTENCE} The"},
        ]
        before = self.counts()
        outputs = self.llm.chat(
            [messages] * times,
            SamplingParams(temperature=temperature, max_tokens=24),
            add_generation_prompt=False,
            continue_final_message=True,
            use_tqdm=False,
        )
        spent = self.counts()
        spent.subtract(before)
        rate = spent["num_accepted_tokens"] / spent["num_draft_tokens"]
        return [output.outputs[0].text for output in outputs], rate

    def close(self) -> None:
        self.llm.llm_engine.engine_core.shutdown()
        del self.llm
        gc.collect()


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("VLLM_LOGGING_LEVEL", "WARNING")
        engine = Engine()
        yield engine
        engine.close()


def test_vllm_has_not_mended_it_itself() -> None:
    from orchestrator.serving.cpu_sampling import sampling_is_broken

    assert sampling_is_broken(), (
        "This vLLM expands sampling parameters rightly on CPU. Delete "
        "orchestrator/serving/cpu_sampling.py with its tests, what applies it in the "
        "CPU profile, and its part of docs/compatibility.md."
    )


def test_the_worker_applied_the_mend(engine: Engine) -> None:
    assert len(engine.mended) == 1
    assert "mended" in engine.mended[0]


def test_nearly_greedy_sampling_repeats_the_sentence(engine: Engine) -> None:
    texts, rate = engine.repeat_sentence(temperature=0.1, times=4)
    assert all(text.startswith(" quick brown fox jumps over") for text in texts)
    assert rate > 0.3


def test_warmer_sampling_accepts_drafts_and_stays_sound(engine: Engine) -> None:
    texts, rate = engine.repeat_sentence(temperature=0.7, times=8)
    sound = [text for text in texts if "quick brown fox" in text]
    assert len(sound) >= 6, texts
    assert rate > 0


@dataclass(frozen=True)
class Samples:
    """Tokens after `PROMPT` + `FIRST`, by the group of requests that drew them."""

    exact: dict[int, float]  # log-probabilities at temperature 1
    plain: Counter[int]
    speculative: dict[str, Counter[int]]
    drafts: int
    accepted_per_draft: float  # tokens


#: Parameters of each group of requests and how many there are. They share batches.
GROUPS: dict[str, tuple[dict[str, Any], int]] = {
    "temperature": ({"temperature": 0.7}, 600),
    "top_k": ({"temperature": 1.0, "top_k": 3}, 250),
    "top_p": ({"temperature": 0.8, "top_p": 0.6}, 250),
    "greedy": ({"temperature": 0.0}, 20),
}


@pytest.fixture(scope="module")
def samples(engine: Engine) -> Samples:
    from vllm import SamplingParams

    llm = engine.llm
    tokenizer = llm.get_tokenizer()
    prompt = {"prompt_token_ids": tokenizer(PROMPT)["input_ids"]}
    longer = {"prompt_token_ids": tokenizer(PROMPT + FIRST)["input_ids"]}
    first = longer["prompt_token_ids"][-1]

    # A prompt's own next token never meets a draft: this is plain decoding.
    [output] = llm.generate(
        [longer],
        SamplingParams(temperature=0, max_tokens=1, logprobs=-1),
        use_tqdm=False,
    )
    exact = {t: lp.logprob for t, lp in output.outputs[0].logprobs[0].items()}
    plain = llm.generate(
        [longer] * 300, SamplingParams(temperature=0.7, max_tokens=1), use_tqdm=False
    )

    requests = [name for name, (_, count) in GROUPS.items() for _ in range(count)]
    requests.sort(key=lambda name, seen=Counter(): _turn(name, seen))
    before = engine.counts()
    outputs = llm.generate(
        [prompt] * len(requests),
        [SamplingParams(max_tokens=2, **GROUPS[name][0]) for name in requests],
        use_tqdm=False,
    )
    spent = engine.counts()
    spent.subtract(before)
    drawn: dict[str, Counter[int]] = {name: Counter() for name in GROUPS}
    for name, output in zip(requests, outputs, strict=True):
        token, *after = output.outputs[0].token_ids
        if token == first and after:
            drawn[name][after[0]] += 1
    return Samples(
        exact=exact,
        plain=Counter(output.outputs[0].token_ids[0] for output in plain),
        speculative=drawn,
        drafts=spent["num_drafts"],
        accepted_per_draft=spent["num_accepted_tokens"] / spent["num_drafts"],
    )


def _turn(name: str, seen: Counter[str]) -> float:
    """Spreads each group evenly, so that batches hold several kinds of requests."""
    seen[name] += 1
    return seen[name] / GROUPS[name][1]


def test_the_tested_tokens_come_from_the_rejection_sampler(samples: Samples) -> None:
    assert sum(samples.speculative["temperature"].values()) >= 500
    drawn = sum(sum(counts.values()) for counts in samples.speculative.values())
    assert samples.drafts >= drawn
    # Some tokens are accepted drafts and some were drawn after a rejection.
    assert 0.05 < samples.accepted_per_draft < 1


def test_plain_frequencies_are_right(samples: Samples) -> None:
    result = chi_square(samples.plain, tempered(samples.exact, 0.7))
    assert result.fits, result


def test_speculative_frequencies_are_those_of_plain_decoding(samples: Samples) -> None:
    counts = samples.speculative["temperature"]
    result = chi_square(counts, tempered(samples.exact, 0.7))
    assert result.fits, result
    # The test is sharp enough to see another temperature.
    assert not chi_square(counts, tempered(samples.exact, 1.0)).fits
    assert not chi_square(counts, tempered(samples.exact, 0.5)).fits


def test_top_k_and_top_p_reach_every_draft_token(samples: Samples) -> None:
    counts = samples.speculative["top_k"]
    expected = tempered(samples.exact, 1.0, top_k=3)
    assert set(counts) <= set(expected)
    assert chi_square(counts, expected).fits

    counts = samples.speculative["top_p"]
    expected = tempered(samples.exact, 0.8, top_p=0.6)
    assert set(counts) <= set(expected)
    assert chi_square(counts, expected).fits


def test_greedy_requests_of_a_mixed_batch_stay_greedy(samples: Samples) -> None:
    best = max(samples.exact, key=lambda token: samples.exact[token])
    assert set(samples.speculative["greedy"]) == {best}
