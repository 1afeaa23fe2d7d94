"""Drafts trained in parallel streams must equal drafts that run token by token."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModel, AutoTokenizer, LlamaConfig

from orchestrator.models.corpus import Answer
from orchestrator.models.distil import choose_vocabulary
from orchestrator.models.drafts import EagleHead, ParallelDraft
from orchestrator.models.export import write_draft, write_eagle
from orchestrator.models.layers import Shape, causal_mask


def shape_of(small_target: Path) -> Shape:
    return Shape(LlamaConfig.from_pretrained(small_target).to_dict())


def randomise(module: torch.nn.Module) -> None:
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)


VOCABULARY = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 20, 30, 40, 50])
TEXT = torch.tensor([[1, 3, 5, 12, 20, 4, 30, 7, 50]])


@torch.no_grad()
def test_a_parallel_draft_is_what_transformers_makes_of_its_export(
    small_target: Path, tmp_path: Path
) -> None:
    torch.manual_seed(2)
    draft = ParallelDraft(shape_of(small_target), layers=2, length=32)
    randomise(draft)
    # What is written is bfloat16; the same values must be compared.
    draft.bfloat16().float()
    embed = load_file(small_target / "model.safetensors")["model.embed_tokens.weight"]
    embed = embed.float()
    write_draft(draft.state_dict(), VOCABULARY, small_target, tmp_path)
    model = AutoModel.from_pretrained(tmp_path, dtype=torch.float32)
    mask_id = model.config.pard_token

    streams = draft(embed, TEXT, Tensor(), 4, causal_mask(TEXT.shape[1]))
    own_ids = torch.tensor([VOCABULARY.tolist().index(int(t)) for t in TEXT[0]])
    for base in range(TEXT.shape[1]):
        for stream in range(4):
            ids = torch.cat((own_ids[: base + 1], torch.full((stream,), mask_id)))
            whole = model(ids[None]).last_hidden_state[0, -1]
            torch.testing.assert_close(
                streams[stream][0, base], whole, rtol=1e-3, atol=1e-4
            )


@torch.no_grad()
def test_an_eagle_head_drafts_in_streams_as_token_by_token(small_target: Path) -> None:
    torch.manual_seed(3)
    shape = shape_of(small_target)
    head = EagleHead(shape, aux_layers=3, length=32)
    randomise(head)
    embed = torch.randn(80, shape.hidden_size)
    length = TEXT.shape[1]
    features = torch.randn(1, length, 3 * shape.hidden_size)
    streams = head(embed, TEXT, features, 3, causal_mask(length))
    for base in range(length - 3):
        for stream in range(3):
            # The engine's way: the text up to `base`, then one token after the other.
            tokens = TEXT[:, 1 : base + 2 + stream]
            hidden = head.fc(features[:, : base + 1])
            for step in range(stream + 1):
                seen = tokens[:, : base + 1 + step]
                last = _token_by_token(head, embed, seen, hidden)
                hidden = torch.cat((hidden, last[0][:, None]), 1)
            torch.testing.assert_close(
                streams[stream][0, base], last[1][0], rtol=1e-3, atol=1e-4
            )


def _token_by_token(
    head: EagleHead, embed: Tensor, tokens: Tensor, hidden: Tensor
) -> tuple[Tensor, Tensor]:
    """The last position's output before and after the norm, all with one pass."""
    x = torch.cat((head.input_layernorm(embed[tokens]), head.hidden_norm(hidden)), -1)
    query, key, value = head.self_attn.project(x, head._rotary, 0)
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    scores = scores + causal_mask(tokens.shape[1])
    out = hidden + head.self_attn.join(scores.softmax(-1) @ value)
    out = out + head.mlp(head.post_attention_layernorm(out))
    return out[:, -1], head.norm(out)[:, -1]


def test_the_draft_reads_tokens_that_it_lacks_as_the_unknown_one(
    small_target: Path,
) -> None:
    draft = ParallelDraft(shape_of(small_target), layers=1, length=8)
    known = torch.zeros(80, dtype=torch.bool)
    known[VOCABULARY] = True
    assert draft.readable(torch.tensor([[3, 13, 20]]), known).tolist() == [[3, 0, 20]]


def test_the_draft_has_the_targets_texts_under_its_own_ids(
    small_target: Path, tmp_path: Path
) -> None:
    draft = ParallelDraft(shape_of(small_target), layers=1, length=8)
    write_draft(draft.state_dict(), VOCABULARY, small_target, tmp_path)
    whole = AutoTokenizer.from_pretrained(small_target).get_vocab()
    part = AutoTokenizer.from_pretrained(tmp_path).get_vocab()
    assert len(part) == len(VOCABULARY)
    assert all(int(VOCABULARY[new]) == whole[text] for text, new in part.items())


def test_an_exported_head_says_which_tokens_it_has(
    small_target: Path, tmp_path: Path
) -> None:
    head = EagleHead(shape_of(small_target), aux_layers=3, length=8)
    write_eagle(head.state_dict(), VOCABULARY, small_target, tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    own = torch.arange(len(VOCABULARY))
    assert torch.equal(own + weights["d2t"], VOCABULARY)
    embed = load_file(small_target / "model.safetensors")["model.embed_tokens.weight"]
    assert torch.equal(weights["lm_head.weight"], embed[VOCABULARY])
    assert {"fc.weight", "norm.weight", "midlayer.hidden_norm.weight"} <= set(weights)


def test_the_vocabulary_is_what_the_target_says_most() -> None:
    answers = [Answer("open", 0.0, [40], [30, 30, 31, 30, 31, 29])]
    assert choose_vocabulary(answers, 5, special=3).tolist() == [0, 1, 2, 30, 31]
    # Too few tokens are said: the lowest ids fill it.
    assert choose_vocabulary(answers, 8, 3).tolist() == [0, 1, 2, 3, 4, 29, 30, 31]
