"""What a car's own sensors would say of a drive: wheel speed and a gyroscope, with the errors that such sensors have.

Speed has a scale error that lasts for the drive (2%, as of worn or cold tyres) and a little noise. The yaw rate has
noise and a bias that differs from drive to drive and wanders.
"""

from __future__ import annotations

import numpy as np

from x2localizer.sources.motion import MotionRecord
from x2localizer.town.drive import Drive
from x2localizer.town.noise import stream
from x2localizer.types import Floats

RATE_HZ = 10.0
SCALE_SD = 0.02
SPEED_SD_M_S = 0.05
"""Noise of one reading."""
YAW_SD_DEG_S = 0.3
"""Noise of one reading."""
BIAS_SD_DEG_S = 0.1
"""Of the yaw rate at the start of a drive."""
BIAS_WALK_DEG_S = 0.01
"""How far the bias wanders in one second."""


def sensor_motion(town_seed: int, drive: Drive, times_s: Floats) -> MotionRecord:
    """Speed and yaw rate of a drive between the first and last of some times, ten readings a second."""
    rng = stream(town_seed, "sensors", drive.seed)
    count = int((times_s[-1] - times_s[0]) * RATE_HZ) + 1
    at = times_s[0] + np.arange(count) / RATE_HZ
    heading = np.degrees(np.unwrap(drive.places(at)[2]))
    yaw = np.gradient(heading, at)
    bias = rng.normal(0, BIAS_SD_DEG_S) + np.cumsum(rng.normal(0, BIAS_WALK_DEG_S / RATE_HZ**0.5, count))
    speeds = np.maximum(drive.speeds(at) * (1.0 + rng.normal(0, SCALE_SD)) + rng.normal(0, SPEED_SD_M_S, count), 0.0)
    speeds[drive.speeds(at) < 0.05] = 0.0  # wheel ticks: a wheel that stands sends none
    return MotionRecord.of_rates(
        at - at[0], speeds, yaw + bias + rng.normal(0, YAW_SD_DEG_S, count),
        speed_sd_m_s=SPEED_SD_M_S, yaw_sd_deg_s=YAW_SD_DEG_S / RATE_HZ**0.5, scale_sd=SCALE_SD,
        bias_sd_deg_s=BIAS_SD_DEG_S,
    )  # fmt: skip
