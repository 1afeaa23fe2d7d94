"""How far a draft's distribution is from the target's, over the draft's vocabulary."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

#: Rows whose logits are held at once: few enough to stay in the cache. 128 took half of
#: what 1,024 did over 12,288 tokens.
CHUNK = 128


class _CrossEntropy(torch.autograd.Function):
    """The gradient is made in the forward pass, chunk by chunk, so that the logits of
    all rows never exist together. The head is frozen.
    """

    @staticmethod
    def forward(
        context: Any, hidden: Tensor, truth: Tensor, head: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        gradient = torch.empty_like(hidden)
        loss = torch.zeros(())
        picks = torch.empty(hidden.shape[:2], dtype=torch.long)
        share = weight / weight.sum()
        for first in range(0, len(truth), CHUNK):
            rows = slice(first, first + CHUNK)
            wanted = torch.matmul(truth[rows], head.T).float().softmax(-1)
            for stream, states in enumerate(hidden):
                logits = torch.matmul(states[rows], head.T).float()
                picks[stream, rows] = logits.argmax(-1)
                logs = logits.log_softmax(-1)
                part = share[stream, rows]
                loss -= (wanted * logs).sum(-1).dot(part)
                error = logs.exp_().sub_(wanted).mul_(part[:, None])
                gradient[stream, rows] = torch.matmul(error.to(head.dtype), head)
        context.save_for_backward(gradient)
        context.mark_non_differentiable(picks)
        return loss, picks

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Any:
        (gradient,) = context.saved_tensors
        return gradient * gradients[0], None, None, None


def soft_cross_entropy(
    hidden: Tensor, truth: Tensor, head: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean cross entropy with the target's own probabilities, and the draft's picks.

    Args:
        hidden: the draft's last hidden states after its norm, of every stream where it
            drafts the same next tokens, [streams, rows, hidden_size].
        truth: the target's, for these next tokens, [rows, hidden_size].
        head: the output matrix of both, [draft vocabulary, hidden_size].
        weight: of each state in the mean, [streams, rows].

    Returns:
        The loss, and each state's most probable token as an index into the draft's
        vocabulary, [streams, rows].
    """
    loss, picks = _CrossEntropy.apply(hidden, truth, head, weight)
    return loss, picks
