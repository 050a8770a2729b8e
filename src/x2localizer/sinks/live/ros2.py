"""Topics of ROS 2: NavSatFix and Odometry with covariance, where there is an rclpy."""

from __future__ import annotations

import math
from typing import Any

from x2localizer.sinks.live.address import SinkAddress
from x2localizer.sinks.live.base import LiveSink, live_sinks
from x2localizer.sinks.live.reckon import Epoch, Reckoner
from x2localizer.sinks.live.ros_values import FIX_TOPIC, ODOMETRY_TOPIC, navsat_values, odometry_values
from x2localizer.sources.ros.node import RosNode, give_back, ros_module, take_node
from x2localizer.types import Fix, Movement, Position


@live_sinks.register
class Ros2(LiveSink):
    """``ros2:`` publishes ``/x2localizer/fix`` and ``/x2localizer/odometry``; options as for ``rosbag:``.

    With ``x2l localize ros2:/camera/image_raw --sink ros2:`` the localizer is a node.
    """

    name = "ros2"
    schemes = ("ros2",)
    known = ("rate", "frame", "child")

    def __init__(self, address: SinkAddress) -> None:
        super().__init__(address)
        self.frame, self.child = address.word("frame", "map"), address.word("child", "base_link")
        self._reckoner = Reckoner(address.number("rate", 5.0, 1, 10))
        self._origin: Position | None = None
        self._node: RosNode | None = None

    def open(self) -> None:
        """Create the publishers."""
        self._navsat, self._odometry = ros_module("sensor_msgs.msg").NavSatFix, ros_module("nav_msgs.msg").Odometry
        self._node = take_node()
        self._fixes: Any = self._node.node.create_publisher(self._navsat, FIX_TOPIC, 10)
        self._poses: Any = self._node.node.create_publisher(self._odometry, ODOMETRY_TOPIC, 10)

    def fix(self, fix: Fix) -> None:
        """Publish the epoch of a fix."""
        for epoch in self._reckoner.fix(fix):
            self._publish(epoch)

    def motion(self, movement: Movement) -> None:
        """Publish the epochs that a movement has passed."""
        for epoch in self._reckoner.motion(movement):
            self._publish(epoch)

    def close(self) -> None:
        """Give the node back."""
        node, self._node = self._node, None
        if node is not None:
            give_back(node)

    def _publish(self, epoch: Epoch) -> None:
        if self._node is None or epoch.time_s is None:
            return
        message, values = self._navsat(), navsat_values(epoch)
        self._stamp(message.header, epoch.time_s, self.child)
        message.status.status, message.status.service = values.status, 0
        message.latitude, message.longitude, message.altitude = values.lat_deg, values.lon_deg, math.nan
        message.position_covariance = values.covariance.tolist()
        message.position_covariance_type = values.covariance_type
        self._fixes.publish(message)
        self._origin = self._origin or epoch.position
        if self._origin is not None:
            self._publish_pose(epoch, self._origin, epoch.time_s)

    def _publish_pose(self, epoch: Epoch, origin: Position, time_s: float) -> None:
        message, values = self._odometry(), odometry_values(epoch, origin)
        if values is None:
            return
        self._stamp(message.header, time_s, self.frame)
        message.child_frame_id = self.child
        pose, twist = message.pose.pose, message.twist.twist
        pose.position.x, pose.position.y = values.east_m, values.north_m
        pose.orientation.z, pose.orientation.w = math.sin(0.5 * values.yaw_rad), math.cos(0.5 * values.yaw_rad)
        twist.linear.x, twist.angular.z = values.speed_m_s, values.yaw_rate_rad_s
        message.pose.covariance = values.pose_covariance.tolist()
        message.twist.covariance = values.twist_covariance.tolist()
        self._poses.publish(message)

    def _stamp(self, header: Any, time_s: float, frame: str) -> None:
        stamp_ns = int(self.utc(time_s).timestamp() * 1e9)
        header.stamp.sec, header.stamp.nanosec = divmod(stamp_ns, 10**9)
        header.frame_id = frame
