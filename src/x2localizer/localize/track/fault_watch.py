"""Has the odometry failed on the way? A belief that follows it is sure of itself for a while, and wrong.

A sensor that fails in the middle of a drive shows in three ways. Its speed jumps as no vehicle does. Its turns, which
were never quite the same, are the same all the time. Or the camera turns where the map has no turn and sees what the
map does not show: a guess that has fitted the map for a while does not fit it any more. Then no position is stated for
half a minute, and only if the map agrees with the odometry afterwards.

The thresholds were chosen on validation drives, where they doubted no drive without a fault.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from x2localizer.types import Movement

DOUBT_S = 30.0
"""Seconds that a doubt lasts."""
MOVING_M_S = 1.0
"""Speed from which a camera moves."""
MOST_M_S2 = 7.0
"""Acceleration beyond which a speed is not believed; hard braking on a dry road stays below it."""
LEAST_JUMP_M_S = 2.0
"""Smaller jumps of the speed are noise."""
SAME_DEG_S = 1e-6
"""Turns that differ by less are the same."""
STUCK_STEPS = 10
"""Steps in a row with the same turn that are a stuck sensor."""
NOISY_STEPS, NOISY_RUN = 60, 3
"""Steps from which a sensor is known to be noisy, if never more than so many in a row had the same turn."""
SETTLED_SHARE, SETTLED_S = 0.95, 15.0
"""Share of the belief around a guess, and the seconds that it has held, from which it has fitted the map."""
CONTRADICTED = -0.2
"""How much worse than "not on this map" a term finds such a guess that contradicts it."""


class SpeedWatch:
    """Looks for jumps of the speed.

    doubted_s: when the last one was.
    """

    def __init__(self) -> None:
        self.doubted_s = math.inf
        self._speed, self._sd, self._seconds = math.nan, 0.0, 0.0

    def see(self, time_s: float, movements: Sequence[Movement]) -> None:
        """Take in the movements until a time."""
        for movement in movements:
            seconds = abs(movement.end_s - movement.start_s)
            if seconds <= 0.0:
                continue
            speed, sd = abs(movement.distance_m) / seconds, movement.distance_sd_m / seconds
            most = MOST_M_S2 * 0.5 * (seconds + self._seconds) + 3.0 * math.hypot(sd, self._sd)
            moving = min(speed, self._speed) > MOVING_M_S  # wheels say 0 at low speed; stands are watched by the view
            if moving and abs(speed - self._speed) > max(most, LEAST_JUMP_M_S):
                self.doubted_s = time_s
            self._speed, self._sd, self._seconds = speed, sd, seconds

    def doubts(self, time_s: float) -> bool:
        """Whether the speed has jumped lately."""
        return abs(time_s - self.doubted_s) < DOUBT_S


class TurnWatch:
    """Looks for turns that are stuck. Those of a sensor without noise, such as a simulated one, may well stay the same.

    steps: of a moving camera, so far.
    run: the last of them that had the same turn.
    longest: the longest such run among the first steps, which show whether the sensor is noisy.
    doubted_s: when it was last stuck.
    """

    def __init__(self) -> None:
        self.steps, self.run, self.longest = 0, 0, 0
        self.doubted_s = math.inf
        self._rate = math.nan

    def see(self, time_s: float, movements: Sequence[Movement]) -> None:
        """Take in the movements until a time."""
        for movement in movements:
            seconds = abs(movement.end_s - movement.start_s)
            if seconds <= 0.0 or abs(movement.distance_m) < MOVING_M_S * seconds:
                continue
            rate = movement.turn_deg / seconds
            self.run = self.run + 1 if abs(rate - self._rate) < SAME_DEG_S else 1
            self._rate = rate
            self.steps += 1
            if self.steps <= NOISY_STEPS:
                self.longest = max(self.longest, self.run)
            elif self.longest <= NOISY_RUN and self.run >= STUCK_STEPS:
                self.doubted_s = time_s

    def doubts(self, time_s: float) -> bool:
        """Whether the turns were stuck lately."""
        return abs(time_s - self.doubted_s) < DOUBT_S


class FitWatch:
    """Looks for a guess that has fitted the map and does so no more.

    settled: whether it has fitted the map.
    doubted_s: when a term last contradicted it.
    """

    def __init__(self) -> None:
        self.settled, self.doubted_s = False, math.inf

    def see(self, time_s: float, share: float, held_s: float, margins: Mapping[str, float]) -> None:
        """Take in how well a guess fits the map by each term; see :class:`x2localizer.types.TrackEvidence`."""
        if self.settled and min(margins.values(), default=0.0) < CONTRADICTED:
            self.doubted_s = time_s
        elif share >= SETTLED_SHARE and held_s >= SETTLED_S:
            self.settled = True

    def doubts(self, time_s: float) -> bool:
        """Whether the map has contradicted the guess lately."""
        return abs(time_s - self.doubted_s) < DOUBT_S
