"""Odometry in the steps of a tracker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from x2localizer.sources.motion import MotionRecord
from x2localizer.types import Movement

STRAIGHT_DEG = 2.0
"""Steps that turn by less than this together are taken as one."""


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


def straightened(movements: Sequence[Movement]) -> list[Movement]:
    """The same way in fewer steps: those that hardly turn become one, which is as good and costs less."""
    out: list[Movement] = []
    for m in movements:
        last = out[-1] if out else None
        if last is None or abs(last.turn_deg) + abs(m.turn_deg) > STRAIGHT_DEG or abs(last.end_s - m.start_s) > 1e-3:
            out.append(m)
        else:
            out[-1] = last.then(m)
    return out
