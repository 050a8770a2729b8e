"""How well the place along a road can be known, judged by the drive alone.

A road tells a car where it is when the car turns. On a straight, and in a bend as wide as a motorway's, the place is
reckoned from the last turn by odometry, whose scale is known only so well. A belief of poses forgets that: it finds the
one scale at which a slightly wrong map fits best, and takes every metre as new evidence for it. So this is kept beside
it: a Kalman filter of two numbers, the error of the place along the road and the error of the scale.
"""

from __future__ import annotations

import math
from collections import deque

from x2localizer.types import Movement

UNKNOWN_M = 1000.0
"""Standard deviation before the first turn."""
LATERAL_SD_M = 8.0
"""How far a car is beside the line that the map has of its road: its lane, and the error of the map."""
TURN_WITHIN_M = 60.0
"""Distance over which a turn counts as one."""
LEAST_TURN_DEG = 15.0
"""Turns of less over that distance are bends: a bias of the yaw rate, or a lane that is changed, looks the same."""
SCALE_TAIL = 1.5
"""Standard deviations that odometry states of its scale are believed to be too small by this factor."""
LEAST_SCALE_SD = 0.02
SCALE_DRIFT = 0.002
"""By how much the scale changes over ten metres, as a standard deviation."""
LEAST_FIT = 0.5
"""How well the belief must fit the roads, so that it knows of the last turns."""
REMEMBERED_M = 200.0
"""Distance after which a turn that the belief did not know of is forgotten."""
TILE_SD_M = 30.0
"""Standard deviation of the place that one frame gives whose evidence counts in full."""


class Reckoning:
    """The variance of the place along the road, of the scale, and of both together.

    scale_sd: relative error that all of the odometry shares.
    """

    def __init__(self, scale_sd: float) -> None:
        self._place, self._both = UNKNOWN_M**2, 0.0
        self._scale = self._most_scale = max(SCALE_TAIL * scale_sd, LEAST_SCALE_SD) ** 2
        self._lately: deque[tuple[float, float]] = deque()
        self._pending = 0.0  # information of turns that the belief does not know of yet

    @property
    def sd_m(self) -> float:
        """Standard deviation of the place along the road."""
        return math.sqrt(self._place)

    def move(self, movement: Movement, fit: float = 1.0) -> None:
        """Drive on: the error of the scale becomes one of the place, until a turn tells the place.

        fit: how well the belief fits the roads lately, 0 to 1. A turn where the map has none tells that the belief is
            wrong, not where the car is; it counts once the belief fits again.
        """
        metres = abs(movement.distance_m)
        noise = movement.distance_sd_m if math.isfinite(movement.distance_sd_m) else UNKNOWN_M
        self._place += 2.0 * metres * self._both + metres**2 * self._scale + noise**2
        self._both += metres * self._scale
        if self._place > UNKNOWN_M**2:  # who is lost does not learn the scale from where the next turn is
            self._place, self._both = UNKNOWN_M**2, 0.0
        self._scale = min(self._scale + SCALE_DRIFT**2 * metres / 10.0, self._most_scale)
        self._both = min(self._both, math.sqrt(self._place * self._scale))
        self._pending *= math.exp(-metres / REMEMBERED_M)
        turn = self._turn_deg(metres, movement.turn_deg)
        if turn > LEAST_TURN_DEG:
            side = math.sin(math.radians(min(turn, 90.0)))
            self._pending += side**2 / LATERAL_SD_M**2 * min(metres / TURN_WITHIN_M, 1.0)
        if fit > LEAST_FIT:
            self._learn(self._pending)
            self._pending = 0.0

    def see(self, weight: float) -> None:
        """A frame was compared with tiles, and counts with some weight."""
        if weight > 0.0:
            self._learn(weight / TILE_SD_M**2)

    def _turn_deg(self, metres: float, turn_deg: float) -> float:
        """How far the car has turned over the last metres."""
        lately = self._lately
        lately.append((metres, turn_deg))
        while len(lately) > 1 and sum(m for m, _ in lately) > TURN_WITHIN_M + lately[0][0]:
            lately.popleft()
        return abs(sum(turn for _, turn in lately))

    def _learn(self, information: float) -> None:
        """The place was measured; information is one over the variance of the measurement, in square metres."""
        gain = information / (1.0 + information * self._place)
        place, both = self._place, self._both
        self._place -= gain * place * place
        self._both -= gain * place * both
        self._scale -= gain * both * both
