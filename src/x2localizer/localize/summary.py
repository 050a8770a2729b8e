"""What came of a localization, in a few numbers; with the truth, how good it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from x2localizer import geo
from x2localizer.sources.tracks import Track
from x2localizer.types import Fix, Position


@dataclass(frozen=True, slots=True)
class Summary:
    """Shares are in percent. The last five need the truth: how many fixes it covers, the share of all guesses and of
    the sure fixes within 80 m, and the median errors of both in metres."""

    frames: int
    tracking: float
    first_fix_s: float | None
    refreshes: int
    with_truth: int = 0
    within_80m: float | None = None
    median_m: float | None = None
    sure_within_80m: float | None = None
    sure_median_m: float | None = None


def error_m(fix: Fix, truth: Position | None) -> float:
    """The distance of a guess from the truth in metres; NaN without a guess, or without truth."""
    if fix.guess is None or truth is None:
        return float("nan")
    return float(geo.distance_m(fix.guess.lat_deg, fix.guess.lon_deg, truth.lat_deg, truth.lon_deg))


def errors_m(fixes: Sequence[Fix], truth: Track) -> npt.NDArray[np.float64]:
    """The distance of each guess from the truth, in metres; NaN without a guess, or where there is no truth."""
    return np.array([error_m(fix, truth.at(fix.time_s)) for fix in fixes], np.float64)


def summarize(fixes: Sequence[Fix], truth: Track | None = None) -> Summary:
    """The numbers of a run."""
    sure = np.array([fix.position is not None for fix in fixes], np.bool_)
    first = next((fix.time_s - fixes[0].time_s for fix in fixes if fix.position is not None), None)
    tracking = 100.0 * float(sure.mean()) if len(fixes) else 0.0
    refreshes = sum(fix.refreshed for fix in fixes)
    if truth is None:
        return Summary(len(fixes), tracking, first, refreshes)
    known = np.array([truth.at(fix.time_s) is not None for fix in fixes], np.bool_)
    errors = errors_m(fixes, truth)
    right = np.nan_to_num(errors, nan=np.inf) <= geo.RIGHT_WITHIN_M
    judged = sure & known
    return Summary(
        len(fixes), tracking, first, refreshes, int(known.sum()),
        100.0 * float(right[known].mean()) if known.any() else None, _median(errors[known]),
        100.0 * float(right[judged].mean()) if judged.any() else None, _median(errors[judged]),
    )  # fmt: skip


def _median(errors: npt.NDArray[np.float64]) -> float | None:
    known = errors[~np.isnan(errors)]
    return float(np.median(known)) if len(known) else None
