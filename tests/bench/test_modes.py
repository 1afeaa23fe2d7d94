from __future__ import annotations

import pytest

from orchestrator.bench.modes import ALL, Sample, summarise, survival


def sample(
    round: int, label: str, pool: str, tokens: int, seconds: float, steps: float
) -> Sample:
    histogram = () if pool == "plain" else (1, 0, 1)
    return Sample(round, label, 0.0, pool, tokens, seconds, steps, histogram)


SAMPLES = [
    sample(0, "code", "ngram", 101, 1.0, 50),
    sample(0, "code", "plain", 101, 2.0, 100),
    sample(0, "open", "ngram", 51, 3.0, 50),
    sample(0, "open", "plain", 51, 1.0, 50),
    # A round in which the machine was half as fast.
    sample(1, "code", "ngram", 101, 2.0, 50),
    sample(1, "code", "plain", 101, 4.0, 100),
    sample(1, "open", "ngram", 51, 6.0, 50),
    sample(1, "open", "plain", 51, 2.0, 50),
]


def test_each_round_is_compared_with_itself() -> None:
    cells = {(c.label, c.pool): c for c in summarise(SAMPLES, "plain")}
    code = cells["code", "ngram"]
    assert code.ratio == pytest.approx(2.0)
    assert code.tokens_per_s == pytest.approx((101 + 50.5) / 2)
    assert code.effective_tokens == pytest.approx(2.0)
    assert code.step_s == pytest.approx(3.0 / 100)
    assert cells["open", "ngram"].ratio == pytest.approx(1 / 3)
    assert cells[ALL, "plain"].ratio == 1.0
    assert cells[ALL, "plain"].effective_tokens == pytest.approx(1.0)
    # All requests together count by their tokens: 152 in 4 s beside 152 in 3 s.
    assert cells[ALL, "ngram"].ratio == pytest.approx(3 / 4)


def test_the_plain_pool_stands_first_and_all_classes_together_last() -> None:
    cells = summarise(SAMPLES, "plain")
    assert [(c.label, c.pool) for c in cells] == [
        ("code", "plain"),
        ("code", "ngram"),
        ("open", "plain"),
        ("open", "ngram"),
        (ALL, "plain"),
        (ALL, "ngram"),
    ]


def test_survival_counts_the_steps_that_had_drafts() -> None:
    assert survival([(2, 1, 1), (0, 0, 4)]) == pytest.approx((6 / 8, 5 / 8))
    assert survival([(), (1, 1)]) == pytest.approx((0.5,))
    assert survival([()]) == ()
    assert survival([(0, 0)]) == ()
