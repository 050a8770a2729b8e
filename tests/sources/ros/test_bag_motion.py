"""Motion from ROS 2 bags: odometry, twist and inertial sensors, on the clock of the pictures."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from helpers.ros_bags import BagWriter
from x2localizer.errors import MotionError
from x2localizer.sources.motion import read_motion

pytest.importorskip("rosbags", reason="needs the extra [programs]")
LEFT = math.radians(9.0)
"""A turn to the left, radians per second."""


def test_odometry_gives_speed_and_turns(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "b") as writer:
        for i in range(101):
            writer.odometry("/odom", i / 10, 5.0, LEFT, variance=0.04)
            writer.twist("/cmd_vel", i / 10, 99.0, 0.0)
            writer.odometry("/x2localizer/odometry", i / 10, 77.0, 0.0)
    record = read_motion(tmp_path / "b")
    moved = record.between(0.0, 10.0)
    assert moved is not None
    assert (moved.distance_m, moved.turn_deg) == pytest.approx((50.0, -90.0))
    assert moved.distance_sd_m == pytest.approx(0.2 * math.sqrt(10))
    assert record.start_time == datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_poses_count_where_the_twist_is_empty(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "b") as writer:
        for i in range(51):
            angle = LEFT * i / 10  # a circle of radius 10 to the left
            writer.odometry("/odom", i / 10, 0.0, 0.0, (10 * math.sin(angle), 10 - 10 * math.cos(angle), angle))
    moved = read_motion(tmp_path / "b").between(0.0, 5.0)
    assert moved is not None
    assert (moved.distance_m, moved.turn_deg) == pytest.approx((10 * LEFT * 5, -45.0), rel=1e-3)


@pytest.mark.parametrize("up", [(0.0, 0.0, 1.0), (0.0, -1.0, 0.0), (0.6, 0.0, -0.8)])
def test_an_inertial_sensor_may_be_mounted_any_way_round(up: tuple[float, float, float], tmp_path: Path) -> None:
    axis = np.array(up)
    with BagWriter(tmp_path / "b") as writer:
        for i in range(1001):
            writer.imu("/imu", i / 100, LEFT * axis, 9.81 * axis)
    record = read_motion(tmp_path / "b")
    assert not record.has_distance
    assert len(record.times_s) < 210, "means over a twentieth of a second"
    moved = record.between(1.0, 9.0)
    assert moved is not None
    assert moved.turn_deg == pytest.approx(-72.0, rel=1e-3)
    assert moved.distance_sd_m == math.inf


def test_twist_and_inertial_sensor_are_joined_on_the_clock_of_the_pictures(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "b") as writer:
        for i in range(201):
            writer.twist("/speed", i / 10, 4.0, 0.0)
        for i in range(2001):
            writer.imu("/imu", i / 100, np.array([0.0, 0.0, LEFT]), np.array([0.0, 0.0, 9.81]))
        writer.raw("/image", 5.0, np.zeros((4, 12), np.uint8), "rgb8")
    record = read_motion(tmp_path / "b")
    assert record.times_s[0] == pytest.approx(-5.0, abs=0.05)
    assert record.start_time == datetime(2026, 5, 1, 12, 0, 5, tzinfo=UTC)
    moved = record.between(0.0, 10.0)
    assert moved is not None
    assert moved.distance_m == pytest.approx(40.0, rel=1e-3)
    assert -90.0 < moved.turn_deg < -60.0, "the sensor counts more than the wheels"
    alone = read_motion(f"{tmp_path / 'b'}#/speed").between(0.0, 10.0)
    assert alone is not None
    assert alone.turn_deg == 0.0
    shifted = read_motion(tmp_path / "b", offset_s=2.0)
    assert shifted.times_s[0] == pytest.approx(-7.0, abs=0.05)


def test_bags_without_motion_are_clear_errors(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "blank") as writer:
        writer.raw("/image", 5.0, np.zeros((4, 12), np.uint8), "rgb8")
        writer.twist("/cmd_vel", 0.0, 1.0, 0.0)
    with pytest.raises(MotionError, match=r"/image \(sensor_msgs/msg/Image\).* commands"):
        read_motion(tmp_path / "blank")
    with BagWriter(tmp_path / "fast") as writer:
        for i in range(5):
            writer.odometry("/odom", i / 10, 900.0, 0.0)
    with pytest.raises(MotionError, match="no car has"):
        read_motion(tmp_path / "fast")
    with BagWriter(tmp_path / "broken") as writer:
        for i in range(20):
            writer.odometry("/odom", (i if i != 7 else 3) / 10, math.nan if i == 11 else 5.0, 0.0)
    moved = read_motion(tmp_path / "broken").between(0.0, 1.9)
    assert moved is not None
    assert moved.distance_m == pytest.approx(9.5)
    (tmp_path / "text.mcap").write_text("no bag")
    with pytest.raises(MotionError, match="Cannot read the bag"):
        read_motion(tmp_path / "text.mcap")
