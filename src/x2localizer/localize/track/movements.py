"""Odometry in the steps of a tracker."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from x2localizer.sources.motion import MotionRecord
from x2localizer.types import Movement


def movements_between(record: MotionRecord, start_s: float, end_s: float, step_s: float) -> list[Movement]:
    """What a record knows of the time between two moments, in steps; parts that it does not know are left out."""
    count = max(1, math.ceil((end_s - start_s) / step_s - 1e-6))
    edges = np.linspace(start_s, end_s, count + 1)
    found = (record.between(float(a), float(b)) for a, b in pairwise(edges))
    return [movement for movement in found if movement is not None]


def onward(last: Movement, seconds: float) -> Movement:
    """The movement of a short time that odometry does not know: as before, with much doubt."""
    share = seconds / max(abs(last.end_s - last.start_s), 1e-6)
    return Movement(
        last.end_s, last.end_s + seconds, last.distance_m * share, last.turn_deg * share,
        last.distance_sd_m * share + 3.0 * seconds, last.turn_sd_deg * share + 5.0 * seconds,
    )  # fmt: skip
