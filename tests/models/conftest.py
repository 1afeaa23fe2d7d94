"""A target that trains in seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

LETTERS = "abcdefgh"


@pytest.fixture(scope="session")
def small_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Llama with a tokenizer of letters and pairs of them."""
    folder = tmp_path_factory.mktemp("target")
    torch.manual_seed(1)
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    pairs = [(a, b) for a in LETTERS for b in LETTERS]
    for text in [*LETTERS, *(a + b for a, b in pairs)]:
        vocab[text] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab, pairs, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"}'
    )
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    config = LlamaConfig(
        vocab_size=len(vocab),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=30,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
        unk_token_id=0,
    )
    LlamaForCausalLM(config).bfloat16().save_pretrained(folder)
    return folder
