"""Reading recorded motion of any format, and writing it as CSV."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from x2localizer.errors import MotionError
from x2localizer.files import write_text
from x2localizer.sources.guard import AVAILABLE
from x2localizer.sources.motion.gopro import read_gopro
from x2localizer.sources.motion.guarded import guarded_record
from x2localizer.sources.motion.oxts import read_oxts_motion
from x2localizer.sources.motion.poses import KITTI_COLUMNS, TUM_COLUMNS, pose_columns, read_kitti, read_tum
from x2localizer.sources.motion.record import MotionRecord
from x2localizer.sources.motion.ros_bag import read_ros_bag
from x2localizer.sources.motion.table import read_table
from x2localizer.sources.oxts import is_oxts
from x2localizer.sources.ros import bag_at
from x2localizer.sources.tracks import TELEMETRY_SUFFIXES

_GPMF = frozenset({".raw", ".gpmf", ".gpmd"})
MOTION_SUFFIXES = frozenset({".csv", ".tsv", ".txt", ".parquet"}) | _GPMF | TELEMETRY_SUFFIXES
"""Suffixes of files that may contain motion."""
_LONGEST_OFFSET_S = 1e9  # 30 years
MAX_BYTES = 500_000_000
"""Of a table, poses or a bare stream of a GoPro; videos may be larger."""


def read_motion(
    path: str | Path, offset_s: float = 0.0, *, rate_hz: float | None = None, own_process: bool = False
) -> MotionRecord:
    """Read the motion of a drive.

    A table (CSV, TSV, Parquet) with the columns ``time_s``, ``speed_m_s`` and ``yaw_rate_deg_s``; camera poses in
    KITTI's or TUM's format; the folder ``oxts`` of a raw recording of KITTI; the sensors in a GoPro's video; or a ROS 2
    bag (``drive.mcap#/odom`` names a topic).

    offset_s: the time from the start of the record to the start of the video, as for a track.
    rate_hz: rows per second of KITTI's files, which have no times; by default from ``times.txt`` beside poses and
        ``timestamps.txt`` beside ``oxts``, else 10.
    own_process: read it in a second process, so that a crash or a hang there is an error here.
    """
    if not abs(offset_s) <= _LONGEST_OFFSET_S:  # also refuses NaN
        raise MotionError(f"A time offset of {offset_s} s is not possible.", "Give it in seconds, such as 2.5 or -30.")
    if rate_hz is not None and not (math.isfinite(rate_hz) and rate_hz > 0):
        raise MotionError(f"Poses cannot have a rate of {rate_hz} per second.", "Give it per second, such as 10.")
    bag = bag_at(path)
    path = Path(path)
    try:
        if own_process and AVAILABLE:
            record = guarded_record(str(path), path if bag is None else bag[0], rate_hz)
        else:
            record = _read(path, rate_hz) if bag is None else read_ros_bag(*bag)
    except OSError as problem:
        raise MotionError(
            f"Cannot read {path}: {problem.strerror or problem}.", "Check the path and the permissions."
        ) from problem
    return record.shifted(offset_s) if offset_s else record


def _read(path: Path, rate_hz: float | None) -> MotionRecord:
    if is_oxts(path):
        return read_oxts_motion(path, rate_hz)
    with path.open("rb") as file:
        head = file.read(1 << 16)
    suffix = path.suffix.lower()
    if not head:
        raise MotionError(f"{path} is empty.", "Record or export the motion again.")
    if head[4:8] != b"ftyp" and suffix not in TELEMETRY_SUFFIXES and path.stat().st_size > MAX_BYTES:
        raise MotionError(
            f"{path} is larger than {MAX_BYTES / 1e6:.0f} MB, too large for a drive.",
            "Cut it to the drive, or keep only every n-th row.",
        )
    if head.startswith(b"DEVC") or head[4:8] == b"ftyp" or suffix in TELEMETRY_SUFFIXES | _GPMF:
        return read_gopro(path)
    if not head.startswith(b"PAR1") and b"\0" in head:
        raise MotionError(
            f"{path} is not motion in a known format.",
            "Give a CSV or Parquet table, poses as text, or a GoPro's video.",
        )
    columns = 0 if head.startswith(b"PAR1") else pose_columns(head.decode("utf-8-sig", "replace"))
    if columns == KITTI_COLUMNS:
        return read_kitti(path, rate_hz)
    return read_tum(path) if columns == TUM_COLUMNS else read_table(path)


def write_motion(path: str | Path, record: MotionRecord) -> None:
    """Write motion as CSV: distance and heading so far with their variances, and for people speed and yaw rate.

    Reading it gives the same record, but for ``scale_sd``, ``bias_sd_deg_s`` and ``start_time``.
    """
    columns = {"time_s": record.times_s}
    if record.has_distance:
        speeds = np.gradient(record.distances_m, record.times_s)
        columns |= {"speed_m_s": speeds, "distance_m": record.distances_m, "distance_var_m2": record.distance_vars}
    if record.has_turn:
        rates = np.gradient(record.headings_deg, record.times_s)
        columns |= {
            "yaw_rate_deg_s": rates,
            "heading_deg": record.headings_deg,
            "heading_var_deg2": record.heading_vars,
        }
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(f"{float(value):.9g}" for value in row) for row in rows)]
    write_text(Path(path), "\n".join(lines) + "\n")
