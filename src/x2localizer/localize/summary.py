"""A track in a few numbers; with the truth, how good it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from x2localizer import geo
from x2localizer.sources.tracks import Track
from x2localizer.types import Fix, Floats, Position


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers of a track. Those from ``with_truth`` to ``sure_median_m`` need the truth.

    frames: how many there were.
    tracking_percent: share of frames with a position.
    first_fix_s: seconds to the first position; None if there is none.
    searches: how often the map was searched, for candidates or as a whole.
    with_truth: frames for which the truth is known.
    within_80m_percent: share of these whose guess is within 80 m of the truth.
    median_m: median error of the guesses, in metres.
    sure_within_80m_percent, sure_median_m: the same for positions alone.
    on_map: median over the frames of the probability of being on the map; None if it was not worked out.
    odometry: where the camera's movements came from; None if they were not known.
    smoothed: whether each fix knows the whole drive, not only what came before it.
    """

    frames: int
    tracking_percent: float
    first_fix_s: float | None
    searches: int
    with_truth: int = 0
    within_80m_percent: float | None = None
    median_m: float | None = None
    sure_within_80m_percent: float | None = None
    sure_median_m: float | None = None
    on_map: float | None = None
    odometry: str | None = None
    smoothed: bool = False

    def to_rows(self) -> list[tuple[str, str]]:
        """Labels and values with their units, for people."""
        first = "never" if self.first_fix_s is None else f"after {self.first_fix_s:.0f} s"
        rows = [
            ("frames", f"{self.frames:,}"), ("sure of the position", f"{self.tracking_percent:.0f}% of the frames"),
            ("first sure position", first),
        ]  # fmt: skip
        rows.append(("searches" if self.odometry is None else "searches of the whole map", f"{self.searches:,}"))
        if self.on_map is not None:
            rows.append(("on this map", f"{100 * self.on_map:.0f}% probable (median)"))
        if self.odometry is not None:
            rows.append(("odometry", self.odometry))
            rows.append(("fixes", "smoothed: each knows the whole drive" if self.smoothed else "live"))
        if self.within_80m_percent is not None:
            rows.append(("within 80 m of the truth", f"{self.within_80m_percent:.0f}% of all guesses"))
        if self.median_m is not None:
            rows.append(("median error", f"{self.median_m:,.0f} m"))
        if self.sure_within_80m_percent is not None:
            rows.append(("within 80 m when sure", f"{self.sure_within_80m_percent:.0f}% of the positions"))
        if self.sure_median_m is not None:
            rows.append(("median error when sure", f"{self.sure_median_m:,.0f} m"))
        return rows


def error_m(fix: Fix, truth: Position | None) -> float:
    """The distance of a guess from the truth in metres; NaN without a guess, or without truth."""
    if fix.guess is None or truth is None:
        return float("nan")
    return float(geo.distance_m(fix.guess.lat_deg, fix.guess.lon_deg, truth.lat_deg, truth.lon_deg))


def errors_m(fixes: Sequence[Fix], truth: Track) -> Floats:
    """The distance of each guess from the truth, in metres; NaN without a guess, or where there is no truth."""
    return np.array([error_m(fix, truth.at(fix.time_s)) for fix in fixes], np.float64)


def summarize(
    fixes: Sequence[Fix], truth: Track | None = None, *, odometry: str | None = None, smoothed: bool = False
) -> Summary:
    """The numbers of a track."""
    sure = np.array([fix.position is not None for fix in fixes], np.bool_)
    first = next((fix.time_s - fixes[0].time_s for fix in fixes if fix.position is not None), None)
    tracking = 100.0 * float(sure.mean()) if len(fixes) else 0.0
    refreshes = sum(fix.refreshed for fix in fixes)
    on_map = _median(np.array([np.nan if fix.on_map is None else fix.on_map for fix in fixes], np.float64))
    if truth is None:
        return Summary(len(fixes), tracking, first, refreshes, on_map=on_map, odometry=odometry, smoothed=smoothed)
    known = np.array([truth.at(fix.time_s) is not None for fix in fixes], np.bool_)
    errors = errors_m(fixes, truth)
    right = np.nan_to_num(errors, nan=np.inf) <= geo.RIGHT_WITHIN_M
    judged = sure & known
    return Summary(
        len(fixes), tracking, first, refreshes, int(known.sum()),
        100.0 * float(right[known].mean()) if known.any() else None, _median(errors[known]),
        100.0 * float(right[judged].mean()) if judged.any() else None, _median(errors[judged]),
        on_map, odometry, smoothed,
    )  # fmt: skip


def _median(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None
