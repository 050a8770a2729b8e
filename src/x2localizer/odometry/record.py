"""The motion of a whole video."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import numpy as np

from x2localizer.errors import VideoError
from x2localizer.odometry.camera import CameraProfile
from x2localizer.odometry.visual import MAX_GAP_S, VisualOdometry
from x2localizer.sources.motion import MotionRecord
from x2localizer.sources.motion.record import MAX_GAP_S as RECORD_GAP_S
from x2localizer.sources.video import open_video
from x2localizer.types import Frame, Movement, Progress

SPACING_S = 1 / 7
"""Time between the frames that are used: long enough for near and far points to differ."""
SCALE_SD = 0.025
"""Relative error that all distances of a drive share, even if the height of the camera is known exactly."""
GAP_SPEED_SD, GAP_YAW_SD = 5.0, 20.0
"""What is unknown about a short gap: m/s, and degrees for each second."""


def video_motion(
    video: str | Path | Iterable[Frame],
    camera: CameraProfile | None = None,
    progress: Progress = lambda what, done, total: None,
) -> MotionRecord:
    """How far the camera of a video has come and turned, at each time.

    video: a file, a folder of images or an address; or frames 0.07 to 0.2 s apart.
    camera: the field of view of a usual dash camera, 1.5 m above the road, if None.
    progress: called with the seconds of video done, and their total (0 if unknown).

    Across a gap of at most 3 s, such as a covered lens, the camera is taken to move as before, with a large variance.
    """
    camera = camera or CameraProfile()
    odometry, chain = VisualOdometry(camera), _Chain()
    with _frames(video) as (frames, name, total_s, start_time):
        for frame in frames:
            chain.add(odometry.update(frame))
            progress("seconds of video", int(frame.time_s), int(total_s))
    return chain.record(name, scale_sd_of(camera), start_time)


def scale_sd_of(camera: CameraProfile) -> float:
    """The relative error that all distances of a drive with this camera share."""
    return math.hypot(SCALE_SD, camera.height_sd_m / camera.height_m)


@contextmanager
def _frames(video: str | Path | Iterable[Frame]) -> Iterator[tuple[Iterable[Frame], str, float, datetime | None]]:
    """Frames, with the name, duration and start of their video where these are known."""
    if not isinstance(video, str | Path):
        yield video, "The video", 0.0, None
        return
    with open_video(video, spacing_s=SPACING_S, own_process=True) as source:
        yield source, str(video), source.info.duration_s or 0.0, source.info.start_time


class _Chain:
    """Movements that are added up."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, float, float, float, float]] = []
        self._last: Movement | None = None

    def add(self, movement: Movement | None) -> None:
        if movement is None:
            return
        if self._last is None:
            self._rows.append((movement.start_s, 0.0, 0.0, 0.0, 0.0))
        elif movement.start_s > self._last.end_s + 1e-6:
            self._add(_across(self._last, movement.start_s))
        self._add(movement)
        self._last = movement

    def _add(self, movement: Movement) -> None:
        _, distance_m, heading_deg, distance_var, heading_var = self._rows[-1]
        self._rows.append((
            movement.end_s, distance_m + movement.distance_m, heading_deg + movement.turn_deg,
            distance_var + movement.distance_sd_m**2, heading_var + movement.turn_sd_deg**2,
        ))  # fmt: skip

    def record(self, name: str, scale_sd: float, start_time: datetime | None) -> MotionRecord:
        if len(self._rows) < 2:
            raise VideoError(
                f"{name} shows no movement that can be measured.",
                f"Odometry needs frames of a moving camera at most {MAX_GAP_S} s apart, by day or with headlights.",
            )
        times_s, distances_m, headings_deg, distance_vars, heading_vars = np.array(self._rows).T
        return MotionRecord(
            times_s, distances_m, headings_deg, distance_vars, heading_vars, scale_sd, start_time=start_time
        )


def _across(last: Movement, end_s: float) -> Movement:
    """A movement across a gap: as before if it is short; a long one is a gap of the record, too."""
    gap_s = end_s - last.end_s
    share = gap_s / (last.end_s - last.start_s) if gap_s <= RECORD_GAP_S else 0.0
    return Movement(
        last.end_s, end_s, share * last.distance_m, share * last.turn_deg, GAP_SPEED_SD * gap_s, GAP_YAW_SD * gap_s
    )
