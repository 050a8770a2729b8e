from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from x2localizer.metrics import bootstrap_interval, fastest_s, one_percent, paired_difference, ranks_of, recall_at


@given(st.integers(1, 6), st.integers(1, 8), st.integers(0, 10_000))
def test_ranks_equal_a_brute_force_count_with_ties(queries: int, items: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, (queries, items)).astype(float)
    truth = rng.integers(0, items, queries)
    ranks = ranks_of(scores, truth)
    for q in range(queries):
        before = sum(scores[q, j] >= scores[q, truth[q]] for j in range(items) if j != truth[q])
        assert ranks[q] == 1 + before


def test_equal_scores_help_nobody() -> None:
    ranks = ranks_of(np.zeros((5, 10)), np.arange(5))
    assert (ranks == 10).all()
    assert recall_at(ranks, 1) == 0.0
    assert recall_at(ranks, 10) == 100.0


def test_a_score_that_is_no_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a number"):
        ranks_of(np.array([[0.0, np.nan]]), np.array([0]))


@pytest.mark.parametrize(("items", "count"), [(1, 1), (99, 1), (448, 4), (3103, 31)])
def test_one_percent_of_the_gallery(items: int, count: int) -> None:
    assert one_percent(items) == count


def test_intervals_hold_the_mean_and_shrink() -> None:
    rng = np.random.default_rng(0)
    few, many = (rng.uniform(size=100) < 0.3).astype(float), (rng.uniform(size=10_000) < 0.3).astype(float)
    low, high = bootstrap_interval(few)
    assert low < few.mean() < high
    tight = bootstrap_interval(many)
    assert tight[1] - tight[0] < 0.3 * (high - low)
    mean, low, high = paired_difference(few + 0.5, few)
    assert mean == pytest.approx(0.5)
    assert low == pytest.approx(0.5)
    assert high == pytest.approx(0.5)


def test_the_interval_of_a_weighted_mean_lies_around_it() -> None:
    rng = np.random.default_rng(0)
    hits = rng.uniform(size=400)
    weights = np.where(hits > 0.5, 9.0, 1.0)  # those that are right weigh more
    low, high = bootstrap_interval(hits, weights=weights)
    assert low < np.average(hits, weights=weights) < high
    assert low > hits.mean()
    assert bootstrap_interval(hits, weights=np.full(400, 3.0)) == pytest.approx(bootstrap_interval(hits))


def test_the_fastest_run_counts_after_one_to_warm_up() -> None:
    pauses = iter([0.0, 0.05, 0.001, 0.05])
    spent = fastest_s(lambda: time.sleep(next(pauses)), 3)
    assert 0.001 <= spent < 0.05
    assert next(pauses, None) is None
