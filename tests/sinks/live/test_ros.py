"""NavSatFix and Odometry in a bag, read back by rosbags, and as a node of a fake ROS."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers.live_fixes import START, Drive, fix_at, place_at, wait_for
from x2localizer.errors import UserError, VideoError
from x2localizer.sinks.live import open_sinks
from x2localizer.sources.ros import node as node_module
from x2localizer.sources.video import open_video

NOON = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def _messages(folder: Path) -> dict[str, list[tuple[float, Any]]]:
    """Messages by topic, with seconds since noon."""
    from rosbags.highlevel import AnyReader

    found: dict[str, list[tuple[float, Any]]] = {}
    with AnyReader([folder]) as reader:
        for connection, stamp_ns, data in reader.messages():
            message = reader.deserialize(data, connection.msgtype)
            found.setdefault(connection.topic, []).append((stamp_ns / 1e9 - NOON.timestamp(), message))
    return found


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_bag_holds_positions_and_poses_with_covariance(storage: str, tmp_path: Path) -> None:
    pytest.importorskip("rosbags", reason="needs the extra [programs]")
    with open_sinks([f"rosbag:{tmp_path}/out?rate=5&storage={storage}&frame=world&child=camera"]) as opened:
        opened.start(NOON)
        Drive(4, lost=range(2, 3)).feed(opened)
    assert opened.notes() == []
    found = _messages(tmp_path / "out")
    fixes, poses = found["/x2localizer/fix"], found["/x2localizer/odometry"]
    np.testing.assert_allclose([time_s for time_s, _ in fixes], np.arange(21) / 5, atol=1e-5)
    assert [fix.status.status for _, fix in fixes] == [0] * 10 + [-1] * 5 + [0] * 6
    for time_s, fix in fixes:
        if fix.status.status < 0:
            assert math.isnan(fix.latitude) and math.isnan(fix.longitude)
            assert fix.position_covariance_type == 0
            continue
        place = place_at(time_s)
        assert (fix.latitude, fix.longitude) == pytest.approx((place.lat_deg, place.lon_deg), abs=1e-7)
        assert fix.position_covariance_type == 3
    np.testing.assert_allclose(fixes[0][1].position_covariance[:5], [16, 0, 0, 0, 4], atol=1e-3)
    grown = [fix.position_covariance[0] for _, fix in fixes[:5]]
    assert grown == sorted(grown)
    assert len(poses) == 16, "no pose without a position"
    time_s, pose = poses[8]
    assert pose.header.frame_id == "world"
    assert (pose.pose.pose.position.x, pose.pose.pose.position.y) == pytest.approx((10 * time_s, 0.0), abs=0.01)
    assert (pose.pose.pose.orientation.z, pose.pose.pose.orientation.w) == pytest.approx((0.0, 1.0)), "to the east"
    assert pose.twist.twist.linear.x == pytest.approx(10.0)
    assert 0 < pose.twist.covariance[0] < 10
    assert pose.pose.covariance[35] > 0


def test_folders_that_cannot_be_written_are_clear_errors(tmp_path: Path) -> None:
    pytest.importorskip("rosbags", reason="needs the extra [programs]")
    (tmp_path / "file").touch()
    for text in (f"rosbag:{tmp_path}", f"rosbag:{tmp_path}/file/out", "rosbag:", f"rosbag:{tmp_path}/x?storage=zip"):
        with pytest.raises(UserError):
            open_sinks([text])


class _Message(SimpleNamespace):
    """A message whose parts come into being when they are named."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        part = _Message()
        setattr(self, name, part)
        return part


class _Ros(ModuleType):
    """As much of rclpy as the node uses."""

    def __init__(self) -> None:
        super().__init__("rclpy")
        self.running, self.ended = False, 0
        self.published: dict[str, list[Any]] = {}
        self.subscribed: dict[str, Any] = {}

    def ok(self) -> bool:
        return self.running

    def init(self) -> None:
        self.running = True

    def shutdown(self) -> None:
        self.running = False

    def create_node(self, name: str) -> Any:
        return self

    def destroy_node(self) -> None:
        self.ended += 1

    def spin_once(self, node: Any, timeout_sec: float) -> None:
        time.sleep(0.01)

    def create_publisher(self, kind: Any, topic: str, depth: int) -> Any:
        return SimpleNamespace(publish=self.published.setdefault(topic, []).append)

    def create_subscription(self, kind: Any, topic: str, take: Any, qos: Any) -> Any:
        self.subscribed[topic] = take


@pytest.fixture
def ros(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Ros]:
    """A fake ROS."""
    fake = _Ros()
    kinds = {name: type(name, (_Message,), {}) for name in ("NavSatFix", "Odometry", "Image", "CompressedImage")}
    parts = {"rclpy": fake, "rclpy.qos": SimpleNamespace(qos_profile_sensor_data=10)}
    parts |= {name: SimpleNamespace(**kinds) for name in ("sensor_msgs.msg", "nav_msgs.msg")}
    for name, module in parts.items():
        monkeypatch.setitem(sys.modules, name, module)
    yield fake
    assert node_module._shared is None, "all gave the node back"


def _image(time_s: float, *, shade: int = 50) -> Any:
    stamp = SimpleNamespace(sec=int(NOON.timestamp() + time_s), nanosec=round(time_s % 1 * 1e9))
    return SimpleNamespace(
        header=SimpleNamespace(stamp=stamp), height=4, width=6, step=18, encoding="rgb8", is_bigendian=0,
        data=bytes([shade]) * 72,
    )  # fmt: skip


def test_without_ros_the_error_says_what_to_do() -> None:
    for open_it in (lambda: open_sinks(["ros2:"]), lambda: open_video("ros2:/camera/image_raw")):
        with pytest.raises(UserError, match="ROS 2 is not set up"):
            open_it()


def test_a_node_publishes_positions(ros: _Ros) -> None:
    with open_sinks(["ros2:?rate=2"]) as opened:
        opened.start(NOON)
        Drive(2, lost=range(1, 2)).feed(opened)
    fixes, poses = ros.published["/x2localizer/fix"], ros.published["/x2localizer/odometry"]
    assert [fix.status.status for fix in fixes] == [0, 0, -1, -1, 0]
    assert (fixes[0].latitude, fixes[0].longitude) == (START.lat_deg, START.lon_deg)
    assert fixes[0].position_covariance[4] == pytest.approx(4.0, rel=1e-3)
    assert (fixes[1].header.stamp.sec, fixes[1].header.stamp.nanosec) == (NOON.timestamp(), 500_000_000)
    assert [round(pose.pose.pose.position.x) for pose in poses] == [0, 5, 20]
    assert len(poses[0].twist.covariance) == 36
    assert ros.ended == 1 and not ros.running


def test_a_topic_is_a_live_video_that_shares_the_node(ros: _Ros) -> None:
    topic = "/camera/image_raw"

    def send_first() -> None:
        wait_for(lambda: topic in ros.subscribed)
        ros.subscribed[topic](_image(0.0))

    threading.Thread(target=send_first, daemon=True).start()
    with open_sinks(["ros2:"]) as opened, open_video(f"ros2:{topic}", timeout_s=5.0) as video:
        assert (video.info.width, video.info.height, video.info.live) == (6, 4, True)
        assert video.info.start_time == NOON
        assert next(video).time_s == 0.0
        for time_s in (0.1, 0.2, 0.2, 0.3):
            ros.subscribed[topic](_image(time_s))
        assert [next(video).time_s for _ in range(2)] == pytest.approx([0.2, 0.3])
        assert (video.dropped, video.skipped) == (1, 1)
        opened.fix(fix_at(0.0))
    assert ros.ended == 1
    with pytest.raises(VideoError, match="No picture from the topic"):
        open_video("ros2:/silent", timeout_s=0.1)
    with pytest.raises(VideoError, match="names no topic"):
        open_video("ros2:")
