"""Visual odometry: frames of a dash camera in, movements with standard deviations out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import cv2
import numpy as np

from x2localizer.odometry.camera import CameraProfile, Lens
from x2localizer.odometry.ground import Alignment, Step, align, nearest_m
from x2localizer.odometry.mounting import Mounting, Sideways
from x2localizer.odometry.tracks import Gray, PointTracker
from x2localizer.odometry.turn import Turn, solve_turn
from x2localizer.types import Frame, Image, Movement

AREA_PX = 216 * 384
"""Frames are resized to about this many pixels."""
SMALLEST_PX = 48
"""Frames with a shorter side than this show too little."""
MAX_GAP_S = 0.5
"""Frames further apart than this have too little in common."""
REPEATED_S = 0.3
"""A frame equal to the previous one to the last bit is a repeated one, unless that lasts for longer than this."""
FLAT = 4.0
"""Grey levels of spread below which a frame shows nothing, as with a covered lens."""
POINT_PX = 0.25
"""Standard deviation of a followed point."""
STILL_PX, MOVING_PX = 0.3, 0.6
"""Points move outward by less when the camera stands, and by more when it moves."""
STILL_M = 0.05
"""Movements between two frames below this are noise if the points say that the camera stands."""
ACCELERATION = 3.0
"""Usual changes of speed, m/s2."""
TOP_M_S, TOP_REVERSE_M_S = 55.0, 8.0
TIGHTEST_M = 4.5
"""Radius of the tightest circle that a car can drive."""
SHAKE_RATE = 0.1
"""Radians per second that a camera may turn without its car."""


@dataclass(frozen=True, slots=True)
class _Motion:
    """What is known of the car at a frame: m/s and radians per second, deviation of the speed, time since measured."""

    speed: float = 0.0
    speed_sd: float = 10.0
    yaw_rate: float = 0.0
    speed_lost_s: float = 0.0
    turn_lost_s: float = 0.0


class VisualOdometry:
    """How a camera moves, frame by frame; frames should be 0.07 to 0.2 s apart."""

    def __init__(self, camera: CameraProfile | None = None) -> None:
        self._camera = camera or CameraProfile()
        self._tracker = PointTracker()
        self._rng = np.random.default_rng(0)
        self._before: Gray | None = None
        self._time_s = 0.0
        self._lens: Lens | None = None
        self._motion = _Motion()

    def update(self, frame: Frame) -> Movement | None:
        """The movement since the last usable frame.

        None for the first frame, after a gap, for a frame that shows nothing, and for a repeated frame; the movement
        during repeated frames is part of the next one.
        """
        gray = prepare(frame.image)
        if gray is None:
            self._before = None
            return None
        before, start_s = self._before, self._time_s
        seconds = frame.time_s - start_s
        if self._lens is None or (self._lens.height, self._lens.width) != gray.shape:
            self._lens, before = self._camera.lens(*gray.shape), None
            self._mounting = Mounting(self._lens)
        if before is not None and 0 < seconds < REPEATED_S and np.array_equal(before, gray):
            return None
        self._before, self._time_s = gray, frame.time_s
        if before is None or not 0 < seconds <= MAX_GAP_S:
            self._tracker.restart(gray)
            self._motion = _Motion()
            return None
        return self._move(self._lens, before, gray, start_s, frame.time_s)

    @property
    def horizon(self) -> float | None:
        """Row of the horizon as a share of the frame's height; None before the first usable frame."""
        if self._lens is None:
            return None
        return (self._mounting.horizon * self._lens.focal + 0.5) / self._lens.height

    def _move(self, lens: Lens, before: Gray, gray: Gray, start_s: float, end_s: float) -> Movement:
        seconds, motion, mounting = end_s - start_s, self._motion, self._mounting
        turn = self._turn(lens, gray, seconds)
        yaw, pitch = motion.yaw_rate * seconds, 0.0
        if turn is not None:
            mounting.see_points(turn)
            yaw, pitch = mounting.yaw, mounting.pitch
        horizon = mounting.horizon * lens.focal
        step = Step(motion.speed * seconds, yaw, mounting.mount)
        rows = (horizon, horizon + pitch * lens.focal)
        road = _aligned(before, gray, lens, rows, step, turn, motion, seconds)
        if turn is None:
            turn_lost_s = motion.turn_lost_s + seconds
            yaw_sd = _lost_sd(0.1 + 0.5 * abs(motion.yaw_rate), turn_lost_s, seconds)
        else:
            sideways = _sideways(road, lens, horizon)
            if sideways is not None:
                mounting.see_road(sideways)
            yaw, turn_lost_s = mounting.yaw, 0.0
            yaw_sd = turn_sd(mounting.yaw_sd, yaw / seconds, seconds)
        mounting.advance(seconds)
        if road is None:
            speed_sd = min(math.hypot(motion.speed_sd, ACCELERATION * seconds), 10.0)
            lost_s = motion.speed_lost_s + seconds
            distance_m, distance_sd_m = motion.speed * seconds, _lost_sd(speed_sd, lost_s, seconds)
            motion = replace(motion, speed_sd=speed_sd, speed_lost_s=lost_s)
        else:
            distance_m = road.distance_m
            if turn is not None and abs(distance_m) < STILL_M and _outward_px(turn, lens) < STILL_PX:
                distance_m = 0.0
            distance_sd_m = distance_sd(distance_m / seconds, road.strength, seconds)
            share = 1.0 if motion.speed_sd > 2.0 else 0.7
            speed = motion.speed + share * (distance_m / seconds - motion.speed)
            motion = replace(motion, speed=speed, speed_sd=0.3, speed_lost_s=0.0)
        self._motion = replace(motion, yaw_rate=yaw / seconds, turn_lost_s=turn_lost_s)
        return Movement(start_s, end_s, distance_m, math.degrees(yaw), distance_sd_m, math.degrees(yaw_sd))

    def _turn(self, lens: Lens, gray: Gray, seconds: float) -> Turn | None:
        """The turn that the followed points agree on."""
        motion, mounting = self._motion, self._mounting
        expected = motion.yaw_rate * seconds
        pixels = self._tracker.follow(gray, -expected * lens.focal)
        horizon = mounting.horizon * lens.focal
        points = (pixels - np.array([lens.centre, horizon, lens.centre, horizon])) / lens.focal
        fastest = abs(motion.speed) + 2 * motion.speed_sd + 1.0
        largest = min(seconds * (fastest / TIGHTEST_M + SHAKE_RATE), 0.5)
        return solve_turn(points, expected, mounting.mount, mounting.cov, POINT_PX / lens.focal, self._rng, largest)


def prepare(image: Image) -> Gray | None:
    """The frame in grey and of the usual size; None if it shows nothing."""
    if image.ndim == 3:
        image = image[:, :, 0] if image.shape[2] == 1 else np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
    if min(image.shape) < SMALLEST_PX:
        return None
    scale = math.sqrt(AREA_PX / image.size)
    if abs(scale - 1) > 0.02:
        size = (round(image.shape[1] * scale), round(image.shape[0] * scale))
        shrink = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
        image = np.asarray(cv2.resize(image, size, interpolation=shrink), np.uint8)
    return None if float(image.std()) < FLAT else image


def _outward_px(turn: Turn, lens: Lens) -> float:
    """How far points move along their lines; a third of them moves further."""
    return float(np.quantile(turn.forward * turn.outward[turn.inliers], 0.7)) * lens.focal


def _aligned(
    before: Gray, gray: Gray, lens: Lens, horizons: tuple[float, float], step: Step, turn: Turn | None,
    motion: _Motion, seconds: float,
) -> Alignment | None:  # fmt: skip
    """The distance by the road, within what the points allow."""
    spread_m = math.hypot(motion.speed_sd, ACCELERATION * seconds) * seconds + 0.02
    limits, banned_m = (-TOP_REVERSE_M_S * seconds, TOP_M_S * seconds), 0.0
    if turn is not None:
        outward_px = _outward_px(turn, lens)
        if outward_px < STILL_PX:
            limits = (-2 * STILL_M, 2 * STILL_M)
        elif outward_px > MOVING_PX:
            banned_m = 0.04
            limits = (0.0, limits[1]) if turn.forward > 0 else (limits[0], 0.0)
    return align(before, gray, lens, horizons, step, spread_m, limits, banned_m)


def _sideways(road: Alignment | None, lens: Lens, horizon: float) -> Sideways | None:
    """What the road says about the mount and the turn; None if it is unclear."""
    if road is None or road.strength < 8.0 or abs(road.sideways_m) > 0.12:
        return None
    return Sideways(road.sideways_m, 0.002 + 0.1 / road.strength, nearest_m(lens, horizon) + 1.0, road.distance_m)


def turn_sd(solved_sd: float, yaw_rate: float, seconds: float) -> float:
    """Standard deviation of a measured turn in radians, such that variances add up over seconds."""
    per_root_s = math.radians(0.2) + 0.02 * abs(yaw_rate)
    return math.sqrt(per_root_s**2 * seconds + solved_sd**2)


def distance_sd(speed: float, strength: float, seconds: float) -> float:
    """Standard deviation of a measured distance in metres, such that variances add up over seconds."""
    per_root_s = 0.03 + 0.035 * abs(speed)
    return math.sqrt(per_root_s**2 * seconds + (0.1 / strength) ** 2)


def _lost_sd(rate_sd: float, lost_s: float, seconds: float) -> float:
    """What one step adds when a rate has not been measured for some time: its error is the same all along."""
    return rate_sd * math.sqrt(max(2 * lost_s - seconds, seconds) * seconds)
