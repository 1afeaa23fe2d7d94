"""What the target thinks of its own answers: hidden states, computed once, on disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from orchestrator.errors import ModelBuildError
from orchestrator.models.corpus import Answer, fingerprint, replace_text

#: Tokens in one pass of the target.
PASS_TOKENS = 6144
#: The longest text that is used; what is longer loses its end.
MAX_TOKENS = 1280
#: Layers whose input an EAGLE-3 head reads: low, middle and high, as vLLM takes them
#: from a target of 30 layers when the head's config names none.
AUX_LAYERS = (2, 15, 27)


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts padded at their end to the longest.

    Attributes:
        kinds: of each text.
        greedy: whether the target answered at temperature 0.
        starts: where each answer begins.
        lengths: of each text.
        tokens: [texts, longest].
        last: the target's hidden states after its last norm, [texts, longest, size].
        features: those of `AUX_LAYERS`, [texts, longest, layers x size].
    """

    kinds: list[str]
    greedy: list[bool]
    starts: list[int]
    lengths: list[int]
    tokens: Tensor
    last: Tensor
    features: Tensor


class Lessons:
    """The folder that `prepare` made.

    Attributes:
        texts: facts about them; `answers` is the fingerprint of what they were made of.
        count: how many there are.
    """

    def __init__(self, folder: Path) -> None:
        self.texts = json.loads((folder / "texts.json").read_text("utf-8"))
        self.count = len(self.texts["kinds"])
        size, tokens = self.texts["hidden_size"], self.texts["tokens"]

        def array(name: str, dtype: Any, *shape: int) -> np.ndarray[Any, Any]:
            return np.memmap(folder / name, dtype, "r", shape=(tokens, *shape))

        self._tokens = array("tokens.i32", np.int32)
        self._last = array("last.bf16", np.int16, size)
        self._features = array("features.bf16", np.int16, len(AUX_LAYERS) * size)

    def batches(self, texts: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
        """The numbers of `texts` in batches of like length, `max_tokens` padded."""
        yield from _batches(self.texts["lengths"], texts, max_tokens)

    def load(self, batch: Sequence[int]) -> Batch:
        """Read the texts of one batch."""
        facts = self.texts
        lengths = [facts["lengths"][text] for text in batch]
        offsets = [facts["offsets"][text] for text in batch]

        def read(array: np.ndarray[Any, Any]) -> Tensor:
            rows = np.zeros((len(batch), max(lengths), *array.shape[1:]), array.dtype)
            for row, offset, length in zip(rows, offsets, lengths, strict=True):
                row[:length] = array[offset : offset + length]
            return torch.from_numpy(rows)

        return Batch(
            kinds=[facts["kinds"][text] for text in batch],
            greedy=[facts["temperatures"][text] == 0 for text in batch],
            starts=[facts["starts"][text] for text in batch],
            lengths=lengths,
            tokens=read(self._tokens).long(),
            last=read(self._last).view(torch.bfloat16),
            features=read(self._features).view(torch.bfloat16),
        )


def _batches(
    lengths: Sequence[int], texts: Iterable[int], max_tokens: int
) -> Iterator[list[int]]:
    batch: list[int] = []
    for text in sorted(texts, key=lambda t: lengths[t]):
        if batch and (len(batch) + 1) * lengths[text] > max_tokens:
            yield batch
            batch = []
        batch.append(text)
    if batch:
        yield batch


def prepare(
    model: Any,
    answers: Sequence[Answer],
    folder: Path,
    progress: Callable[[int, int], None],
) -> None:
    """Write the target's hidden states for `answers` into `folder`; not resumable.

    `model` is the target as Transformers loads it; `progress` gets the texts done and
    their number. 4.6 KB per token for a hidden size of 576. Raises ModelBuildError
    where the disk has no room for that.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Of a run that was broken off; `texts.json`, written last, says that all is whole.
    for name in ("texts.json", "tokens.i32", "last.bf16", "features.bf16"):
        (folder / name).unlink(missing_ok=True)
    texts = [(a.prompt + a.answer)[:MAX_TOKENS] for a in answers]
    lengths = [len(text) for text in texts]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    size = model.config.hidden_size
    needed = int(offsets[-1]) * (4 + 2 * (1 + len(AUX_LAYERS)) * size)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelBuildError(
            f"The hidden states need {needed / 1e9:.1f} GB and {folder} has "
            f"{free / 1e9:.1f} GB left. Free some, or choose another folder."
        )

    def array(name: str, dtype: Any, *shape: int) -> np.ndarray[Any, Any]:
        whole = (int(offsets[-1]), *shape)
        return np.memmap(folder / name, dtype, "w+", shape=whole)

    tokens = array("tokens.i32", np.int32)
    last = array("last.bf16", np.int16, size)
    features = array("features.bf16", np.int16, len(AUX_LAYERS) * size)
    done = 0
    for some in _batches(lengths, range(len(texts)), PASS_TOKENS):
        longest = max(lengths[text] for text in some)
        padded = torch.zeros(len(some), longest, dtype=torch.long)
        for row, text in enumerate(some):
            padded[row, : lengths[text]] = torch.tensor(texts[text])
        with torch.inference_mode():
            # Causal, so that what pads a text's end changes nothing before it.
            states = model.model(padded, output_hidden_states=True).hidden_states
        high = torch.cat([states[layer] for layer in AUX_LAYERS], -1)
        for row, text in enumerate(some):
            place = slice(offsets[text], offsets[text + 1])
            tokens[place] = texts[text]
            length = lengths[text]
            last[place] = states[-1][row, :length].view(torch.int16).numpy()
            features[place] = high[row, :length].view(torch.int16).numpy()
        done += len(some)
        progress(done, len(texts))
    facts = {
        "answers": fingerprint(answers),
        "hidden_size": size,
        "tokens": int(offsets[-1]),
        "kinds": [a.kind for a in answers],
        "temperatures": [a.temperature for a in answers],
        "starts": [len(a.prompt) for a in answers],
        "lengths": lengths,
        "offsets": offsets[:-1].tolist(),
    }
    replace_text(folder / "texts.json", json.dumps(facts))
