"""Has the odometry failed on the way? A belief that follows it is sure of itself for a while, and wrong.

A sensor that fails in the middle of a drive shows in three ways. Its speed jumps as no vehicle does. Its turns, which
were never quite the same, are the same all the time. Or the camera turns where the map has no turn and sees what the
map does not show: a guess that was sure does not fit the map any more. Then no position is stated for half a minute or
more, and only if the map agrees with the odometry afterwards.

The thresholds were chosen on validation drives with faults and without: on those without, doubts take 2 of the 63
percent of the frames that have a position, all of them right; on those with a fault, nearly all that are wrong.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence

from x2localizer.types import Movement

DOUBT_S, MOST_DOUBT_S = 30.0, 120.0
"""Seconds that a doubt lasts at least, and at most."""
MOVING_M_S = 1.0
"""Speed from which a camera moves."""
STILL_M_S = 0.2
"""Speed below which it stands."""
MOST_M_S2 = 4.0
"""Acceleration beyond which a step of the speed is not believed, if the car neither brakes nor speeds up beside it.
Cars that brake harder do so for longer; on the drives of KITTI no such step is half as high."""
LEAST_JUMP_M_S = 2.0
"""Smaller jumps of the speed are noise."""
LASTING_STEPS = 3
"""Steps after a jump in which the speed does not come back, from which it is believed to last."""
SAME_DEG_S = 1e-6
"""Turns that differ by less are the same."""
STUCK_STEPS = 10
"""Steps in a row with the same turn that are a stuck sensor."""
NOISY_STEPS, NOISY_RUN = 60, 3
"""Steps from which a sensor is known to be noisy, if never more than so many in a row had the same turn."""
CONTRADICTED = {"tiles": -0.4, "roads": -0.3}
"""How much worse than "not on this map" a term finds a guess that it contradicts."""


class _Watch:
    """Doubts for a while.

    doubted_s: when there was last a reason to.
    """

    def __init__(self) -> None:
        self.doubted_s = math.inf

    def doubts(self, time_s: float) -> bool:
        """Whether there was a reason lately."""
        return abs(time_s - self.doubted_s) < self._lasts_s()

    def _lasts_s(self) -> float:
        return DOUBT_S


class SpeedWatch(_Watch):
    """Looks for jumps of the speed that last; visual odometry has some that do not.

    A car that brakes loses speed over several steps; a sensor that fails changes it in one, and what is before and
    after goes on as it was. So a jump is what is left of a step if the speeds beside it are continued up to it.

    jump: the height of the one that is being looked at; 0 if there is none.
    steps: how many there were since.
    """

    def __init__(self) -> None:
        super().__init__()
        self.jump, self.steps = 0.0, 0
        self._speeds: deque[tuple[float, float, float]] = deque(maxlen=4)

    def see(self, time_s: float, movements: Sequence[Movement]) -> None:
        """Take in the movements until a time."""
        for movement in movements:
            seconds = abs(movement.end_s - movement.start_s)
            if seconds > 0.0:
                self._see(time_s, abs(movement.distance_m) / seconds, movement.distance_sd_m / seconds, seconds)

    def _see(self, time_s: float, speed: float, sd: float, seconds: float) -> None:
        if not self._speeds:
            self._speeds.append((speed, sd, seconds))
        self._speeds.append((speed, sd, seconds))
        if not self.jump:
            self.jump, self.steps = _jump_of(self._speeds), 0
        if self.jump:
            self.steps += 1
            back = self._speeds[-2][0] - speed
            if back / self.jump > 0.5 or speed < STILL_M_S:
                self.jump = 0.0
                self._speeds.clear()  # the way back is no jump
            elif self.steps >= LASTING_STEPS:
                self.doubted_s, self.jump = time_s, 0.0


def _jump_of(speeds: Sequence[tuple[float, float, float]]) -> float:
    """How far the speed jumps between the second and the third of four steps, each with its error and its seconds.

    0 if a car could have done it, or if it stood: wheels say 0 at low speed, and stands are watched by the view.
    """
    if len(speeds) < 4:
        return 0.0
    (v0, sd0, s0), (v1, sd1, s1), (v2, sd2, s2), (v3, sd3, s3) = speeds
    left = v1 + s1 * (v1 - v0) / (s0 + s1)
    right = v2 - s2 * (v3 - v2) / (s2 + s3)
    step, rest = v2 - v1, right - left
    height = min(abs(step), abs(rest)) if step * rest > 0.0 else 0.0
    noise = 3.0 * math.hypot(0.5 * sd0, 1.5 * sd1, 1.5 * sd2, 0.5 * sd3)
    most = math.hypot(MOST_M_S2 * 0.5 * (s1 + s2), noise)
    return step if height > max(most, LEAST_JUMP_M_S) and min(v1, v2) > MOVING_M_S else 0.0


class TurnWatch(_Watch):
    """Looks for turns that are stuck. Those of a sensor without noise, such as a simulated one, may well stay the same.

    steps: of a moving camera, so far.
    run: the last of them that had the same turn.
    longest: the longest such run among the first steps, which show whether the sensor is noisy.
    """

    def __init__(self) -> None:
        super().__init__()
        self.steps, self.run, self.longest = 0, 0, 0
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


class FitWatch(_Watch):
    """Looks for a guess that was sure, and does not fit the map any more.

    A doubt lasts as long as the contradictions that led to it.

    was_sure: whether a position has been stated.
    first_s: when a term contradicted the guess first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.was_sure, self.first_s = False, 0.0

    def see(self, time_s: float, margins: Mapping[str, float]) -> None:
        """Take in how well a guess fits the map by each term; see :class:`x2localizer.types.TrackEvidence`."""
        contradicted = any(margin < CONTRADICTED.get(term, -math.inf) for term, margin in margins.items())
        if self.was_sure and contradicted:
            self.first_s = self.first_s if self.doubts(time_s) else time_s
            self.doubted_s = time_s

    def _lasts_s(self) -> float:
        return min(max(abs(self.doubted_s - self.first_s), DOUBT_S), MOST_DOUBT_S)
