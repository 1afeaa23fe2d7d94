"""Writes trained drafts as folders that vLLM loads, joined with the target's matrix."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from orchestrator.models.teacher import AUX_LAYERS

#: The target's embedding, which is its output matrix too.
EMBEDDING = "model.embed_tokens.weight"
_TOKENIZER_FILES = ("tokenizer_config.json", "chat_template.jinja")


def write_eagle(
    weights: dict[str, Tensor], vocabulary: Tensor, target: Path, folder: Path
) -> None:
    """An EAGLE-3 head; its embedding stays the target's, in the engine too.

    Args:
        weights: of `drafts.EagleHead`.
        vocabulary: the target's ids of the tokens that it can say, ascending.
        target: the target's folder.
        folder: where to write; it exists.
    """
    outside = ("fc.weight", "norm.weight")
    head = {
        name if name in outside else f"midlayer.{name}": tensor.bfloat16()
        for name, tensor in weights.items()
    }
    head["lm_head.weight"] = _embedding(target)[vocabulary].contiguous()
    # vLLM adds it to the draft's own id to get the target's.
    head["d2t"] = vocabulary - torch.arange(len(vocabulary))
    config = _config(target) | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": len(vocabulary),
        "tie_word_embeddings": False,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(AUX_LAYERS)},
    }
    _write(head, config, folder)


def write_draft(
    weights: dict[str, Tensor], vocabulary: Tensor, target: Path, folder: Path
) -> None:
    """A Llama of a few layers with a part of the target's vocabulary.

    The last row of its embedding is the mask token that stands for what is not drafted
    yet. Its tokenizer has the same texts under its own ids; vLLM matches them.
    """
    mask = weights["mask_embedding"].bfloat16()
    model = {
        f"model.{name}": tensor.bfloat16()
        for name, tensor in weights.items()
        if name != "mask_embedding"
    }
    model[EMBEDDING] = torch.cat((_embedding(target)[vocabulary], mask[None]))
    layers = 1 + max(int(n.split(".")[1]) for n in weights if n.startswith("layers."))
    ids = {int(old): new for new, old in enumerate(vocabulary.tolist())}
    config = _config(target) | {
        "num_hidden_layers": layers,
        "vocab_size": len(vocabulary) + 1,
        "pard_token": len(vocabulary),
    }
    for name in ("bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id"):
        config[name] = ids[config[name]]
    _write(model, config, folder)
    _write_tokenizer(ids, target, folder)


def _write(weights: dict[str, Tensor], config: dict[str, Any], folder: Path) -> None:
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    text = json.dumps(config, indent=2) + "\n"
    (folder / "config.json").write_text(text, "utf-8")


def _write_tokenizer(ids: dict[int, int], target: Path, folder: Path) -> None:
    """The target's tokenizer with the tokens of `ids` only, under their new ids."""
    tokenizer = json.loads((target / "tokenizer.json").read_text("utf-8"))
    model = tokenizer["model"]
    vocab = {text: ids[old] for text, old in model["vocab"].items() if old in ids}
    model["vocab"] = vocab
    model["merges"] = [
        [left, right]
        for left, right in model["merges"]
        if left in vocab and right in vocab and left + right in vocab
    ]
    tokenizer["added_tokens"] = [
        token | {"id": ids[token["id"]]}
        for token in tokenizer["added_tokens"]
        if token["id"] in ids
    ]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    for name in _TOKENIZER_FILES:
        shutil.copy(target / name, folder / name)


def _embedding(target: Path) -> Tensor:
    return load_file(target / "model.safetensors")[EMBEDDING]


def _config(target: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((target / "config.json").read_text("utf-8"))
    config.pop("layer_types", None)
    return config
