"""The motion of a drive: how far the camera has come and how far it has turned, at each time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

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
    has_distance: False if only turns were recorded, as by a gyroscope; then distances are 0, and mean nothing.
    has_turn: False if only speed was recorded, as by a wheel; then headings are 0, and mean nothing.
    """

    times_s: Floats
    distances_m: Floats
    headings_deg: Floats
    distance_vars: Floats
    heading_vars: Floats
    scale_sd: float = 0.1
    bias_sd_deg_s: float = 0.0
    start_time: datetime | None = None
    has_distance: bool = True
    has_turn: bool = True

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
        """The movement between two times; None where the record has a gap or has ended.

        What was not recorded has an infinite standard deviation.
        """
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
            max(change(self.distance_vars), 0.0) ** 0.5 if self.has_distance else math.inf,
            max(change(self.heading_vars), 0.0) ** 0.5 if self.has_turn else math.inf,
        )  # fmt: skip

    def shifted(self, offset_s: float) -> MotionRecord:
        """The same record with another zero: time ``offset_s`` becomes time 0."""
        start = None if self.start_time is None else self.start_time + timedelta(seconds=offset_s)
        return replace(self, times_s=self.times_s - offset_s, start_time=start)

    @staticmethod
    def of_rates(
        times_s: Floats, speeds_m_s: Floats | None, yaw_rates_deg_s: Floats | None, *,
        speed_sd_m_s: float | Floats = 0.3, yaw_sd_deg_s: float | Floats = 0.3, scale_sd: float = 0.03,
        bias_sd_deg_s: float = 0.2, start_time: datetime | None = None,
    ) -> MotionRecord:  # fmt: skip
        """Integrate speeds and yaw rates (n,) that were measured at some times; None for what was not measured.

        speed_sd_m_s, yaw_sd_deg_s: standard deviations of the mean over one second: one for all, or one per sample.
        """
        gaps = np.diff(times_s)

        def total(values: float | Floats) -> Floats:
            rates = np.broadcast_to(np.asarray(values, np.float64), np.shape(times_s))
            return np.concatenate([[0.0], np.cumsum(0.5 * (rates[1:] + rates[:-1]) * gaps)])

        return MotionRecord(
            times_s, total(0.0 if speeds_m_s is None else speeds_m_s),
            total(0.0 if yaw_rates_deg_s is None else yaw_rates_deg_s), total(np.square(speed_sd_m_s)),
            total(np.square(yaw_sd_deg_s)), scale_sd, bias_sd_deg_s, start_time, speeds_m_s is not None,
            yaw_rates_deg_s is not None,
        )  # fmt: skip
