"""From answers to a trained draft: vocabulary, first weights, training, report."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from orchestrator.models.corpus import Answer, held_out
from orchestrator.models.drafts import Draft, EagleHead, ParallelDraft
from orchestrator.models.export import EMBEDDING, write_draft, write_eagle
from orchestrator.models.layers import Shape
from orchestrator.models.packing import pack, unpack
from orchestrator.models.teacher import AUX_LAYERS, MAX_TOKENS, Lessons
from orchestrator.models.train import Plan, Trainer

Kind = Literal["draft", "eagle"]

#: Tokens that a draft can say: the output matrix is the largest thing that a draft
#: step reads, 57 MB for all of the target's 49,152 beside 10 for the head's layer.
VOCABULARY = 12_288
#: SmolLM2's ids with a meaning of their own come first: ends of text and turn, ...
SPECIAL = 17
#: Draft tokens that are trained; the pool may draft fewer.
STREAMS: dict[Kind, int] = {"draft": 3, "eagle": 3}
#: Peak learning rates: the small Llama starts from the target's layers, the head anew.
RATES: dict[Kind, float] = {"draft": 5e-4, "eagle": 1e-3}
#: The target's layers that the small Llama starts from.
FIRST_LAYERS = (0, 1, -1)


def choose_vocabulary(answers: Sequence[Answer], size: int, special: int) -> Tensor:
    """The `size` tokens that the target says most, as ascending ids.

    The ids below `special` (end of turn and the like) are always among them, and where
    the answers have too few tokens the lowest ids, which are the commonest merges.
    """
    counts = Counter(token for answer in answers for token in answer.answer)
    wanted = dict.fromkeys(range(special))
    wanted |= dict.fromkeys(token for token, _ in counts.most_common())
    wanted |= dict.fromkeys(range(size))
    return torch.tensor(sorted(list(wanted)[:size]))


def new_draft(kind: Kind, target: Path) -> Draft:
    """An untrained draft for the target in the folder `target`."""
    config = json.loads((target / "config.json").read_text("utf-8"))
    shape = Shape(config)
    length = MAX_TOKENS + max(STREAMS.values())
    if kind == "eagle":
        return EagleHead(shape, len(AUX_LAYERS), length)
    draft = ParallelDraft(shape, len(FIRST_LAYERS), length)
    weights = load_file(target / "model.safetensors")
    own = draft.state_dict()
    layers = [layer % config["num_hidden_layers"] for layer in FIRST_LAYERS]
    for name in own:
        if name.startswith("layers."):
            number, rest = name.removeprefix("layers.").split(".", 1)
            own[name] = weights[f"model.layers.{layers[int(number)]}.{rest}"].float()
    own["norm.weight"] = weights["model.norm.weight"].float()
    draft.load_state_dict(own)
    return draft


def train(
    kind: Kind,
    target: Path,
    answers: Sequence[Answer],
    lessons: Lessons,
    folder: Path,
    epochs: int,
    progress: Callable[[int, int, float], None],
) -> dict[str, Any]:
    """Train a draft, write its weights into `folder`, and return the report.

    `folder` keeps the state after each epoch; a run that was broken off goes on there.
    """
    torch.manual_seed(1)
    learned = [a for number, a in enumerate(answers) if not held_out(number)]
    vocabulary = choose_vocabulary(learned, VOCABULARY, special=SPECIAL)
    draft = new_draft(kind, target)
    trainer = Trainer(
        draft,
        load_file(target / "model.safetensors")[EMBEDDING],
        vocabulary,
        lessons,
        Plan(epochs=epochs, streams=STREAMS[kind], rate=RATES[kind]),
        folder / f"{kind}.pt",
    )
    trainer.run(progress)
    packed = pack(draft.state_dict())
    file = folder / f"{kind}.safetensors"
    save_file(packed | {"vocabulary": vocabulary.int()}, file)
    # The report is of what is shipped, not of what was before the rounding.
    draft.load_state_dict(unpack(packed))
    return {
        "kind": kind,
        "parameters": sum(p.numel() for p in draft.parameters()),
        "vocabulary": len(vocabulary),
        "answers": len(answers),
        "answer_tokens": sum(len(answer.answer) for answer in answers),
        "epochs": trainer.log,
        "held_out": trainer.evaluate(),
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
    }


def join(kind: Kind, weights: Path, target: Path, folder: Path) -> None:
    """Write trained weights as a model that vLLM loads, into an existing folder."""
    trained = load_file(weights)
    vocabulary = trained.pop("vocabulary").long()
    write = write_eagle if kind == "eagle" else write_draft
    write(unpack(trained), vocabulary, target, folder)
