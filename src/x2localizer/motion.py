"""How a camera may move: one model for search, belief and priors.

The settings (:class:`x2localizer.config.MotionSettings`) describe a car, a robot or a person walking; the functions
here turn them into what each user of the model needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from x2localizer.config import MotionSettings
from x2localizer.types import Floats


@dataclass(frozen=True, slots=True)
class MotionLimits:
    """What an ordinary drive does not exceed: accelerations, yaw rate, and the radius of its tightest bend."""

    sideways_m_s2: float = 3.0
    along_m_s2: float = 2.5
    yaw_deg_s: float = 45.0
    turning_circle_m: float = 6.0


CAR_LIMITS = MotionLimits()

HEADINGS = 8
"""Headings of a belief: north, north-east, east, ..."""


def cells_in_reach(motion: MotionSettings, seconds: float, cell_m: float) -> int:
    """Cells of a grid that the camera may move along each axis in some time, at ordinary speeds; at least one."""
    return max(1, round(motion.cruise_m_s * seconds / cell_m))


def furthest_m(motion: MotionSettings, seconds: float) -> float:
    """Metres from its last fix at which the camera may be after some time, the error of that fix included."""
    return motion.slack_m + motion.top_m_s * seconds


@cache
def step_kernels(motion: MotionSettings, cell_m: float) -> Floats:
    """Where one second takes the camera, by heading: shares of the 3 x 3 cells around its own, (8, 3, 3)."""
    kernels = np.zeros((HEADINGS, 3, 3))
    for heading in range(HEADINGS):
        angle = 2 * math.pi * heading / HEADINGS
        for speed, share in zip(motion.speeds_m_s, motion.speed_shares, strict=True):
            cells = min(speed / cell_m, 1.0)
            down, right = -cells * math.cos(angle), cells * math.sin(angle)
            for dr, dc in ((0, 0), (0, 1), (1, 0), (1, 1)):  # split between the four nearest cells
                weight = (abs(down) if dr else 1 - abs(down)) * (abs(right) if dc else 1 - abs(right))
                row, column = 1 + dr * int(np.sign(down)), 1 + dc * int(np.sign(right))
                kernels[heading, row, column] += share * weight
    return kernels


def beyond_limits(
    times_s: Floats, speeds_m_s: Floats, headings_deg: Floats, limits: MotionLimits = CAR_LIMITS
) -> list[str]:
    """What a drive does that no car does, in words; empty if nothing. Arrays are (n,), the rates are between samples.

    Samples may be as far apart as a second: what happens in between is not seen.
    """
    gaps = np.diff(times_s)
    turn = (np.diff(headings_deg) + 180.0) % 360.0 - 180.0
    speed = 0.5 * (speeds_m_s[1:] + speeds_m_s[:-1])
    yaw = np.abs(turn) / gaps
    found = {
        "m/s2 sideways": (float((speed * np.radians(yaw)).max(initial=0.0)), limits.sideways_m_s2),
        "m/s2 along the road": (float((np.abs(np.diff(speeds_m_s)) / gaps).max(initial=0.0)), limits.along_m_s2),
        "degrees a second": (float(yaw.max(initial=0.0)), limits.yaw_deg_s),
    }
    return [f"{value:.1f} {unit}" for unit, (value, limit) in found.items() if value > limit]
