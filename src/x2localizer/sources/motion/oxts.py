"""Motion from the inertial unit of a car, as KITTI's raw recordings have it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from x2localizer.errors import MotionError
from x2localizer.sources.motion.checks import check_record, check_times, since_start
from x2localizer.sources.motion.record import MotionRecord
from x2localizer.sources.oxts import SPEED, YAW_RATE, read_oxts

UNTIMED_SCALE_SD = 0.05
"""Without timestamps a row is taken for a tenth of a second; KITTI's are 103.6 ms apart."""


def read_oxts_motion(path: Path, rate_hz: float | None = None) -> MotionRecord:
    """Forward speed and yaw rate of a recording."""
    rows = read_oxts(path, MotionError, rate_hz)
    check_times(path, rows.times_s)
    times, start = since_start(rows.times_s)
    record = MotionRecord.of_rates(
        times, rows.values[:, SPEED], -np.degrees(rows.values[:, YAW_RATE]), start_time=start,
        scale_sd=0.03 if rows.timed or rate_hz is not None else UNTIMED_SCALE_SD,
    )  # fmt: skip
    check_record(path, record)
    return record
