"""How a camera sits in its car: the row of its horizon, and how far it looks off the car's heading.

Both swing around a value that stays the same during a drive. A Kalman filter follows the two and the values they swing
around. The turn between two frames is estimated together with them, because a wrong horizon looks like a change of
pitch, and a wrong mount like a turn.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from x2localizer.odometry.camera import Lens
from x2localizer.odometry.turn import Turn
from x2localizer.types import Floats

MOUNT_SD = math.radians(2.0)
"""How far cameras are mounted off the car's heading."""
MOUNT_SWING, HORIZON_SWING = math.radians(0.5), math.radians(0.35)
"""How far a camera swings with the car, to the sides and up and down."""
SWING_S = 2.5
"""Time in which a swing fades."""
DRIFT = math.radians(0.02)
"""How far a camera slips in its mount within a second."""
TRUST = 0.02
"""Weight of the points of one frame: they are the same for many frames, so their errors are, too."""
_LARGEST_STEP, _LARGEST_SWING, _LARGEST_MOUNT = 0.02, 0.05, 0.15


class Sideways(NamedTuple):
    """How far the road lies to the right of where it was expected: metres, their deviation, and what it depends on."""

    sideways_m: float
    sd_m: float
    ahead_m: float  # distance of the road that was aligned
    distance_m: float  # driven between the frames


class Mounting:
    """The filter. Angles are radians; the horizon is its row over the focal length."""

    def __init__(self, lens: Lens) -> None:
        row, sd = lens.horizon / lens.focal, lens.horizon_sd / lens.focal
        constant, swing = np.diag([MOUNT_SD**2, sd**2]), np.diag([MOUNT_SWING**2, HORIZON_SWING**2])
        self._state = np.array([0.0, row, 0.0, row])  # mount, horizon, and the values they swing around
        self._cov = np.block([[constant + swing, constant], [constant, constant]])
        self._rows = (row - 3 * sd, row + 3 * sd)

    @property
    def mount(self) -> float:
        """How far the camera looks to the right of the car's heading."""
        return float(self._state[0])

    @property
    def horizon(self) -> float:
        """Row of the horizon over the focal length."""
        return float(self._state[1])

    def update(self, turn: Turn, sideways: Sideways | None, seconds: float) -> tuple[float, float]:
        """The turn's yaw and its standard deviation, corrected by all that is known; then advance to the later frame.

        The filter's state is that of the earlier frame.
        """
        info, vector = np.diag([1e2, 1e3, 0.0, 0.0, 0.0, 0.0]), np.zeros(6)
        info[2:, 2:] += np.linalg.inv(self._cov)
        info[:4, :4] += TRUST * turn.info
        vector[:4] += TRUST * turn.vector
        if sideways is not None:
            slope = np.array([-sideways.ahead_m, 0.0, sideways.distance_m, 0.0]) / sideways.sd_m
            info[:4, :4] += np.outer(slope, slope)
            vector[:4] += slope * sideways.sideways_m / sideways.sd_m
        cov = np.linalg.inv(info)
        step = np.clip(cov @ vector, -_LARGEST_STEP, _LARGEST_STEP)
        self._state += step[2:]
        self._advance(cov, turn.pitch + float(step[1]), seconds)
        return turn.yaw + float(step[0]), math.sqrt(float(cov[0, 0]))

    def wait(self, seconds: float) -> None:
        """Advance without a measurement."""
        cov = np.zeros((6, 6))
        cov[2:, 2:] = self._cov
        self._advance(cov, 0.0, seconds)

    def _advance(self, cov: Floats, pitch: float, seconds: float) -> None:
        """To the later frame; ``cov`` is that of (yaw, pitch, state), (6, 6)."""
        keep = math.exp(-seconds / SWING_S)
        move = np.array([
            [0, 0, keep, 0, 1 - keep, 0],
            [0, keep, 0, keep, 0, 1 - keep],
            [0, 0, 0, 0, 1, 0],
            [0, 0, 0, 0, 0, 1],
        ])  # fmt: skip
        state = move @ np.concatenate([[0.0, pitch], self._state])
        swing, drift = 1 - keep**2, DRIFT**2 * seconds
        self._cov = move @ cov @ move.T + np.diag([swing * MOUNT_SWING**2, swing * HORIZON_SWING**2, drift, drift])
        state[[0, 2]] = np.clip(state[[0, 2]], -_LARGEST_MOUNT, _LARGEST_MOUNT)
        state[3] = np.clip(state[3], *self._rows)
        state[1] = np.clip(state[1], state[3] - _LARGEST_SWING, state[3] + _LARGEST_SWING)
        self._state = state
