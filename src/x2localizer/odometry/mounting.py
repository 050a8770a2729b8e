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
TRUST = 0.05
"""Weight of the points of one frame: they are the same for many frames, so their errors are, too."""
_LARGEST_STEP, _LARGEST_SWING, _LARGEST_MOUNT = 0.03, 0.05, 0.15


class Sideways(NamedTuple):
    """How far the road lies to the right of where it was expected: metres, their deviation, and what it depends on."""

    sideways_m: float
    sd_m: float
    ahead_m: float  # distance of the road that was aligned
    distance_m: float  # driven between the frames


class Mounting:
    """The filter. Angles are radians; the horizon is its row over the focal length.

    Between two frames its state also has the turn: :meth:`see_points`, :meth:`see_road`, then :meth:`advance`.
    """

    def __init__(self, lens: Lens) -> None:
        row, sd = lens.horizon / lens.focal, lens.horizon_sd / lens.focal
        constant, swing = np.diag([MOUNT_SD**2, sd**2]), np.diag([MOUNT_SWING**2, HORIZON_SWING**2])
        # Yaw, pitch, mount, horizon, and the values that the last two swing around.
        self._state = np.array([0.0, 0.0, 0.0, row, 0.0, row])
        self._cov = np.zeros((6, 6))
        self._cov[2:, 2:] = np.block([[constant + swing, constant], [constant, constant]])
        self._rows = (row - 3 * sd, row + 3 * sd)

    @property
    def yaw(self) -> float:
        """The turn between the frames, clockwise."""
        return float(self._state[0])

    @property
    def yaw_sd(self) -> float:
        """Its standard deviation."""
        return math.sqrt(max(float(self._cov[0, 0]), 0.0))

    @property
    def pitch(self) -> float:
        """How far the horizon moved down between the frames, over the focal length."""
        return float(self._state[1])

    @property
    def mount(self) -> float:
        """How far the camera looks to the right of the car's heading, at the earlier frame."""
        return float(self._state[2])

    @property
    def horizon(self) -> float:
        """Row of the horizon over the focal length, at the earlier frame."""
        return float(self._state[3])

    @property
    def cov(self) -> Floats:
        """Covariance of (mount, horizon), (2, 2)."""
        return self._cov[2:4, 2:4].copy()

    def see_points(self, turn: Turn) -> None:
        """Take in what the followed points say; ``turn`` was solved with this mount and horizon."""
        info, vector = np.diag([1e2, 1e3, 0.0, 0.0, 0.0, 0.0]), np.zeros(6)
        info[2:, 2:] += np.linalg.inv(self._cov[2:, 2:])
        info[:4, :4] += TRUST * turn.info
        vector[:4] += TRUST * turn.vector
        self._cov = np.linalg.inv(info)
        step = np.clip(self._cov @ vector, -_LARGEST_STEP, _LARGEST_STEP)
        self._state[:2] = turn.yaw, turn.pitch
        self._state += step

    def see_road(self, road: Sideways) -> None:
        """Take in where the road lies, after the points."""
        slope = np.array([-road.ahead_m, 0.0, road.distance_m, 0.0, 0.0, 0.0])
        spread = self._cov @ slope
        gain = spread / (float(slope @ spread) + road.sd_m**2)
        self._state += np.clip(gain * road.sideways_m, -_LARGEST_STEP, _LARGEST_STEP)
        self._cov = self._cov - np.outer(gain, spread)

    def advance(self, seconds: float) -> None:
        """To the later frame."""
        keep = math.exp(-seconds / SWING_S)
        move = np.array([
            [0, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 0, 0],
            [0, 0, keep, 0, 1 - keep, 0],
            [0, keep, 0, keep, 0, 1 - keep],
            [0, 0, 0, 0, 1, 0],
            [0, 0, 0, 0, 0, 1],
        ])  # fmt: skip
        state = move @ self._state
        swing, drift = 1 - keep**2, DRIFT**2 * seconds
        fresh = np.diag([0.0, 0.0, swing * MOUNT_SWING**2, swing * HORIZON_SWING**2, drift, drift])
        self._cov = move @ self._cov @ move.T + fresh
        state[[2, 4]] = np.clip(state[[2, 4]], -_LARGEST_MOUNT, _LARGEST_MOUNT)
        state[5] = np.clip(state[5], *self._rows)
        state[3] = np.clip(state[3], state[5] - _LARGEST_SWING, state[5] + _LARGEST_SWING)
        self._state = state
