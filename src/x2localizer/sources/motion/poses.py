"""Motion from camera poses that another program found: KITTI's and TUM's text files.

KITTI: 12 numbers a row, the 3 x 4 matrix from camera to world; the camera's x points right, y down, z forward. TUM: 8
numbers a row, time, position and quaternion (x, y, z, w); the axes are the camera's (as above) or the body's (x
forward, y left, z up), whichever the poses move along. World axes and the height do not matter.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from x2localizer.errors import MotionError
from x2localizer.sources.motion.checks import check_record, check_times, since_start
from x2localizer.sources.motion.record import MotionRecord
from x2localizer.types import Floats

KITTI_COLUMNS, TUM_COLUMNS = 12, 8
KITTI_RATE_HZ = 10.0
DISTANCE_SD_M, TURN_SD_DEG = 0.2, 0.2
"""Standard deviations over one second of driving."""
SCALE_SD, BIAS_SD_DEG_S = 0.05, 0.02
_CAMERA_IN_BODY = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])


def pose_columns(text: str) -> int:
    """How many numbers the first row of a text has; 0 if it is not a row of numbers."""
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            words = line.replace(",", " ").split()
            try:
                return len([float(word) for word in words])
            except ValueError:
                return 0
    return 0


def read_kitti(path: Path, rate_hz: float | None = None) -> MotionRecord:
    """Motion from KITTI's poses; times from ``times.txt`` beside it, else rows at ``rate_hz`` (10 by default)."""
    rows = _numbers(path, KITTI_COLUMNS).reshape(-1, 3, 4)
    clock = path.parent / "times.txt"
    if rate_hz is None and clock.is_file() and clock != path:
        times = _numbers(clock, 1)[:, 0]
        if len(times) != len(rows):
            raise MotionError(
                f"{path} has {len(rows)} poses, but {clock} has {len(times)} times.", "Give the rate of the poses."
            )
    else:
        times = np.arange(len(rows)) / (rate_hz or KITTI_RATE_HZ)
    check_times(path, times)
    return _motion(path, times, rows[:, :, :3], rows[:, :, 3])


def read_tum(path: Path) -> MotionRecord:
    """Motion from a trajectory in TUM's format."""
    rows = _numbers(path, TUM_COLUMNS)
    check_times(path, rows[:, 0])
    times, start = since_start(rows[:, 0])
    rotations = _rotations(path, rows[:, 4:8])
    record = _motion(path, times, _camera_axes(path, rotations, rows[:, 1:4]), rows[:, 1:4])
    return MotionRecord(
        record.times_s, record.distances_m, record.headings_deg, record.distance_vars, record.heading_vars,
        record.scale_sd, record.bias_sd_deg_s, start,
    )  # fmt: skip


def _numbers(path: Path, columns: int) -> Floats:
    """The rows of a text file of numbers, (n, columns)."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    rows: list[list[float]] = []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                row = [float(word) for word in line.replace(",", " ").split()]
            except ValueError:
                row = []
            if len(row) != columns or not np.isfinite(row).all():
                raise MotionError(f"Line {number} of {path} is not {columns} numbers.", "Export the poses again.")
            rows.append(row)
    if len(rows) < 2:
        raise MotionError(f"{path} has {len(rows)} rows, too few for a motion.", "Give a file with two or more.")
    return np.array(rows)


def _rotations(path: Path, quaternions: Floats) -> Floats:
    """Rotation matrices of quaternions (n, 4) in the order x, y, z, w."""
    length = np.linalg.norm(quaternions, axis=1, keepdims=True)
    if np.any(np.abs(length - 1.0) > 0.1):
        raise MotionError(f"{path} has quaternions whose length is not 1.", "Write the columns as t x y z qx qy qz qw.")
    x, y, z, w = (quaternions / length).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.array(rows).transpose(2, 0, 1)


def _camera_axes(path: Path, rotations: Floats, places: Floats) -> Floats:
    """Rotations of the camera, from those of the camera or of the body; it moves along its forward axis."""
    local = np.einsum("nji,nj->ni", rotations[:-1], np.diff(places, axis=0))
    along = np.abs(local.sum(0))
    if along[2] >= 2 * max(along[0], along[1]):
        return rotations
    if along[0] >= 2 * max(along[1], along[2]):
        return np.asarray(rotations @ _CAMERA_IN_BODY, np.float64)
    raise MotionError(
        f"{path} does not say which way is forward: its poses move along no axis of their own.",
        "Write poses of the camera (x right, y down, z forward) or of the car (x forward, y left, z up).",
    )


def _motion(path: Path, times: Floats, rotations: Floats, places: Floats) -> MotionRecord:
    """Distance along the view, and heading about the mean vertical of the camera."""
    off = np.abs(np.einsum("nij,nik->njk", rotations, rotations) - np.eye(3)).max((1, 2))
    if np.any(off > 0.1) or np.any(np.linalg.det(rotations) < 0):
        row = int(np.argmax((off > 0.1) | (np.linalg.det(rotations) < 0))) + 1
        raise MotionError(f"Row {row} of {path} is not a pose: its matrix is no rotation.", "Export the poses again.")
    forward, down = rotations[:, :, 2], rotations[:, :, 1].mean(0)
    if np.linalg.norm(down) < 0.5:
        raise MotionError(f"The camera of {path} does not stay upright.", "Give poses of a camera on a car.")
    down /= np.linalg.norm(down)
    ahead = forward[0] - down * (forward[0] @ down)
    ahead /= max(float(np.linalg.norm(ahead)), 1e-9)
    right = np.cross(down, ahead)
    headings = np.degrees(np.unwrap(np.arctan2(forward @ right, forward @ ahead)))
    # Along the view half-way between two poses: noise of a standing camera adds up to nothing.
    mean = forward[1:] + forward[:-1]
    mean /= np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-9)
    steps = np.einsum("ni,ni->n", np.diff(places, axis=0), mean)
    since = times - times[0]
    record = MotionRecord(
        times, np.concatenate([[0.0], np.cumsum(steps)]), headings - headings[0], DISTANCE_SD_M**2 * since,
        TURN_SD_DEG**2 * since, SCALE_SD, BIAS_SD_DEG_S,
    )  # fmt: skip
    check_record(path, record)
    return record
