"""Lets the target write requests and answers in large batches, without a server."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from orchestrator.models.corpus import Answer
from orchestrator.models.prompts import Prompt
from orchestrator.serving.cpu import prepare_environment

#: Requests that run at once. On two cores with AMX, 192 gave 950 tokens/s and 64 gave
#: 720; more of them only lengthen the tail of a batch.
BATCH = 192
#: Prompts whose answers come together: what is lost when a run is broken off.
ROUND = 5 * BATCH
#: Half of the answers are greedy, as many requests are; the others teach the draft the
#: rest of the target's distribution.
TEMPERATURES = (0.0, 0.0, 0.7, 1.0)


#: What an invented request may have, in characters: less is a greeting, more is noise.
REQUEST_CHARS = (20, 1500)


class OfflineTarget:
    """The target in vLLM's offline engine; `model` is its folder."""

    def __init__(self, model: Path) -> None:
        prepare_environment(ranks=1)
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        # In one process: an engine in its own spins on a core while it waits.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        # Imported here: it takes seconds, and answers that are there need no engine.
        from vllm import LLM

        self._llm = LLM(
            str(model),
            dtype="bfloat16",
            enforce_eager=True,
            max_model_len=2048,
            max_num_batched_tokens=4096,
            # As in the CPU profile: with chunks, seeded requests kill the engine.
            enable_chunked_prefill=False,
            max_num_seqs=BATCH,
        )

    def invent(self, count: int, seed: int) -> Iterator[list[str]]:
        """Requests as the target has seen them: it writes the user's turn.

        Xu et al., "Magpie", arXiv 2406.08464. In lists of about `ROUND`, `count` or a
        few more in all.
        """
        from vllm import SamplingParams

        tokenizer = self._llm.get_tokenizer()
        mark = "\0"
        rendered = tokenizer.apply_chat_template(
            [{"role": "user", "content": mark}], tokenize=False
        )
        beginning = rendered[: rendered.index(mark)]
        seen: set[str] = set()
        for number in itertools.count():
            if len(seen) >= count:
                return
            outputs = self._llm.generate(
                [beginning] * ROUND,
                [
                    SamplingParams(
                        temperature=1.0, max_tokens=300, seed=seed + number * ROUND + i
                    )
                    for i in range(ROUND)
                ],
                use_tqdm=False,
            )
            texts = (o.outputs[0].text.strip() for o in outputs if _ended(o))
            low, high = REQUEST_CHARS
            fresh = {text for text in texts if low <= len(text) <= high} - seen
            seen |= fresh
            yield sorted(fresh)

    def answer(
        self, prompts: Sequence[Prompt], *, max_tokens: int, seed: int
    ) -> Iterator[list[Answer]]:
        """Answers to the prompts in order, in lists of up to `ROUND`.

        Args:
            prompts: what to ask; one with a schema is answered with JSON that fits it.
            max_tokens: where an answer is cut.
            seed: chooses each prompt's temperature.
        """
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        rng = random.Random(seed)
        temperatures = [rng.choice(TEMPERATURES) for _ in prompts]
        for first in range(0, len(prompts), ROUND):
            some = prompts[first : first + ROUND]
            warmth = temperatures[first : first + ROUND]
            outputs = self._llm.chat(
                [[{"role": "user", "content": prompt.text}] for prompt in some],
                [
                    SamplingParams(
                        temperature=temperature,
                        max_tokens=max_tokens,
                        structured_outputs=StructuredOutputsParams(json=prompt.schema)
                        if prompt.schema
                        else None,
                    )
                    for prompt, temperature in zip(some, warmth, strict=True)
                ],
                use_tqdm=False,
            )
            yield [
                Answer(
                    kind=prompt.kind,
                    temperature=temperature,
                    prompt=list(output.prompt_token_ids or []),
                    answer=list(output.outputs[0].token_ids),
                )
                for prompt, temperature, output in zip(
                    some, warmth, outputs, strict=True
                )
            ]


def _ended(output: Any) -> bool:
    return bool(output.outputs[0].finish_reason == "stop")
