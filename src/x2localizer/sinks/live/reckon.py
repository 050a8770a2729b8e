"""A receiver's answer at a steady rate: fixes as they come and, in between, odometry with growing uncertainty."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from x2localizer import geo
from x2localizer.localize.track.ellipse import ELLIPSE_95
from x2localizer.types import ErrorEllipse, Fix, Movement, Position

FRESH_S = 1.5
"""A position is as good as a fix for so long after one; fixes come once a second."""
LONGEST_S = 5.0
"""Seconds after a fix until which odometry may carry a position on; then there is none."""
SCALE_SD = 0.05
"""Share of a distance that odometry may be wrong by, beyond the error of each movement."""
HEADING_SD_DEG = 5.0
"""Error of a fix's heading; fixes do not say it."""
SPEED_SD_M_S, YAW_SD_DEG_S = 3.0, 20.0
"""What speed and yaw rate may be wrong by where odometry does not know them."""
WITHOUT_ELLIPSE_M = geo.RIGHT_WITHIN_M / ELLIPSE_95
"""Standard deviation of a fix that states no ellipse: sure fixes are within 80 m."""
BRIDGED_S = 0.5
"""Longest gap in the odometry that is bridged as if the camera went on, with much doubt."""
MOST_AT_ONCE = 100
"""Epochs that one movement can pass; after a jump of the clock, not thousands."""
_SAME_S = 1e-3

Covariance = tuple[float, float, float]
"""Of a position, in square metres: east-east, east-north, north-north."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """What a receiver says at one time; without a position everything else is unknown, too.

    time_s: of the drive; None if there is no drive, or no news of it.
    position: None when the camera is lost, still being located, or no fix came for 5 s.
    covariance_m2: of the position: east-east, east-north, north-north.
    heading_deg, heading_sd_deg: clockwise from north, with its standard deviation; None if unknown.
    speed_m_s, speed_sd_m_s: backward is negative; None if unknown.
    yaw_rate_deg_s, yaw_rate_sd_deg_s: clockwise; None if unknown.
    age_s: time since the fix that it rests on.
    """

    time_s: float | None
    position: Position | None = None
    covariance_m2: Covariance = (0.0, 0.0, 0.0)
    heading_deg: float | None = None
    heading_sd_deg: float = HEADING_SD_DEG
    speed_m_s: float | None = None
    speed_sd_m_s: float | None = None
    yaw_rate_deg_s: float | None = None
    yaw_rate_sd_deg_s: float | None = None
    age_s: float = 0.0

    @property
    def estimated(self) -> bool:
        """Whether a fix is overdue, so that the position rests on odometry alone."""
        return self.age_s > FRESH_S

    @property
    def sd_m(self) -> tuple[float, float]:
        """Standard deviations eastward and northward."""
        east, _, north = self.covariance_m2
        return math.sqrt(east), math.sqrt(north)


def covariance_of(ellipse: ErrorEllipse | None) -> Covariance:
    """The covariance of a position from the ellipse that holds it with 95% probability."""
    if ellipse is None:
        return WITHOUT_ELLIPSE_M**2, 0.0, WITHOUT_ELLIPSE_M**2
    major, minor = (axis / ELLIPSE_95 for axis in (ellipse.major_m, ellipse.minor_m))
    return _rotated(major**2, minor**2, math.radians(ellipse.angle_deg))


def axes_of(covariance_m2: Covariance) -> tuple[float, float, float]:
    """Standard deviations along the longer and the shorter axis, and the direction of the longer one in degrees."""
    east, mixed, north = covariance_m2
    middle, half = 0.5 * (east + north), math.hypot(0.5 * (east - north), mixed)
    angle = 0.5 * math.degrees(math.atan2(2.0 * mixed, north - east))
    return math.sqrt(middle + half), math.sqrt(max(middle - half, 0.0)), angle % 180.0


def _rotated(along: float, across: float, direction: float) -> Covariance:
    """A covariance with these variances along a direction (radians clockwise from north) and across it."""
    s, c = math.sin(direction), math.cos(direction)
    return along * s * s + across * c * c, (along - across) * s * c, along * c * c + across * s * s


@dataclass
class _Course:
    """Where odometry has taken a fix: metres since it, and what their error has grown to."""

    fix: Fix
    time_s: float
    heading_deg: float
    speed_m_s: float | None
    east_m: float = 0.0
    north_m: float = 0.0
    driven_m: float = 0.0
    distance_var: float = 0.0
    heading_var: float = HEADING_SD_DEG**2
    speed_sd_m_s: float | None = None
    yaw_rate_deg_s: float | None = None
    yaw_rate_sd_deg_s: float | None = None

    def move(self, movement: Movement, share: float) -> None:
        """Go on by a share of a movement that takes time."""
        seconds = share * (movement.end_s - movement.start_s)
        distance, turn = share * movement.distance_m, share * movement.turn_deg
        distance_var, turn_var = share * movement.distance_sd_m**2, share * movement.turn_sd_deg**2
        if not math.isfinite(movement.distance_sd_m):
            distance, distance_var = (self.speed_m_s or 0.0) * seconds, (SPEED_SD_M_S * seconds) ** 2
        else:
            self.speed_m_s = distance / seconds
            self.speed_sd_m_s = math.hypot(math.sqrt(distance_var) / seconds, SCALE_SD * self.speed_m_s)
        if not math.isfinite(movement.turn_sd_deg):
            turn, turn_var = 0.0, (YAW_SD_DEG_S * seconds) ** 2
        else:
            self.yaw_rate_deg_s, self.yaw_rate_sd_deg_s = turn / seconds, math.sqrt(turn_var) / seconds
        middle = math.radians(self.heading_deg + 0.5 * turn)
        self.east_m += distance * math.sin(middle)
        self.north_m += distance * math.cos(middle)
        self.driven_m += abs(distance)
        self.heading_deg = (self.heading_deg + turn) % 360.0
        self.distance_var += distance_var
        self.heading_var += turn_var
        self.time_s += seconds

    def epoch(self) -> Epoch:
        """What a receiver says now."""
        assert self.fix.guess is not None
        lat, lon = geo.LocalMetres(self.fix.guess).to_degrees(self.east_m, self.north_m)
        direction = math.atan2(self.east_m, self.north_m)
        along = self.distance_var + (SCALE_SD * self.driven_m) ** 2
        across = math.radians(math.sqrt(self.heading_var)) ** 2 * self.driven_m**2
        own, grown = covariance_of(self.fix.ellipse), _rotated(along, across, direction)
        return Epoch(
            self.time_s, Position(float(lat), float(lon)), (own[0] + grown[0], own[1] + grown[1], own[2] + grown[2]),
            None if self.fix.heading_deg is None else self.heading_deg, math.sqrt(self.heading_var), self.speed_m_s,
            self.speed_sd_m_s, self.yaw_rate_deg_s, self.yaw_rate_sd_deg_s, self.time_s - self.fix.time_s,
        )  # fmt: skip


class Reckoner:
    """Turns fixes and movements into epochs at a steady rate, in the time of the drive.

    rate_hz: epochs in a second, at most; without odometry there are only those of fixes.

    Nothing is made up: a fix that is not sure, 5 s without one, and a gap in the odometry end the position. A fix may
    be late, as encoding its frame takes time: what has moved since is then added to it.
    """

    def __init__(self, rate_hz: float) -> None:
        self.rate_hz = rate_hz
        self._due: int | None = None
        self._now_s: float | None = None
        self._course: _Course | None = None
        self._recent: deque[Movement] = deque()

    def fix(self, fix: Fix) -> list[Epoch]:
        """Take in a fix: its epoch, if one is due."""
        now_s = fix.time_s if self._now_s is None else self._now_s
        if fix.time_s < now_s - LONGEST_S:  # the clock was set back: a new drive
            self._due, now_s = None, fix.time_s
            self._recent.clear()
        self._now_s = fix.time_s
        self._course = None
        if fix.position is not None:
            self._course = _Course(fix, fix.time_s, fix.heading_deg or 0.0, fix.speed_m_s)
        if fix.time_s < now_s - _SAME_S:
            self._catch_up(now_s)
            return []
        number = math.floor((fix.time_s + _SAME_S) * self.rate_hz)
        if self._due is not None and number < self._due:
            return []
        self._due = number + 1
        return [self._epoch()]

    def _catch_up(self, now_s: float) -> None:
        """Move a late fix on by what has moved since."""
        for movement in self._recent:
            self._reach(movement)
            self._advance(movement, min(movement.end_s, now_s))
        self._now_s = now_s

    def motion(self, movement: Movement) -> list[Epoch]:
        """Take in a movement: the epochs that it has passed."""
        if not movement.end_s > movement.start_s:
            return []
        self._now_s = movement.start_s if self._now_s is None else self._now_s
        self._recent.append(movement)
        while self._recent[0].end_s < movement.end_s - LONGEST_S:
            self._recent.popleft()
        self._reach(movement)
        epochs = []
        for time_s in self._due_until(movement.end_s):
            self._advance(movement, time_s)
            epochs.append(self._epoch())
        self._advance(movement, movement.end_s)
        return epochs

    def _reach(self, movement: Movement) -> None:
        """Get to the start of a movement, across a short gap at most."""
        assert self._now_s is not None
        gap_s = movement.start_s - self._now_s
        if gap_s <= _SAME_S:
            return
        if self._course is not None and gap_s <= BRIDGED_S:
            self._course.move(Movement(self._now_s, movement.start_s, 0.0, 0.0, math.inf, math.inf), 1.0)
        else:
            self._course = None
        self._now_s = movement.start_s

    def _due_until(self, end_s: float) -> list[float]:
        assert self._now_s is not None
        if self._due is None:
            self._due = math.ceil((self._now_s - _SAME_S) * self.rate_hz)
        last = math.floor((end_s + _SAME_S) * self.rate_hz)
        numbers = range(max(self._due, last - MOST_AT_ONCE), last + 1)
        self._due = max(self._due, last + 1)
        return [number / self.rate_hz for number in numbers]

    def _advance(self, movement: Movement, time_s: float) -> None:
        assert self._now_s is not None
        share = (time_s - self._now_s) / (movement.end_s - movement.start_s)
        if share > 0:
            if self._course is not None:
                self._course.move(movement, share)
            self._now_s = time_s

    def _epoch(self) -> Epoch:
        assert self._now_s is not None
        course = self._course
        if course is not None and (
            self._now_s - course.fix.time_s > LONGEST_S or (course.fix.heading_deg is None and course.driven_m > 0)
        ):
            course = self._course = None
        return Epoch(self._now_s) if course is None else course.epoch()
