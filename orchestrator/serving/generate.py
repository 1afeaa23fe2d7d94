"""Lets the target write requests and answers in large batches, without a server."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.errors import ModelBuildError
from orchestrator.models.corpus import Answer
from orchestrator.models.prompts import Prompt
from orchestrator.serving.cpu import prepare_environment

#: Requests that run at once. On two cores with AMX, 192 gave 950 tokens/s and 64 gave
#: 720; more of them only lengthen the tail of a batch.
BATCH = 192
#: Half of the answers are greedy, as many requests are; the others teach the draft the
#: rest of the target's distribution.
TEMPERATURES = (0.0, 0.0, 0.7, 1.0)
#: What an invented request may have, in characters: less is a greeting, more is noise.
REQUEST_CHARS = (20, 1500)

T = TypeVar("T")


class OfflineTarget:
    """The target in vLLM's offline engine; `model` is its folder.

    It has a process of its own: vLLM wants OpenMP's library loaded before Python, sets
    up threads to its taste, and gives its memory back only by ending.
    """

    def __init__(self, model: Path) -> None:
        prepare_environment(ranks=1)
        self._process = ProcessPoolExecutor(1, get_context("spawn"), _load, (model,))

    def close(self) -> None:
        """End the process."""
        self._process.shutdown(cancel_futures=True)

    def invent(self, count: int, seed: int) -> list[str]:
        """Requests as the target has seen them: it writes the user's turn.

        Xu et al., "Magpie", arXiv 2406.08464. From `count` tries; not all become one.
        """
        return self._run(_invent, count, seed)

    def answer(
        self, prompts: Sequence[Prompt], max_tokens: int, seed: int
    ) -> list[Answer]:
        """Answers to the prompts, in order.

        Args:
            prompts: what to ask; one with a schema is answered with JSON that fits it.
            max_tokens: where an answer is cut.
            seed: chooses each prompt's temperature.
        """
        return self._run(_answer, prompts, max_tokens, seed)

    def _run(self, work: Callable[..., T], *args: object) -> T:
        try:
            return self._process.submit(work, *args).result()
        except BrokenExecutor as error:
            raise ModelBuildError(
                "The target's engine ended before its time; what it wrote is above. It"
                " needs 6 GiB of memory. The same command goes on where it was."
            ) from error


def _load(model: Path) -> None:
    """Start the engine of this process."""
    global _llm
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    # In this process: an engine in one more spins on a core while it waits.
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    from vllm import LLM

    _llm = LLM(
        str(model),
        dtype="bfloat16",
        enforce_eager=True,
        max_model_len=2048,
        max_num_batched_tokens=4096,
        # As in the CPU profile: with chunks, seeded requests kill the engine.
        enable_chunked_prefill=False,
        max_num_seqs=BATCH,
    )


_llm: Any


def _invent(count: int, seed: int) -> list[str]:
    from vllm import SamplingParams

    mark = "\0"
    rendered = _llm.get_tokenizer().apply_chat_template(
        [{"role": "user", "content": mark}], tokenize=False
    )
    outputs = _llm.generate(
        [rendered[: rendered.index(mark)]] * count,
        [
            SamplingParams(temperature=1.0, max_tokens=300, seed=seed + number)
            for number in range(count)
        ],
        use_tqdm=False,
    )
    ended = (o.outputs[0] for o in outputs if o.outputs[0].finish_reason == "stop")
    texts = dict.fromkeys(output.text.strip() for output in ended)
    low, high = REQUEST_CHARS
    return [text for text in texts if low <= len(text) <= high]


def _answer(prompts: Sequence[Prompt], max_tokens: int, seed: int) -> list[Answer]:
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    rng = random.Random(seed)
    temperatures = [rng.choice(TEMPERATURES) for _ in prompts]
    outputs = _llm.chat(
        [[{"role": "user", "content": prompt.text}] for prompt in prompts],
        [
            SamplingParams(
                temperature=temperature,
                max_tokens=max_tokens,
                structured_outputs=StructuredOutputsParams(json=prompt.schema)
                if prompt.schema
                else None,
            )
            for prompt, temperature in zip(prompts, temperatures, strict=True)
        ],
        use_tqdm=False,
    )
    return [
        Answer(
            kind=prompt.kind,
            temperature=temperature,
            prompt=list(output.prompt_token_ids or []),
            answer=list(output.outputs[0].token_ids),
        )
        for prompt, temperature, output in zip(
            prompts, temperatures, outputs, strict=True
        )
    ]
