"""The two kinds of draft that are trained: a small Llama, and an EAGLE-3 head."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from orchestrator.models.layers import (
    Attention,
    Mlp,
    RmsNorm,
    Rotary,
    Shape,
    chained_attention,
)

#: SmolLM2's unknown token, which vLLM puts for tokens that a draft does not have.
UNKNOWN = 0


class Layer(nn.Module):
    """A Llama decoder layer on one stream; its names are Transformers'."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = RmsNorm(shape.hidden_size, shape.eps)
        self.self_attn = Attention(shape, shape.hidden_size)
        self.post_attention_layernorm = RmsNorm(shape.hidden_size, shape.eps)
        self.mlp = Mlp(shape.hidden_size, shape.intermediate_size)


class Draft(nn.Module, ABC):
    """What training needs of a draft.

    `first` is how far behind a position the token of stream 0 lies: a model predicts
    the next token (1), an EAGLE head, which is told the next one, that after it (2).
    """

    first: int

    def readable(self, tokens: Tensor, known: Tensor) -> Tensor:
        """`tokens` as the draft reads them; `known` marks those that it can say."""
        return tokens

    @abstractmethod
    def forward(
        self,
        embed: Tensor,
        tokens: Tensor,
        features: Tensor,
        streams: int,
        mask: Tensor,
    ) -> list[Tensor]:
        """Hidden states after the last norm, one [batch, length, hidden_size] a stream.

        Args:
            embed: the target's embedding, [vocabulary, hidden_size].
            tokens: the texts, [batch, length].
            features: the target's hidden states of its chosen layers,
                [batch, length, layers x hidden_size].
            streams: how many draft tokens to train.
            mask: stream 0's attention mask.
        """


class ParallelDraft(Draft):
    """A few Llama layers that draft all their tokens in one pass (PARD).

    Stream `j` reads a mask token, whose embedding is learned, in place of the tokens
    that are not drafted yet: An et al., "PARD", arXiv 2504.18583.
    """

    first = 1

    def __init__(self, shape: Shape, layers: int, length: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(shape) for _ in range(layers))
        self.norm = RmsNorm(shape.hidden_size, shape.eps)
        self.mask_embedding = nn.Parameter(torch.zeros(shape.hidden_size))
        self._rotary = Rotary(shape.head_dim, shape.theta, length)

    def readable(self, tokens: Tensor, known: Tensor) -> Tensor:
        """Its embedding has no other tokens: they read as the unknown one."""
        return torch.where(known[tokens], tokens, UNKNOWN)

    def forward(
        self,
        embed: Tensor,
        tokens: Tensor,
        features: Tensor,
        streams: int,
        mask: Tensor,
    ) -> list[Tensor]:
        """All streams go through each layer together."""
        text = embed[tokens]
        blank = self.mask_embedding.to(text.dtype).expand_as(text)
        states = [text] + [blank] * (streams - 1)
        for layer in self.layers:
            assert isinstance(layer, Layer)
            parts = [
                layer.self_attn.project(layer.input_layernorm(x), self._rotary, stream)
                for stream, x in enumerate(states)
            ]
            keys, values = [p[1] for p in parts], [p[2] for p in parts]
            for stream, x in enumerate(states):
                seen = slice(stream + 1)
                heads = chained_attention(
                    parts[stream][0], keys[seen], values[seen], mask
                )
                x = x + layer.self_attn.join(heads)
                states[stream] = x + layer.mlp(layer.post_attention_layernorm(x))
        return [self.norm(x) for x in states]


class EagleHead(Draft):
    """One layer on the target's own hidden states (EAGLE-3).

    Li et al., "EAGLE-3", arXiv 2503.01840. Stream 0 sees the target's hidden states,
    every later one its own output in their place, as it will when it drafts.
    """

    first = 2

    def __init__(self, shape: Shape, aux_layers: int, length: int) -> None:
        super().__init__()
        size = shape.hidden_size
        self.fc = nn.Linear(aux_layers * size, size, bias=False)
        self.input_layernorm = RmsNorm(size, shape.eps)
        self.hidden_norm = RmsNorm(size, shape.eps)
        self.self_attn = Attention(shape, 2 * size)
        self.post_attention_layernorm = RmsNorm(size, shape.eps)
        self.mlp = Mlp(size, shape.intermediate_size)
        self.norm = RmsNorm(size, shape.eps)
        self._rotary = Rotary(shape.head_dim, shape.theta, length)

    def forward(
        self,
        embed: Tensor,
        tokens: Tensor,
        features: Tensor,
        streams: int,
        mask: Tensor,
    ) -> list[Tensor]:
        """One stream after the other: each reads what the one before it made."""
        hidden = self.fc(features)
        keys: list[Tensor] = []
        values: list[Tensor] = []
        outputs: list[Tensor] = []
        for stream in range(streams):
            shifted = torch.roll(tokens, -1 - stream, 1)
            x = torch.cat(
                (self.input_layernorm(embed[shifted]), self.hidden_norm(hidden)), -1
            )
            query, key, value = self.self_attn.project(x, self._rotary, stream)
            keys.append(key)
            values.append(value)
            hidden = hidden + self.self_attn.join(
                chained_attention(query, keys, values, mask)
            )
            hidden = hidden + self.mlp(self.post_attention_layernorm(hidden))
            outputs.append(self.norm(hidden))
        return outputs
