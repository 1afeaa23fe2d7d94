"""The parts of a Llama draft in plain PyTorch, for several draft positions at once.

A draft is trained on *streams*. Stream 0 reads the text as it is: its output at
position `i` is the draft's first token. Stream `j` holds what the draft adds for its
token `j + 1`: an input at position `i + j` that sees the real text up to position `i`
and, of the streams, only its own chain. So one pass over a text trains the drafts that
start at each of its positions, as they will run in the engine.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


class RmsNorm(nn.Module):
    """Root mean square norm, computed in float32 as the engine does."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension of `x`."""
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return wide.to(x.dtype) * self.weight.to(x.dtype)


class Rotary:
    """Rotary position embedding in Llama's layout (two halves)."""

    def __init__(self, head_dim: int, theta: float, length: int) -> None:
        frequency = theta ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        angle = torch.outer(torch.arange(length).float(), frequency)
        self._cos = torch.cat((angle.cos(), angle.cos()), -1)
        self._sin = torch.cat((angle.sin(), angle.sin()), -1)

    def __call__(self, x: Tensor, offset: int) -> Tensor:
        """Turn `x` of shape [batch, heads, length, head_dim] from position `offset`."""
        span = slice(offset, offset + x.shape[-2])
        cos, sin = self._cos[span].to(x.dtype), self._sin[span].to(x.dtype)
        left, right = x.chunk(2, -1)
        return x * cos + torch.cat((-right, left), -1) * sin


def chained_attention(
    query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor], mask: Tensor
) -> Tensor:
    """Attention of the last stream over the text (stream 0) and its own chain.

    Args:
        query: [batch, heads, length, head_dim] of the last stream.
        keys: of each stream up to that one, [batch, heads, length, head_dim].
        values: likewise.
        mask: [batch or 1, 1, length, length], 0 where stream 0 may be seen, else -inf.
    """
    scale = query.shape[-1] ** -0.5
    scores = torch.matmul(query, keys[0].transpose(-1, -2)).float() * scale + mask
    if len(keys) > 1:
        dots = [(query * key).sum(-1, keepdim=True).float() for key in keys[1:]]
        scores = torch.cat((scores, *(dot * scale for dot in dots)), -1)
    weights = scores.softmax(-1).to(query.dtype)
    length = query.shape[-2]
    out = torch.matmul(weights[..., :length], values[0])
    for stream, value in enumerate(values[1:]):
        out = out + weights[..., length + stream, None] * value
    return out


class Attention(nn.Module):
    """Grouped-query attention whose input may be wider than its output."""

    def __init__(self, config: Shape, input_size: int) -> None:
        super().__init__()
        self.config = config
        size, heads, kv = config.hidden_size, config.heads, config.kv_heads
        self.q_proj = nn.Linear(input_size, heads * config.head_dim, bias=False)
        self.k_proj = nn.Linear(input_size, kv * config.head_dim, bias=False)
        self.v_proj = nn.Linear(input_size, kv * config.head_dim, bias=False)
        self.o_proj = nn.Linear(heads * config.head_dim, size, bias=False)

    def project(
        self, x: Tensor, rotary: Rotary, offset: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of `x`, whose first position is `offset`."""
        shape = self.config
        batch, length, _ = x.shape

        def split(y: Tensor, heads: int) -> Tensor:
            return y.view(batch, length, heads, shape.head_dim).transpose(1, 2)

        query = rotary(split(self.q_proj(x), shape.heads), offset)
        key = rotary(split(self.k_proj(x), shape.kv_heads), offset)
        groups = shape.heads // shape.kv_heads
        return (
            query,
            key.repeat_interleave(groups, 1),
            split(self.v_proj(x), shape.kv_heads).repeat_interleave(groups, 1),
        )

    def join(self, heads: Tensor) -> Tensor:
        """The output of [batch, heads, length, head_dim]."""
        return self.o_proj(heads.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    """Llama's gated feed-forward part."""

    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(size, inner, bias=False)
        self.up_proj = nn.Linear(size, inner, bias=False)
        self.down_proj = nn.Linear(inner, size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Feed `x` forward."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Shape:
    """The sizes of a Llama model, read from its Transformers config."""

    def __init__(self, config: dict[str, object]) -> None:
        def number(key: str) -> int:
            return int(str(config[key]))

        rope = config["rope_parameters"]
        assert isinstance(rope, dict)
        self.hidden_size = number("hidden_size")
        self.intermediate_size = number("intermediate_size")
        self.heads = number("num_attention_heads")
        self.kv_heads = number("num_key_value_heads")
        self.head_dim = number("head_dim")
        self.eps = float(str(config["rms_norm_eps"]))
        self.theta = float(rope["rope_theta"])


def causal_mask(length: int) -> Tensor:
    """[1, 1, length, length] for texts that are padded at their end, if at all."""
    mask = torch.full((length, length), float("-inf")).triu(1)
    return mask[None, None]
