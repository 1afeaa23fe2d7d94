"""Lets the target answer prompts in large batches, with vLLM's offline engine."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

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


def generate(
    model: Path, prompts: Sequence[Prompt], *, max_tokens: int, seed: int
) -> Iterator[list[Answer]]:
    """Answers to the prompts in order, in lists of up to `ROUND`.

    Args:
        model: the target's folder.
        prompts: what to ask; one with a schema is answered with JSON that fits it.
        max_tokens: where an answer is cut.
        seed: chooses each prompt's temperature.
    """
    prepare_environment(ranks=1)
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    # In one process: an engine in its own spins on a core while it waits for the model.
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    llm = LLM(
        str(model),
        dtype="bfloat16",
        enforce_eager=True,
        max_model_len=2048,
        max_num_batched_tokens=4096,
        # As in the CPU profile: with chunks, seeded requests kill the engine.
        enable_chunked_prefill=False,
        max_num_seqs=BATCH,
    )
    rng = random.Random(seed)
    temperatures = [rng.choice(TEMPERATURES) for _ in prompts]
    for first in range(0, len(prompts), ROUND):
        some = prompts[first : first + ROUND]
        warmth = temperatures[first : first + ROUND]
        outputs = llm.chat(
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
            for prompt, temperature, output in zip(some, warmth, outputs, strict=True)
        ]
