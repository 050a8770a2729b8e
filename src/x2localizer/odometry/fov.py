"""How wide a camera sees: stated by its file, or estimated from the turns of its video.

While a camera turns, points at the edges of the frame move further than those in its middle, the more so the wider it
sees. So the field of view under which the most points agree on one turn is about the true one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from x2localizer.errors import VideoError
from x2localizer.odometry.camera import CameraProfile, Lens
from x2localizer.odometry.tracks import PointTracker
from x2localizer.odometry.turn import solve_turn
from x2localizer.odometry.visual import MAX_GAP_S, POINT_PX, prepare
from x2localizer.sources.ros import bag_at
from x2localizer.sources.video import VideoInfo, open_video
from x2localizer.types import Floats, Frame

SPACING_S = 1 / 7
CANDIDATES_DEG = (35.0, 40.0, 46.0, 52.0, 58.0, 65.0, 72.0, 80.0, 90.0, 100.0, 112.0, 125.0)
TURNING_PX = 6.0
"""Points move sideways by at least so much between two frames of a turn, at the usual size of frames."""
TURNS_DEG = 90.0
"""Turns that an estimate needs, all together."""
ENOUGH_DEG = 700.0
"""Turns after which more would not change the estimate."""
NARROW = 1.07
"""Points agree best under a field of view that is too narrow by this factor; fitted on drives through towns."""
PREFERENCE = 0.01
"""What a field of view that is a quarter wider or narrower than usual loses, as a share of the points."""
MOUNT_SD, HORIZON_SD = 0.03, 0.04
"""How far a camera may look off the car's heading, in radians, and the horizon off its usual row, in frame heights."""
SENSOR_MM = (36.0, 24.0)
"""Width and height of the film that focal lengths are stated for."""


@dataclass(frozen=True, slots=True)
class FieldOfView:
    """A horizontal field of view, and how it is known."""

    degrees: float
    origin: Literal["stated", "file", "estimated", "usual"]

    def __str__(self) -> str:
        words = {
            "stated": "as stated", "file": "from the file", "estimated": "estimated from the turns of the video",
            "usual": "of a usual dash camera; --fov states another one, --fov auto estimates it",
        }  # fmt: skip
        return f"{self.degrees:.0f} degrees, {words[self.origin]}"


def find_fov(video: str | Path, fov: float | Literal["auto"] | None = None) -> FieldOfView:
    """The field of view of a video's camera.

    fov: degrees if it is known, "auto" to estimate it, None to take what the file says, or the usual one.
    """
    if fov == "auto":
        return FieldOfView(estimate_fov(video), "estimated")
    if fov is not None:
        return FieldOfView(CameraProfile(fov).fov_deg, "stated")
    degrees = None
    if Path(video).exists() or bag_at(video) is not None:  # cameras and streams are not opened twice
        with open_video(video, spacing_s=SPACING_S, own_process=True) as source:
            degrees = fov_of_file(source.info)
    return FieldOfView(CameraProfile().fov_deg, "usual") if degrees is None else FieldOfView(degrees, "file")


def fov_of_file(info: VideoInfo) -> float | None:
    """The horizontal field of view by the focal length in a file, degrees; None if it states none that can be."""
    if info.focal_35mm is None:
        return None
    side_mm = SENSOR_MM[0] if info.width >= info.height else SENSOR_MM[1]
    degrees = 2.0 * math.degrees(math.atan(0.5 * side_mm / info.focal_35mm))
    return degrees if 10.0 <= degrees <= 150.0 else None


def estimate_fov(video: str | Path | Iterable[Frame]) -> float:
    """The horizontal field of view in degrees, from the turns of a video; some 5% off."""
    if isinstance(video, str | Path):
        if not Path(video).exists() and bag_at(video) is None:
            raise VideoError(f"{video} is no file whose field of view can be estimated.", "State it: --fov 65")
        with open_video(video, spacing_s=SPACING_S, own_process=True) as source:
            return _estimate(source, str(video))
    return _estimate(video, "The video")


def _estimate(frames: Iterable[Frame], name: str) -> float:
    tracker, rng = PointTracker(), np.random.default_rng(0)
    agreeing, turned, last_s, shift = np.zeros(len(CANDIDATES_DEG)), 0.0, -math.inf, 0.0
    for frame in frames:
        gray = prepare(frame.image)
        if gray is None or not 0 < frame.time_s - last_s <= MAX_GAP_S:
            if gray is not None:
                tracker.restart(gray)
            last_s, shift = (frame.time_s if gray is not None else -math.inf), 0.0
            continue
        last_s = frame.time_s
        pixels = tracker.follow(gray, shift)
        shift = float(np.median(pixels[:, 2] - pixels[:, 0])) if len(pixels) else 0.0
        if abs(shift) < TURNING_PX:
            continue
        found = [_agreeing(pixels, CameraProfile(fov).lens(*gray.shape), shift, rng) for fov in CANDIDATES_DEG]
        agreeing += [points for points, _ in found]
        turned += abs(found[CANDIDATES_DEG.index(65.0)][1])
        if turned > math.radians(ENOUGH_DEG):
            break
    if turned < math.radians(TURNS_DEG):
        raise VideoError(
            f"{name} turns by {math.degrees(turned):.0f} degrees, too little to estimate its field of view.",
            "State it, such as --fov 65.",
        )
    return _peak(agreeing)


def _agreeing(pixels: Floats, lens: Lens, shift: float, rng: np.random.Generator) -> tuple[int, float]:
    """How many points agree on one turn through a lens, and that turn in radians."""
    points = (pixels - np.array([lens.centre, lens.horizon, lens.centre, lens.horizon])) / lens.focal
    cov = np.diag([MOUNT_SD**2, (HORIZON_SD * lens.height / lens.focal) ** 2])
    turn = solve_turn(points, -shift / lens.focal, 0.0, cov, POINT_PX / lens.focal, rng, 0.5)
    return (0, 0.0) if turn is None else (int(turn.inliers.sum()), turn.yaw)


def _peak(agreeing: Floats) -> float:
    """The field of view at the top of a parabola through the best candidate and its neighbours.

    Narrow fields of view fit nearly alike, so usual ones are preferred a little.
    """
    widths = np.log(np.tan(np.radians(np.array(CANDIDATES_DEG)) / 2))
    usual = math.log(math.tan(math.radians(CameraProfile().fov_deg) / 2))
    score = agreeing / agreeing.max() - PREFERENCE * ((widths - usual) / 0.25) ** 2
    best = int(np.clip(score.argmax(), 1, len(score) - 2))
    near = slice(best - 1, best + 2)
    square, slope, _ = np.polyfit(widths[near], score[near], 2)
    top = -0.5 * slope / square if square < 0 else widths[best]
    width = NARROW * math.exp(float(np.clip(top, widths[best - 1], widths[best + 1])))
    return 2.0 * math.degrees(math.atan(width))
