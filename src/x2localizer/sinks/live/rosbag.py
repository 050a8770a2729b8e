"""A ROS 2 bag: NavSatFix and Odometry with covariance, written as they come."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from x2localizer.errors import SinkError, optional
from x2localizer.sinks.live.address import SinkAddress
from x2localizer.sinks.live.base import LiveSink, cannot_open, live_sinks
from x2localizer.sinks.live.reckon import Epoch, Reckoner
from x2localizer.sinks.live.ros_values import FIX_TOPIC, ODOMETRY_TOPIC, navsat_values, odometry_values
from x2localizer.types import Fix, Movement, Position

STORAGES = ("mcap", "sqlite3")
NAVSAT, ODOMETRY = "sensor_msgs/msg/NavSatFix", "nav_msgs/msg/Odometry"


@live_sinks.register
class RosBag(LiveSink):
    """``rosbag:out_folder`` writes ``/x2localizer/fix`` and ``/x2localizer/odometry`` into a new folder.

    rate: messages per second, 1 to 10; 5 by default.
    storage: mcap (the default) or sqlite3.
    frame, child: frames of the odometry; map and base_link by default. The map begins at the first position.

    Without a position, NavSatFix has status -1 and NaN, and there is no Odometry. Only a closed bag is complete.
    """

    name = "rosbag"
    schemes = ("rosbag",)
    known = ("rate", "storage", "frame", "child")

    def __init__(self, address: SinkAddress) -> None:
        super().__init__(address)
        self.folder = Path(f"{address.host or ''}{address.path}")
        self.storage = address.word("storage", STORAGES[0])
        self.frame, self.child = address.word("frame", "map"), address.word("child", "base_link")
        if self.storage not in STORAGES:
            raise SinkError(f"{address.text} cannot store as '{self.storage}'.", f"Use {' or '.join(STORAGES)}.")
        if not address.path:
            raise SinkError("'rosbag:' names no folder.", "Write it like rosbag:out.")
        self._reckoner = Reckoner(address.number("rate", 5.0, 1, 10))
        self._rosbag2: Any = optional("rosbags.rosbag2", "rosbags", "Writing a ROS bag")
        self._writer: Any = None
        self._origin: Position | None = None

    def open(self) -> None:
        """Create the folder."""
        if self.folder.exists():
            raise cannot_open(self.address, "it exists already", "Choose a folder that does not exist yet.")
        typesys: Any = optional("rosbags.typesys", "rosbags", "Writing a ROS bag")
        self._types = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
        plugin = self._rosbag2.StoragePlugin[self.storage.upper()]
        writer = self._rosbag2.Writer(self.folder, version=8, storage_plugin=plugin)
        try:
            writer.open()
        except OSError as problem:
            raise cannot_open(self.address, problem, "Check that the folder is writable.") from problem
        self._writer = writer
        self._topics = {
            kind: writer.add_connection(topic, kind, typestore=self._types)
            for topic, kind in ((FIX_TOPIC, NAVSAT), (ODOMETRY_TOPIC, ODOMETRY))
        }

    def fix(self, fix: Fix) -> None:
        """Write the epoch of a fix."""
        for epoch in self._reckoner.fix(fix):
            self._write(epoch)

    def motion(self, movement: Movement) -> None:
        """Write the epochs that a movement has passed."""
        for epoch in self._reckoner.motion(movement):
            self._write(epoch)

    def close(self) -> None:
        """Complete the bag."""
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except OSError as problem:
                self.dropped += 1
                self.problem = f"the bag is not complete: {problem.strerror or problem}"

    def _write(self, epoch: Epoch) -> None:
        if self._writer is None or epoch.time_s is None:
            return
        stamp_ns = int(self.utc(epoch.time_s).timestamp() * 1e9)
        self._put(NAVSAT, stamp_ns, self._navsat(epoch, stamp_ns))
        self._origin = self._origin or epoch.position
        odometry = None if self._origin is None else self._odometry(epoch, self._origin, stamp_ns)
        if odometry is not None:
            self._put(ODOMETRY, stamp_ns, odometry)

    def _put(self, kind: str, stamp_ns: int, message: Any) -> None:
        self._writer.write(self._topics[kind], stamp_ns, self._types.serialize_cdr(message, kind))

    def _header(self, stamp_ns: int, frame: str) -> Any:
        t = self._types.types
        stamp = t["builtin_interfaces/msg/Time"](stamp_ns // 10**9, stamp_ns % 10**9)
        return t["std_msgs/msg/Header"](stamp, frame)

    def _navsat(self, epoch: Epoch, stamp_ns: int) -> Any:
        t, values = self._types.types, navsat_values(epoch)
        return t[NAVSAT](
            self._header(stamp_ns, self.child), t["sensor_msgs/msg/NavSatStatus"](values.status, 0), values.lat_deg,
            values.lon_deg, math.nan, values.covariance, values.covariance_type,
        )  # fmt: skip

    def _odometry(self, epoch: Epoch, origin: Position, stamp_ns: int) -> Any:
        t, values = self._types.types, odometry_values(epoch, origin)
        if values is None:
            return None
        vector, half = t["geometry_msgs/msg/Vector3"], 0.5 * values.yaw_rad
        pose = t["geometry_msgs/msg/Pose"](
            t["geometry_msgs/msg/Point"](values.east_m, values.north_m, 0.0),
            t["geometry_msgs/msg/Quaternion"](0.0, 0.0, float(np.sin(half)), float(np.cos(half))),
        )
        twist = t["geometry_msgs/msg/Twist"](
            vector(values.speed_m_s, 0.0, 0.0), vector(0.0, 0.0, values.yaw_rate_rad_s)
        )
        return t[ODOMETRY](
            self._header(stamp_ns, self.frame), self.child,
            t["geometry_msgs/msg/PoseWithCovariance"](pose, values.pose_covariance),
            t["geometry_msgs/msg/TwistWithCovariance"](twist, values.twist_covariance),
        )  # fmt: skip
