"""Motion from a GoPro's own sensors: turns from its gyroscope, speed from its GPS receiver if that had a fix.

The accelerometer says which way is up: over a drive, gravity is what is left of it. The turn is the part of the
gyroscope's rate about that direction. Both sensors share their axes, so the order of these does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from x2localizer.errors import MotionError
from x2localizer.sources.motion.checks import check_record
from x2localizer.sources.motion.join import join_motion
from x2localizer.sources.motion.record import MotionRecord
from x2localizer.sources.packets import NOMINAL_PAYLOAD_S, PROBLEMS, Packet, plain_packets
from x2localizer.sources.tracks.gpmf import gps_block, items, sensor_samples
from x2localizer.sources.tracks.telemetry import MAX_DOP
from x2localizer.types import Floats

BINS = 20
"""Mean rates that are kept of each payload of a second; the sensors make 200 to 3,200."""
GYRO_SD_DEG_S, GYRO_BIAS_SD_DEG_S = 0.2, 0.3
GPS_SPEED_SD_M_S, GPS_SCALE_SD = 0.3, 0.01
_PLAUSIBLE_G = (5.0, 15.0)
_DEVICE = "DEVC"


def read_gopro(path: Path) -> MotionRecord:
    """Motion from a GoPro's video, on the clock of the video, or from a bare GPMF stream, a payload per second."""
    with path.open("rb") as file:
        bare = file.read(4) == _DEVICE.encode()
    if bare:
        blocks = [item.value for item in items(path.read_bytes()) if item.key == _DEVICE]
        return _motion(path, ((i * NOMINAL_PAYLOAD_S, NOMINAL_PAYLOAD_S, data) for i, data in enumerate(blocks)))
    try:
        return _motion(path, (packet for packet in plain_packets(path) if packet[2].startswith(_DEVICE.encode())))
    except PROBLEMS as problem:
        raise MotionError(
            f"Cannot read {path} as a video: {problem}.", "Check that the file is complete and plays."
        ) from problem


def _motion(path: Path, payloads: Iterable[Packet]) -> MotionRecord:
    gravity = np.zeros(3)
    rates: list[tuple[Floats, Floats]] = []
    speeds: list[tuple[Floats, Floats]] = []
    start: datetime | None = None
    for time_s, lasts_s, data in payloads:
        acceleration = sensor_samples(data, "ACCL", 3)
        if acceleration is not None:
            gravity += acceleration[np.isfinite(acceleration).all(1)].sum(0) / len(acceleration)
        gyro = sensor_samples(data, "GYRO", 3)
        if gyro is not None and np.isfinite(gyro).all():
            rates.append(_binned(gyro, time_s, lasts_s))
        speed = _gps_speed(data)
        if speed is not None:
            at = (np.arange(len(speed)) + 0.5) / len(speed) * lasts_s + time_s
            speeds.append((at[np.isfinite(speed)], speed[np.isfinite(speed)]))
        block = gps_block(data)
        if start is None and block is not None and block.utc is not None:
            start = block.utc - timedelta(seconds=time_s)
    records = [record for record in (_turns(path, rates, gravity), _distances(speeds)) if record is not None]
    if not records:
        raise MotionError(
            f"{path} contains no gyroscope and no GPS speed of a GoPro.",
            "Give a GoPro's video, or a table with the columns time_s, speed_m_s and yaw_rate_deg_s.",
        )
    joined = join_motion(records)
    record = MotionRecord(
        joined.times_s, joined.distances_m, joined.headings_deg, joined.distance_vars, joined.heading_vars,
        joined.scale_sd, joined.bias_sd_deg_s, start, joined.has_distance, joined.has_turn,
    )  # fmt: skip
    check_record(path, record)
    return record


def _binned(samples: Floats, time_s: float, lasts_s: float) -> tuple[Floats, Floats]:
    """Times in the middle of parts of a payload, (b,), and the mean of each, (b, 3)."""
    count = min(BINS, len(samples))
    edges = np.linspace(0, len(samples), count + 1).astype(np.int64)
    means = np.add.reduceat(samples, edges[:-1], axis=0) / np.diff(edges)[:, None]
    return time_s + 0.5 * (edges[1:] + edges[:-1]) / len(samples) * lasts_s, means


def _turns(path: Path, rates: list[tuple[Floats, Floats]], gravity: Floats) -> MotionRecord | None:
    times, gyro = _joined(rates)
    if len(times) < 2:
        return None
    strength = float(np.linalg.norm(gravity)) / max(len(rates), 1)
    if not _PLAUSIBLE_G[0] <= strength <= _PLAUSIBLE_G[1]:
        raise MotionError(
            f"{path} does not say which way is up: its accelerometer shows {strength:.1f} m/s² on average, not 9.8.",
            "Use a camera that is fixed to the car, with its accelerometer recorded.",
        )
    up = gravity / np.linalg.norm(gravity)  # at rest an accelerometer shows the push of the ground, upward
    clockwise = -np.degrees(gyro @ up)  # about the upward axis, rates are positive counter-clockwise
    return MotionRecord.of_rates(
        times, None, clockwise, yaw_sd_deg_s=GYRO_SD_DEG_S, bias_sd_deg_s=GYRO_BIAS_SD_DEG_S
    )  # fmt: skip


def _distances(speeds: list[tuple[Floats, Floats]]) -> MotionRecord | None:
    times, speed = _joined(speeds)
    if len(times) < 2:
        return None
    return MotionRecord.of_rates(times, speed, None, speed_sd_m_s=GPS_SPEED_SD_M_S, scale_sd=GPS_SCALE_SD)


def _joined(parts: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Parts one after the other, without those that reach back in time."""
    if not parts:
        return np.zeros(0), np.zeros(0)
    times, values = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    kept = np.append(True, times[1:] > np.maximum.accumulate(times)[:-1]) if len(times) else np.zeros(0, np.bool_)
    return times[kept], values[kept]


def _gps_speed(data: bytes) -> Floats | None:
    """Speed over ground, (n,), NaN without a good fix."""
    block = gps_block(data)
    table = sensor_samples(data, "GPS9", 9)
    table = sensor_samples(data, "GPS5", 5) if table is None else table
    if block is None or table is None or len(block.fixed) != len(table):
        return None
    return np.where(block.fixed & (block.dops <= MAX_DOP), table[:, 3], np.nan)
