from __future__ import annotations

import torch

from orchestrator.models.loss import CHUNK, soft_cross_entropy


def test_loss_and_gradient_are_those_of_the_formula() -> None:
    torch.manual_seed(0)
    streams, rows, size, vocabulary = 3, CHUNK + 37, 8, 50
    head = torch.randn(vocabulary, size)
    truth = torch.randn(rows, size)
    weight = torch.rand(streams, rows) + 0.1
    hidden = torch.randn(streams, rows, size, requires_grad=True)
    loss, picks = soft_cross_entropy(hidden, truth, head, weight)
    loss.backward()
    own = hidden.grad

    again = hidden.detach().clone().requires_grad_()
    wanted = (truth @ head.T).softmax(-1)
    entropy = -(wanted * (again @ head.T).log_softmax(-1)).sum(-1)
    expected = (entropy * weight).sum() / weight.sum()
    expected.backward()
    assert own is not None
    assert again.grad is not None
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(own, again.grad, rtol=1e-4, atol=1e-7)
    assert torch.equal(picks, (hidden @ head.T).argmax(-1))
