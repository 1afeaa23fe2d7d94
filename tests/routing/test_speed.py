import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.routing.speed import effective_tokens

DRAFTS = 5


def decode(max_tokens: int, plan: list[int | None]) -> tuple[int, int, int, int]:
    """Count as vLLM does: (tokens, accepted, steps with drafts, all steps).

    `plan` says for each step how many of 5 drafts are accepted, or None for a step
    without drafts. Accepted drafts are counted before the answer is cut.
    """
    tokens, accepted, draft_steps, steps = 1, 0, 0, 0
    for step in plan:
        if tokens >= max_tokens:
            break
        steps += 1
        tokens += 1 + (step or 0)
        accepted += step or 0
        draft_steps += step is not None
    return min(tokens, max_tokens), accepted, draft_steps, steps


def test_plain_decoding_is_one() -> None:
    assert effective_tokens(50, accepted=0, draft_steps=0) == 1.0


def test_one_token_had_no_step() -> None:
    assert effective_tokens(1, accepted=0, draft_steps=0) is None


@pytest.mark.parametrize("max_tokens", range(1, 9))
def test_a_cut_last_step_never_turns_it_negative(max_tokens: int) -> None:
    tokens, accepted, draft_steps, steps = decode(max_tokens, [DRAFTS] * 3)
    got = effective_tokens(tokens, accepted=accepted, draft_steps=draft_steps)
    assert got == ((tokens - 1) / steps if tokens > 1 else None)


@given(
    st.integers(2, 60),
    st.lists(st.one_of(st.none(), st.integers(0, DRAFTS)), min_size=60, max_size=60),
)
def test_close_to_the_truth_whatever_was_accepted(
    max_tokens: int, plan: list[int | None]
) -> None:
    tokens, accepted, draft_steps, steps = decode(max_tokens, plan)
    got = effective_tokens(tokens, accepted=accepted, draft_steps=draft_steps)
    assert got is not None
    # Only a last step that was cut can be miscounted, by its drafts at most.
    counted = round((tokens - 1) / got)
    assert max(steps - DRAFTS, draft_steps, 1) <= counted <= steps
