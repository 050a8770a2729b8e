"""Ranks, recalls, their confidence intervals, and times. Ties rank before the true item; NaN scores are an error."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from x2localizer.types import Floats

Ranks = npt.NDArray[np.int64]


def ranks_of(scores: npt.NDArray[np.floating], truth: npt.NDArray[np.integer]) -> Ranks:
    """Ranks (q,) of the true items, from 1.

    ``scores`` (q, n) has a row for each query and a column for each item, ``truth`` (q,) the column of the true item.
    An item with the same score as the true one ranks before it.
    """
    if np.isnan(scores).any():
        raise ValueError("a score is not a number")
    own = scores[np.arange(len(scores)), truth]
    return np.asarray((scores >= own[:, None]).sum(1), np.int64)


def recall_at(ranks: Ranks, k: int) -> float:
    """Percentage of queries whose true item is among the first ``k``."""
    return float((ranks <= k).mean() * 100.0)


def one_percent(items: int) -> int:
    """The k of Recall@1%: a hundredth of the gallery's items, rounded down, at least 1."""
    return max(1, items // 100)


def bootstrap_interval(
    hits: npt.NDArray[np.floating],
    seed: int = 42,
    draws: int = 2000,
    weights: npt.NDArray[np.floating] | None = None,
) -> tuple[float, float]:
    """95% bootstrap interval of the mean of ``hits`` (q,), which ``weights`` (q,) may weigh; resamples queries."""
    rng = np.random.default_rng(seed)
    drawn = (rng.integers(0, len(hits), len(hits)) for _ in range(draws))
    means = [
        float(hits[rows].mean() if weights is None else np.average(hits[rows], weights=weights[rows]))
        for rows in drawn
    ]  # fmt: skip
    low, high = np.percentile(means, (2.5, 97.5))
    return float(low), float(high)


def nested_interval(hits: npt.NDArray[np.floating], seed: int = 42, draws: int = 2000) -> tuple[float, float]:
    """95% bootstrap interval of the mean of ``hits`` (s, q): of s trainings on the same q queries; resamples both.

    Of a single training it is :func:`bootstrap_interval`.
    """
    rng, of_trainings = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    s, q = hits.shape
    means = []
    for _ in range(draws):
        rows = rng.integers(0, q, q)
        means.append(float(hits[of_trainings.integers(0, s, s)].mean(0)[rows].mean()))
    low, high = np.percentile(means, (2.5, 97.5))
    return float(low), float(high)


def paired_difference(
    a: npt.NDArray[np.floating], b: npt.NDArray[np.floating], seed: int = 42, draws: int = 2000
) -> tuple[float, float, float]:
    """Mean of ``a - b`` over the same queries, then the low and high end of its 95% bootstrap interval."""
    difference: Floats = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    low, high = bootstrap_interval(difference, seed, draws)
    return float(difference.mean()), low, high


def times_s(work: Callable[[], object], times: int) -> list[float]:
    """Seconds of some runs, after one to warm up."""
    work()
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return spent


def fastest_s(work: Callable[[], object], times: int) -> float:
    """Seconds of the fastest of some runs, after one to warm up."""
    return min(times_s(work, times))
