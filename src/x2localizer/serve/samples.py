"""Odometry samples as they arrive: speeds and yaw rates with their times, and the movements between any two of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from x2localizer.serve.errors import BadInputError, ConflictError
from x2localizer.sources.motion.checks import MAX_SPEED_M_S, MAX_YAW_RATE_DEG_S
from x2localizer.sources.motion.record import MAX_GAP_S
from x2localizer.types import Floats, Movement

SPEED_SD_M_S, YAW_SD_DEG_S = 0.3, 0.3
"""Standard deviations of the mean over one second."""
SCALE_SD, BIAS_SD_DEG_S = 0.03, 0.2
"""Errors that all samples of a session share."""
MOST_SAMPLES = 200_000
"""Samples that may wait for a frame, of each kind: half an hour at 100 a second."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a sensor says at one time; at least one of the two must be known.

    speed_m_s: forward is positive.
    yaw_rate_deg_s: clockwise is positive.
    """

    time_s: float
    speed_m_s: float | None = None
    yaw_rate_deg_s: float | None = None


class _Series:
    """One quantity over time, (n,) each; integrated by trapezoids."""

    def __init__(self) -> None:
        self.times: Floats = np.zeros(0)
        self.values: Floats = np.zeros(0)

    def add(self, times: Sequence[float], values: Sequence[float]) -> None:
        self.times = np.append(self.times, times)
        self.values = np.append(self.values, values)

    def forget_before(self, time_s: float) -> None:
        """Drop what lies before a time, but for the last sample, which the next movement begins at."""
        first = max(0, int(np.searchsorted(self.times, time_s, "right")) - 1)
        self.times, self.values = self.times[first:], self.values[first:]

    def covers(self, start_s: float, end_s: float) -> bool:
        t = self.times
        if len(t) < 2 or not t[0] - 1e-6 <= start_s <= end_s <= t[-1] + 1e-6:
            return False
        first, last = int(np.searchsorted(t, start_s, "right")) - 1, int(np.searchsorted(t, end_s, "left"))
        return not np.any(np.diff(t[max(first, 0) : last + 1]) > MAX_GAP_S)

    def integral(self, start_s: float, end_s: float) -> float:
        inside = self.times[(self.times > start_s) & (self.times < end_s)]
        at = np.concatenate([[start_s], inside, [end_s]])
        return float(np.trapezoid(np.interp(at, self.times, self.values), at))


class SampleBuffer:
    """Samples that no movement was made of yet. Speed and yaw rate may come from sensors of different rates."""

    def __init__(self) -> None:
        self._speed, self._yaw = _Series(), _Series()

    def add(self, samples: Sequence[Sample]) -> None:
        """Add samples in order of time; what does not fit is an error, and then none is added."""
        check_samples(samples)
        for series, name in ((self._speed, "speed_m_s"), (self._yaw, "yaw_rate_deg_s")):
            own = [(s.time_s, float(v)) for s in samples if (v := getattr(s, name)) is not None]
            times = [*series.times[-1:], *(time_s for time_s, _ in own)]
            if any(after <= before for before, after in pairwise(times)):
                at = next(after for before, after in pairwise(times) if after <= before)
                raise ConflictError(
                    f"The clock of the odometry runs backwards at {at:.3f} s.",
                    "Send samples in order of time, each once.",
                )
            if len(series.times) + len(own) > MOST_SAMPLES:
                raise ConflictError("Too many samples wait for a frame.", "Send frames beside them, or fewer samples.")
        for series, name in ((self._speed, "speed_m_s"), (self._yaw, "yaw_rate_deg_s")):
            own = [(s.time_s, float(v)) for s in samples if (v := getattr(s, name)) is not None]
            if own:
                series.add(*zip(*own, strict=True))

    @property
    def last_s(self) -> float:
        """Time until which some movement is known; minus infinity before the second sample."""
        return max((float(s.times[-1]) for s in (self._speed, self._yaw) if len(s.times) > 1), default=-math.inf)

    @property
    def newest_s(self) -> float:
        """Time of the newest sample; minus infinity without any."""
        return max((float(s.times[-1]) for s in (self._speed, self._yaw) if len(s.times)), default=-math.inf)

    @property
    def first_s(self) -> float:
        """Time of the first sample that is kept; infinity without any."""
        return min((float(s.times[0]) for s in (self._speed, self._yaw) if len(s.times)), default=math.inf)

    def is_near(self, time_s: float) -> bool:
        """Whether a sample lies at a time, or so short a time before it that they belong together."""
        return any(
            first < len(s.times) and s.times[first] <= time_s + 1e-6
            for s in (self._speed, self._yaw)
            for first in (int(np.searchsorted(s.times, time_s - MAX_GAP_S)),)
        )

    def movements(self, start_s: float, end_s: float, step_s: float) -> list[Movement]:
        """What is known of the time between two moments, in steps. What was not measured has no finite deviation."""
        count = max(1, math.ceil((end_s - start_s) / step_s - 1e-6))
        width_s = (end_s - start_s) / count
        found = (
            self._between(start_s + k * width_s, end_s if k + 1 == count else start_s + (k + 1) * width_s)
            for k in self._steps_near_samples(start_s, width_s, count)
        )
        return [movement for movement in found if movement is not None]

    def _steps_near_samples(self, start_s: float, width_s: float, count: int) -> list[int]:
        """Steps that samples may cover, of so many; a gap of hours has none, and costs nothing."""
        times = np.concatenate([self._speed.times, self._yaw.times])
        reach = math.ceil(MAX_GAP_S / width_s) + 1
        inside = times[(times >= start_s - 2 * MAX_GAP_S) & (times <= start_s + count * width_s + 2 * MAX_GAP_S)]
        at = np.unique(((inside - start_s) / width_s).astype(np.int64))
        near = np.unique(at[:, None] + np.arange(-reach, reach + 1))
        return [int(k) for k in near if 0 <= k < count]

    def forget_before(self, time_s: float) -> None:
        """Drop samples that every later movement can do without."""
        self._speed.forget_before(time_s)
        self._yaw.forget_before(time_s)

    def _between(self, start_s: float, end_s: float) -> Movement | None:
        speed, yaw = self._speed.covers(start_s, end_s), self._yaw.covers(start_s, end_s)
        if not speed and not yaw:
            return None
        root_s = math.sqrt(end_s - start_s)
        return Movement(
            start_s, end_s, self._speed.integral(start_s, end_s) if speed else 0.0,
            self._yaw.integral(start_s, end_s) if yaw else 0.0, SPEED_SD_M_S * root_s if speed else math.inf,
            YAW_SD_DEG_S * root_s if yaw else math.inf,
        )  # fmt: skip


def check_samples(samples: Sequence[Sample]) -> None:
    """Refuse samples that say nothing, or what no car does."""
    for sample in samples:
        speed, yaw = sample.speed_m_s, sample.yaw_rate_deg_s
        if speed is None and yaw is None:
            raise BadInputError(
                f"The sample at {sample.time_s:.3f} s has neither speed_m_s nor yaw_rate_deg_s.", "Send at least one."
            )
        values = [sample.time_s, *(v for v in (speed, yaw) if v is not None)]
        if not all(math.isfinite(v) for v in values):
            raise BadInputError("A sample holds a number that is not finite.", "Leave out what is not known.")
        if abs(speed or 0.0) > MAX_SPEED_M_S or abs(yaw or 0.0) > MAX_YAW_RATE_DEG_S:
            raise BadInputError(
                f"The sample at {sample.time_s:.3f} s is of no car: {speed} m/s, {yaw} degrees a second.",
                "Check the units: metres per second, and degrees per second clockwise.",
            )


def to_array(samples: Sequence[Sample]) -> Floats:
    """Samples as rows of time, speed and yaw rate, (n, 3); NaN where one is not known."""
    unknown = math.nan
    return np.array(
        [
            (s.time_s, unknown if s.speed_m_s is None else s.speed_m_s,
             unknown if s.yaw_rate_deg_s is None else s.yaw_rate_deg_s)
            for s in samples
        ], np.float64
    ).reshape(-1, 3)  # fmt: skip


def from_array(rows: Floats) -> list[Sample]:
    """Samples from rows of time, speed and yaw rate."""
    return [Sample(float(t), *(None if math.isnan(v) else float(v) for v in (speed, yaw))) for t, speed, yaw in rows]
