"""The motion of a drive: how far the camera has come and how far it has turned, at each time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from x2localizer.types import Floats, Movement

MAX_GAP_S = 3.0
"""Longest time between two samples that a record interpolates across."""


@dataclass(frozen=True, slots=True, eq=False)
class MotionRecord:
    """Distance and heading of a camera over time, counted from the start of the record; arrays have shape (n,).

    times_s: increase strictly.
    distances_m: driven so far; forward is positive.
    headings_deg: turned so far; clockwise is positive, and a full circle is 360.
    distance_vars: variance gathered so far, in square metres.
    heading_vars: variance gathered so far, in square degrees.
    scale_sd: relative error that all distances share, such as 0.02 for a wheel whose radius is known to 2%.
    bias_sd_deg_s: error of the yaw rate that all turns share, in degrees per second.
    start_time: the UTC time of time 0, if known.
    """

    times_s: Floats
    distances_m: Floats
    headings_deg: Floats
    distance_vars: Floats
    heading_vars: Floats
    scale_sd: float = 0.1
    bias_sd_deg_s: float = 0.0
    start_time: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("times_s", "distances_m", "headings_deg", "distance_vars", "heading_vars"):
            values = np.array(getattr(self, name), np.float64)
            if values.shape != (len(self.times_s),) or not np.isfinite(values).all():
                raise ValueError(f"{name} of a motion record must be a list of numbers, one for each time")
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        if len(self.times_s) < 2 or not np.all(np.diff(self.times_s) > 0):
            raise ValueError("a motion record needs two times or more, and they must increase")

    @property
    def duration_s(self) -> float:
        """Time from the first sample to the last."""
        return float(self.times_s[-1] - self.times_s[0])

    def between(self, start_s: float, end_s: float) -> Movement | None:
        """The movement between two times; None where the record has a gap or has ended."""
        t = self.times_s
        if not t[0] - 1e-6 <= start_s <= end_s <= t[-1] + 1e-6:
            return None
        first, last = int(np.searchsorted(t, start_s, "right")) - 1, int(np.searchsorted(t, end_s, "left"))
        if np.any(np.diff(t[max(first, 0) : last + 1]) > MAX_GAP_S):
            return None

        def change(values: Floats) -> float:
            a, b = np.interp([start_s, end_s], t, values)
            return float(b - a)

        return Movement(
            start_s, end_s, change(self.distances_m), change(self.headings_deg),
            max(change(self.distance_vars), 0.0) ** 0.5, max(change(self.heading_vars), 0.0) ** 0.5,
        )  # fmt: skip

    @staticmethod
    def of_rates(
        times_s: Floats, speeds_m_s: Floats, yaw_rates_deg_s: Floats, *, speed_sd_m_s: float = 0.3,
        yaw_sd_deg_s: float = 0.3, scale_sd: float = 0.03, bias_sd_deg_s: float = 0.1,
        start_time: datetime | None = None,
    ) -> MotionRecord:  # fmt: skip
        """Integrate speeds and yaw rates (n,) that were measured at some times; the deviations are per second."""
        gaps = np.diff(times_s)

        def total(values: Floats) -> Floats:
            return np.concatenate([[0.0], np.cumsum(0.5 * (values[1:] + values[:-1]) * gaps)])

        since = times_s - times_s[0]
        return MotionRecord(
            times_s, total(speeds_m_s), total(yaw_rates_deg_s), speed_sd_m_s**2 * since, yaw_sd_deg_s**2 * since,
            scale_sd, bias_sd_deg_s, start_time,
        )  # fmt: skip
