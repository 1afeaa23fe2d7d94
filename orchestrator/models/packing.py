"""Trained weights at a quarter of their size: int8 matrices, a scale for each row."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

#: Ends the name of a matrix's scales.
_SCALE = ":scale"


def pack(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Round each matrix to int8; vectors, which are small, become bfloat16.

    A row's largest magnitude becomes 127 (symmetric per-channel quantisation).
    """
    packed = {}
    for name, tensor in weights.items():
        if tensor.dim() < 2:
            packed[name] = tensor.bfloat16()
            continue
        scale = tensor.float().abs().amax(1, keepdim=True).clamp_min(1e-12) / 127
        packed[name] = (tensor.float() / scale).round().to(torch.int8)
        packed[name + _SCALE] = scale
    return packed


def unpack(packed: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights that `pack` was given, rounded, in bfloat16."""
    return {
        name: (tensor * packed[name + _SCALE]).bfloat16()
        if name + _SCALE in packed
        else tensor
        for name, tensor in packed.items()
        if not name.endswith(_SCALE)
    }
