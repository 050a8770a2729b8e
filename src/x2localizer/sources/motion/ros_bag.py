"""Motion from a ROS 2 bag: speed and turns of its odometry, turns of its inertial sensor.

Axes are those of REP 103: x forward, y left, z up, turns counter-clockwise. Which way is up for an inertial sensor is
what its accelerometer shows over the drive, so it may be mounted any way round.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from x2localizer.errors import MotionError
from x2localizer.sources.motion.checks import check_record
from x2localizer.sources.motion.join import join_motion
from x2localizer.sources.motion.record import MotionRecord
from x2localizer.sources.ros.bag import IMU, ODOMETRY, PICTURES, TWISTS, Bag, Topic, utc_of
from x2localizer.types import Bools, Floats

BIN_S = 0.05
"""Rates of an inertial sensor are means over so long; it makes up to 1,000 a second."""
SPEED_SD_M_S, TURN_SD_DEG_S = 0.3, 0.5
"""Where odometry does not state its own."""
IMU_SD_DEG_S, IMU_BIAS_SD_DEG_S = 0.2, 0.3
_LEAST_SD = 0.05
_PLAUSIBLE_G = (5.0, 15.0)


def read_ros_bag(path: Path, topic: str | None = None) -> MotionRecord:
    """Motion of a bag, on the clock of its pictures if it has any: time 0 is the first of them.

    topic: the only one to use; by default the odometry (or twist) and the inertial sensor with the most messages.
    """
    with Bag(path, MotionError) as bag:
        moving = bag.choose((ODOMETRY,), topic) or bag.choose(TWISTS, topic)
        turning = bag.choose((IMU,), topic)
        odometry = None if moving is None else _odometry(bag, moving)
        inertial = None if turning is None else _inertial(bag, turning)
        records = [record for record in (odometry, inertial) if record is not None]
        if not records:
            raise _no_motion(bag, topic)
        start_s = _first_picture_s(bag)
    start_s = float(min(record.times_s[0] for record in records)) if start_s is None else start_s
    joined = join_motion([record.shifted(start_s) for record in records])
    record = replace(joined, start_time=utc_of(start_s))
    check_record(path, record)
    return record


def _first_picture_s(bag: Bag) -> float | None:
    topic = bag.choose(PICTURES)
    return None if topic is None else next((time_s for time_s, _ in bag.messages(topic)), None)


def _odometry(bag: Bag, topic: Topic) -> MotionRecord | None:
    rows, poses = [], []
    for time_s, message in bag.messages(topic):
        twist = message.twist.twist if hasattr(message.twist, "twist") else message.twist
        covariance = getattr(message.twist, "covariance", None)
        sds = (0.0, 0.0) if covariance is None else (covariance[0], covariance[35])
        rows.append((time_s, twist.linear.x, twist.angular.z, *sds))
        if topic.type == ODOMETRY:
            p, q = message.pose.pose.position, message.pose.pose.orientation
            poses.append((p.x, p.y, np.arctan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y * q.y + q.z * q.z))))
    table = np.array(rows, np.float64).reshape(-1, 5)
    kept = _increasing(table[:, 0]) & np.isfinite(table[:, :3]).all(1)
    times, speeds, yaw = table[kept, 0], table[kept, 1], -np.degrees(table[kept, 2])
    if len(times) < 2:
        return None
    if not speeds.any() and not yaw.any() and poses:  # some programs fill in the pose alone
        return _from_poses(times, np.array(poses, np.float64)[kept])
    speed_sd = _stated(table[kept, 3], SPEED_SD_M_S, _LEAST_SD)
    yaw_sd = np.degrees(_stated(table[kept, 4], np.radians(TURN_SD_DEG_S), np.radians(_LEAST_SD)))
    return MotionRecord.of_rates(times, speeds, yaw, speed_sd_m_s=speed_sd, yaw_sd_deg_s=yaw_sd)


def _from_poses(times: Floats, poses: Floats) -> MotionRecord | None:
    """Motion along poses x, y, yaw, (n, 3); None if they do not move either."""
    if not np.isfinite(poses).all() or not np.ptp(poses, axis=0).any():
        return None
    yaw = np.unwrap(poses[:, 2])
    middle = 0.5 * (yaw[1:] + yaw[:-1])
    steps = np.diff(poses[:, 0]) * np.cos(middle) + np.diff(poses[:, 1]) * np.sin(middle)
    since = times - times[0]
    return MotionRecord(
        times, np.concatenate([[0.0], np.cumsum(steps)]), -np.degrees(yaw - yaw[0]), SPEED_SD_M_S**2 * since,
        TURN_SD_DEG_S**2 * since, scale_sd=0.03, bias_sd_deg_s=0.2,
    )  # fmt: skip


def _stated(variances: Floats, default_sd: float, least_sd: float) -> Floats:
    """Standard deviations of stated variances; many programs leave them at 0, or at -1 for unknown."""
    stated = np.where(np.isfinite(variances) & (variances > 0), variances, default_sd**2)
    return np.clip(np.sqrt(stated), least_sd, 100 * default_sd)


def _inertial(bag: Bag, topic: Topic) -> MotionRecord | None:
    rows = [
        (time_s, w.x, w.y, w.z, a.x, a.y, a.z)
        for time_s, m in bag.messages(topic)
        for w, a in ((m.angular_velocity, m.linear_acceleration),)
        if m.angular_velocity_covariance[0] != -1  # ROS's word for "not measured"
    ]
    table = np.array(rows, np.float64).reshape(-1, 7)
    table = table[_increasing(table[:, 0]) & np.isfinite(table).all(1)]
    if len(table) < 2:
        return None
    gravity = table[:, 4:].mean(0)
    strength = float(np.linalg.norm(gravity))
    # At rest an accelerometer shows the push of the ground, upward; without one the sensor is taken to be upright.
    up = gravity / strength if _PLAUSIBLE_G[0] <= strength <= _PLAUSIBLE_G[1] else np.array([0.0, 0.0, 1.0])
    times, rates = _binned(table[:, 0], -np.degrees(table[:, 1:4] @ up))
    if len(times) < 2:
        return None
    return MotionRecord.of_rates(times, None, rates, yaw_sd_deg_s=IMU_SD_DEG_S, bias_sd_deg_s=IMU_BIAS_SD_DEG_S)


def _binned(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Means of times and values over short times."""
    number = np.floor((times - times[0]) / BIN_S).astype(np.int64)
    first = np.flatnonzero(np.append(True, np.diff(number) > 0))
    count = np.diff(np.append(first, len(times)))
    return np.add.reduceat(times, first) / count, np.add.reduceat(values, first) / count


def _increasing(times: Floats) -> Bools:
    """Which times are after all before them, (n,)."""
    if not len(times):
        return np.zeros(0, np.bool_)
    return np.append(True, times[1:] > np.maximum.accumulate(times)[:-1])


def _no_motion(bag: Bag, topic: str | None) -> MotionError:
    names = ", ".join(f"{t.name} ({t.type})" for t in bag.topics[:10]) or "no topics"
    where = f" on {topic}" if topic is not None else ""
    return MotionError(
        f"{bag.path} has no motion{where}; it has {names}.",
        "Record nav_msgs/Odometry, geometry_msgs/TwistStamped or sensor_msgs/Imu; commands (cmd_vel) do not count.",
    )
