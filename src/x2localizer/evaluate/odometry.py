"""How good is visual odometry? Drives through test towns, by day and by night, beside the exact truth."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from x2localizer.config import TownSettings
from x2localizer.errors import UserError
from x2localizer.odometry import CameraProfile, VisualOdometry, video_motion
from x2localizer.sources.motion import MotionRecord
from x2localizer.town.drive import Drive, draw_drive, open_film
from x2localizer.town.scene import CAMERA_HEIGHT_M
from x2localizer.town.town import Town, build_town
from x2localizer.types import Floats, Frame, Progress

WINDOW_S = 30.0
NORMALISED_S = 10.0
"""Windows over which errors are compared with their standard deviations."""
LEAST_M = 30.0
"""Windows in which the car drives less tell nothing about the relative error of the distance."""


@dataclass(frozen=True, slots=True, eq=False)
class Driven:
    """A drive with its odometry and the truth at the same times; arrays have shape (n,).

    distances_m, headings_deg: the truth.
    ms_per_frame: processor time.
    """

    record: MotionRecord
    distances_m: Floats
    headings_deg: Floats
    ms_per_frame: float


def bench_odometry(
    towns: Sequence[int] = range(9000, 9004), seconds: float = 90.0, fps: float = 7.0,
    progress: Progress = lambda what, done, total: None,
) -> dict[str, object]:  # fmt: skip
    """Errors of odometry over 30 s, drift while standing, speed, and whether the deviations are right.

    Each town is driven through once by day and once at night, with the true field of view and height of the camera.
    """
    drives: dict[str, list[Driven]] = {"day": [], "night": []}
    for number, seed in enumerate(towns):
        town = build_town(seed, TownSettings())
        for light, done in drives.items():
            progress("drives", 2 * number + (light == "night"), 2 * len(towns))
            done.append(_measure(town, seed % 100 + 1, seconds, fps, night=light == "night"))
    progress("drives", 2 * len(towns), 2 * len(towns))
    values: dict[str, object] = {"drives": 2 * len(towns), "seconds": seconds, "fps": fps}
    for light, done in drives.items():
        values |= {f"{light}_{name}": value for name, value in summarize(done).items()}
    values["ms_per_frame"] = float(np.mean([driven.ms_per_frame for done in drives.values() for driven in done]))
    return values


def summarize(drives: Sequence[Driven]) -> dict[str, float]:
    """The figures of some drives together."""
    turns, shares, turn_z, distance_z, standing = [], [], [], [], []
    for driven in drives:
        record = driven.record
        turn, distance, true_m, _, _ = _over(driven, WINDOW_S)
        turns.append(np.abs(turn))
        shares.append(100 * np.abs(distance / np.maximum(true_m, 1.0))[true_m > LEAST_M])
        turn, distance, true_m, turn_sd, distance_sd = _over(driven, NORMALISED_S)
        turn_z.append(turn / turn_sd)
        distance_z.append(distance / np.hypot(distance_sd, record.scale_sd * true_m))
        gaps = np.diff(record.times_s)
        stands = np.convolve(np.diff(driven.distances_m), np.ones(5), "same") < 1e-6
        standing.append(np.abs(np.diff(record.distances_m) / gaps)[stands])
    still = np.concatenate(standing)
    return {
        "turn_deg_median": _quantile(turns, 0.5),
        "turn_deg_p90": _quantile(turns, 0.9),
        "distance_percent_median": _quantile(shares, 0.5),
        "distance_percent_p90": _quantile(shares, 0.9),
        "standing_m_s": float(still.mean()) if len(still) else float("nan"),
        "normalised_turn": float(np.sqrt(np.mean(np.concatenate(turn_z) ** 2))),
        "normalised_distance": float(np.sqrt(np.mean(np.concatenate(distance_z) ** 2))),
    }


def _over(driven: Driven, seconds: float) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Errors of turn and distance over all windows, the true distances, and the deviations of both."""
    record = driven.record
    start = np.flatnonzero(record.times_s + seconds <= record.times_s[-1] + 1e-6)
    end = np.searchsorted(record.times_s, record.times_s[start] + seconds - 1e-6)

    def change(values: Floats) -> Floats:
        return np.asarray(values[end] - values[start])

    return (
        change(record.headings_deg - driven.headings_deg), change(record.distances_m - driven.distances_m),
        change(driven.distances_m), np.sqrt(change(record.heading_vars)), np.sqrt(change(record.distance_vars)),
    )  # fmt: skip


def _measure(town: Town, seed: int, seconds: float, fps: float, *, night: bool) -> Driven:
    drive = draw_drive(town, seed, seconds, night=night)
    if drive is None:
        raise UserError(f"Town {town.seed} has no road for such a drive.", "Choose fewer --seconds.")
    film = open_film(town, drive, 216, 384)
    frames = list(film.frames(np.arange(0.0, seconds, 1.0 / fps)))
    camera = CameraProfile(drive.fov_deg, CAMERA_HEIGHT_M)
    record = video_motion(frames, camera)
    distances_m, headings_deg = _truth(drive, record.times_s)
    return Driven(record, distances_m, headings_deg, _ms_per_frame(frames[:200], camera))


def _truth(drive: Drive, times_s: Floats) -> tuple[Floats, Floats]:
    """Distances and headings of the car."""
    _, _, headings = drive.places(times_s)
    return np.interp(times_s, drive.times_s, drive.distances_m), np.degrees(np.unwrap(headings))


def _ms_per_frame(frames: Sequence[Frame], camera: CameraProfile) -> float:
    """Processor time on one core."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        odometry = VisualOdometry(camera)
        start = time.thread_time()
        for frame in frames:
            odometry.update(frame)
        return 1000 * (time.thread_time() - start) / len(frames)
    finally:
        cv2.setNumThreads(threads)


def _quantile(parts: Sequence[Floats], share: float) -> float:
    values = np.concatenate(parts)
    return float(np.quantile(values, share)) if len(values) else float("nan")
