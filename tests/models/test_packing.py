from __future__ import annotations

import torch

from orchestrator.models.packing import pack, unpack


def test_a_packed_matrix_comes_back_within_half_a_step_of_its_row() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(5, 300) * torch.tensor([[1e-3], [1.0], [50.0], [1.0], [0.0]])
    vector = torch.randn(7)
    packed = pack({"matrix": matrix, "vector": vector})
    assert packed["matrix"].dtype == torch.int8
    back = unpack(packed)
    assert back.keys() == {"matrix", "vector"}
    assert torch.equal(back["vector"], vector.bfloat16())
    assert back["matrix"].dtype == torch.bfloat16
    step = matrix.abs().amax(1, keepdim=True) / 127
    # Half a step of the rounding, and what bfloat16 leaves out.
    allowed = step / 2 + matrix.abs() * 2**-8 + 1e-9
    assert bool(((back["matrix"].float() - matrix).abs() <= allowed).all())
