"""What every reader of motion checks: times that increase, and rates that a camera on the road can have."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from x2localizer.errors import MotionError
from x2localizer.sources.motion.record import MotionRecord
from x2localizer.sources.tracks.points import EARLIEST_S, EPOCH, LATEST_S
from x2localizer.types import Floats

MAX_SPEED_M_S = 120.0
LONGEST_S = 30 * 86_400.0
MAX_YAW_RATE_DEG_S = 720.0
_STUCK_SHARE = 0.5


def check_times(path: Path, times: Floats) -> None:
    """Refuse times that do not increase."""
    if len(times) < 2:
        raise MotionError(f"{path} has {len(times)} rows, too few for a motion.", "Give a file with two or more.")
    steps = np.diff(times)
    if np.mean(steps == 0) > _STUCK_SHARE:
        raise MotionError(
            f"The clock of {path} is stuck: {np.mean(steps == 0):.0%} of its rows have the time of the row before.",
            "Record with a clock that counts fractions of a second.",
        )
    if np.any(steps < 0):
        row = int(np.argmax(steps < 0)) + 2
        raise MotionError(f"The times of {path} go back at row {row}.", "Sort the rows by time.")
    if np.any(steps == 0):
        row = int(np.argmax(steps == 0)) + 2
        raise MotionError(f"Rows {row - 1} and {row} of {path} have the same time.", "Keep one row for each time.")


def check_record(path: Path, record: MotionRecord) -> None:
    """Refuse motion that no car has."""
    gaps = np.diff(record.times_s)
    if not record.duration_s <= LONGEST_S:  # also refuses NaN
        raise MotionError(
            f"{path} is {record.duration_s / 86_400:.3g} days long.",
            "Check the unit of its times, and cut it to one drive of at most 30 days.",
        )
    check_rate(path, "speed", np.diff(record.distances_m) / gaps, MAX_SPEED_M_S, "m/s")
    check_rate(path, "yaw rate", np.diff(record.headings_deg) / gaps, MAX_YAW_RATE_DEG_S, "degrees per second")


def check_rate(path: Path, what: str, rates: Floats, most: float, unit: str) -> None:
    """Refuse rates beyond a limit."""
    if np.any(np.abs(rates) > most):
        row = int(np.argmax(np.abs(rates) > most))
        rate = f"{rates[row]:,.0f}" if abs(rates[row]) < 1e9 else f"{rates[row]:.3g}"
        raise MotionError(
            f"Row {row + 1} of {path} has a {what} of {rate} {unit}, which no car has.",
            "Check the unit in the name of the column, and the times.",
        )


def since_start(times: Floats) -> tuple[Floats, datetime | None]:
    """Seconds since 1970 become seconds since the first row, with its UTC time; other times stay."""
    if EARLIEST_S <= times[0] < LATEST_S:
        return times - times[0], EPOCH + timedelta(seconds=float(times[0]))
    return times, None
