"""How many tokens one step of the engine yields: the gain that drafts bring."""

from __future__ import annotations


def effective_tokens(
    completion_tokens: int, *, accepted: int, draft_steps: int
) -> float | None:
    """Tokens per engine step, the prefill apart; 1.0 is plain decoding.

    Of `completion_tokens` T the prefill yields one; each of the other T - 1 is either
    an accepted draft token or the one token that a step yields by itself. So there
    were `T - 1 - accepted` steps, and the answer is `(T - 1) / (T - 1 - accepted)`.

    vLLM counts a last step's accepted drafts before it cuts them at a stop or at
    `max_tokens`, so `accepted` may exceed what was delivered. The steps that had drafts
    (`draft_steps`, from `num_spec_steps`) are a lower bound that holds all the same.
    vLLM's own `mean_acceptance_length` is no substitute: it leaves out the steps
    without drafts, of which n-gram and suffix decoding have many.

    Returns None where T is below 2: no step after the prefill took place.

    >>> effective_tokens(101, accepted=50, draft_steps=20)
    2.0
    >>> effective_tokens(4, accepted=5, draft_steps=1)  # cut at max_tokens
    3.0
    """
    decoded = completion_tokens - 1
    if decoded < 1:
        return None
    steps = max(decoded - accepted, draft_steps, 1)
    return decoded / steps
