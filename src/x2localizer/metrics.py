"""Ranks and recalls. Ties never help, and a score that is not a number is an error."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from x2localizer.types import Floats

Ranks = npt.NDArray[np.int64]


def ranks_of(scores: npt.NDArray[np.floating], truth: npt.NDArray[np.integer]) -> Ranks:
    """The rank (from 1) of the true item of each row: (q, n) scores, (q,) columns -> (q,).

    Every other item with a score at least as high counts before it, so equal scores give the worst rank.
    """
    if np.isnan(scores).any():
        raise ValueError("a score is not a number")
    own = scores[np.arange(len(scores)), truth]
    return np.asarray((scores >= own[:, None]).sum(1), np.int64)


def recall_at(ranks: Ranks, k: int) -> float:
    """Share of queries, in percent, whose true item is among the first k."""
    return float((ranks <= k).mean() * 100.0)


def one_percent(items: int) -> int:
    """How many items Recall@1% looks at: a hundredth of the gallery, rounded down, at least one."""
    return max(1, items // 100)


def bootstrap_interval(
    hits: npt.NDArray[np.floating],
    seed: int = 42,
    draws: int = 2000,
    weights: npt.NDArray[np.floating] | None = None,
) -> tuple[float, float]:
    """95% interval of the (weighted) mean of per-query values, by resampling queries."""
    rng = np.random.default_rng(seed)
    drawn = (rng.integers(0, len(hits), len(hits)) for _ in range(draws))
    means = [
        float(hits[rows].mean() if weights is None else np.average(hits[rows], weights=weights[rows]))
        for rows in drawn
    ]  # fmt: skip
    low, high = np.percentile(means, (2.5, 97.5))
    return float(low), float(high)


def paired_difference(
    a: npt.NDArray[np.floating], b: npt.NDArray[np.floating], seed: int = 42, draws: int = 2000
) -> tuple[float, float, float]:
    """Mean of a - b over the same queries, with its 95% bootstrap interval."""
    difference: Floats = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    low, high = bootstrap_interval(difference, seed, draws)
    return float(difference.mean()), low, high
