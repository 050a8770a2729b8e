"""The path of a motion record on a plane, its rates as a table, and its drift beside a recorded track."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from x2localizer.errors import TrackError
from x2localizer.files import write_text
from x2localizer.geo import LocalMetres
from x2localizer.sources.motion import MotionRecord
from x2localizer.sources.tracks import Track
from x2localizer.types import Floats, Position

COLUMNS = ("time_s", "speed_m_s", "yaw_rate_deg_s", "speed_sd_m_s", "yaw_rate_sd_deg_s")
ALIGN_M = 30.0
"""Length of the first stretch of road by which the directions of a path and a track are made equal."""
DIRECTION_M = 10.0
"""Length of the last stretch of road whose direction tells the error of the heading."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """A path beside the truth, from the first time that both cover.

    times_s: the times that both cover, (n,).
    path_m, truth_m: metres east and north of the start, (n, 2); the path starts in the direction of the truth.
    distance_m: driven, by the truth.
    drift_per_100m: error of the last position for every 100 m driven, in metres.
    heading_drift_deg_min: error of the last direction for every minute, in degrees; None if too little was driven.
    """

    times_s: Floats
    path_m: Floats
    truth_m: Floats
    distance_m: float
    drift_per_100m: float
    heading_drift_deg_min: float | None


def path_of(record: MotionRecord) -> Floats:
    """Metres east and north at the record's times, (n, 2), from a start at the origin toward north."""
    turns, steps = np.diff(record.headings_deg), np.diff(record.distances_m)
    chords = np.radians(record.headings_deg[:-1] + 0.5 * turns - record.headings_deg[0])
    moves = np.stack([steps * np.sin(chords), steps * np.cos(chords)], axis=1)
    return np.concatenate([np.zeros((1, 2)), np.cumsum(moves, axis=0)])


def compare(record: MotionRecord, truth: Track) -> Comparison:
    """The path beside a recorded track, with the same start and the same direction over the first 30 m."""
    lats, lons = truth.positions(record.times_s)
    both = np.flatnonzero(np.isfinite(lats))
    if len(both) < 2:
        raise TrackError("The truth covers no moment of the video.", "Shift it with --offset.")
    local = LocalMetres(Position(float(lats[both[0]]), float(lons[both[0]])))
    east, north = local.to_metres(lats[both], lons[both])
    there, own = np.stack([east, north], axis=1), path_of(record)[both]
    own = own - own[0]
    driven_m = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(there, axis=0), axis=1))])
    first = driven_m <= max(ALIGN_M, driven_m[1])
    own = own @ _rotation(_angle(there[first], own[first])).T
    distance_m = float(driven_m[-1])
    drift_m = float(np.linalg.norm(own[-1] - there[-1]))
    last = driven_m >= distance_m - DIRECTION_M
    minutes = (record.times_s[both[-1]] - record.times_s[both[0]]) / 60.0
    turned = None
    if distance_m > ALIGN_M + DIRECTION_M:
        turned = abs(math.degrees(_angle(there[last] - there[last][0], own[last] - own[last][0]))) / minutes
    return Comparison(record.times_s[both], own, there, distance_m, 100.0 * drift_m / max(distance_m, 1.0), turned)


def write_rates(path: Path, record: MotionRecord) -> None:
    """Write speeds and yaw rates as CSV, with deviations whose squares add up over seconds."""
    gaps = np.diff(record.times_s)

    def at_samples(changes: Floats) -> Floats:
        rates = changes / gaps
        inner = (rates[:-1] * gaps[:-1] + rates[1:] * gaps[1:]) / (gaps[:-1] + gaps[1:])
        return np.concatenate([rates[:1], inner, rates[-1:]])

    columns = [
        record.times_s, at_samples(np.diff(record.distances_m)), at_samples(np.diff(record.headings_deg)),
        np.sqrt(at_samples(np.diff(record.distance_vars))), np.sqrt(at_samples(np.diff(record.heading_vars))),
    ]  # fmt: skip
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([f"{value:.4f}" for value in row] for row in zip(*columns, strict=True))
    write_text(path, out.getvalue())


def _angle(target: Floats, points: Floats) -> float:
    """Radians (counter-clockwise) by which to rotate points (n, 2) about the origin onto a target."""
    cross = float(np.sum(points[:, 0] * target[:, 1] - points[:, 1] * target[:, 0]))
    return math.atan2(cross, float(np.sum(points * target)))


def _rotation(angle: float) -> Floats:
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
