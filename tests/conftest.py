"""What tests of several folders share: the running fleet, and a small target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


class Fleets:
    """Starts fleets, which takes minutes, and stops one before it starts another.

    Test files that ask for a fleet by the same name, one after the other, share it.
    """

    def __init__(self) -> None:
        self._name = ""
        self._fleet: Any = None
        self._stack = ExitStack()

    def use(self, name: str, start: Callable[[], AbstractContextManager[T]]) -> T:
        """The running fleet of this name; `start` starts it where there is none."""
        if name != self._name:
            self.stop()
            self._fleet = self._stack.enter_context(start())
            self._name = name
        fleet: T = self._fleet
        return fleet

    def stop(self) -> None:
        """Stop the fleet that runs."""
        self._name, self._fleet = "", None
        self._stack.close()


@pytest.fixture(scope="session")
def fleets() -> Iterator[Fleets]:
    fleets = Fleets()
    yield fleets
    fleets.stop()


@pytest.fixture
def no_fleet(fleets: Fleets) -> None:
    """For a test that starts a fleet in its own way."""
    fleets.stop()


@pytest.fixture(scope="session")
def small_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target that trains in seconds: a tiny random Llama, whose tokenizer has letters
    and pairs of them.
    """
    # Imported here: most tests do without PyTorch.
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM

    letters = "abcdefgh"
    folder = tmp_path_factory.mktemp("target")
    torch.manual_seed(1)
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    pairs = [(a, b) for a in letters for b in letters]
    for text in [*letters, *(a + b for a, b in pairs)]:
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
