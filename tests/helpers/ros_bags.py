"""ROS 2 bags for tests, written with rosbags."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pillow

from x2localizer.types import Floats, Image

NOON_NS = 1_777_636_800_000_000_000
"""2026-05-01 12:00:00 UTC."""


class BagWriter:
    """Writes messages by topic; times are seconds since noon. Use it in a ``with`` block."""

    def __init__(self, folder: Path, storage: str = "mcap", *, zero_ns: int = NOON_NS) -> None:
        from rosbags.rosbag2 import StoragePlugin, Writer
        from rosbags.typesys import Stores, get_typestore

        self._store: Any = get_typestore(Stores.ROS2_HUMBLE)
        self._writer: Any = Writer(folder, version=8, storage_plugin=StoragePlugin[storage.upper()])
        self._topics: dict[str, Any] = {}
        self._zero_ns = zero_ns

    def __enter__(self) -> BagWriter:
        self._writer.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def type(self, name: str) -> Any:
        """The class of a message."""
        return self._store.types[name]

    def header(self, time_s: float | None) -> Any:
        """A header; without a time its stamp is 0."""
        ns = 0 if time_s is None else self._zero_ns + round(time_s * 1e9)
        return self.type("std_msgs/msg/Header")(self.type("builtin_interfaces/msg/Time")(ns // 10**9, ns % 10**9), "")

    def write(self, topic: str, kind: str, time_s: float, message: Any) -> None:
        """Write a message of any type."""
        if topic not in self._topics:
            self._topics[topic] = self._writer.add_connection(topic, kind, typestore=self._store)
        ns = self._zero_ns + round(time_s * 1e9)
        self._writer.write(self._topics[topic], ns, self._store.serialize_cdr(message, kind))

    def raw(self, topic: str, time_s: float, data: Image, encoding: str, *, pad: int = 0, stamped: bool = True) -> None:
        """A picture as its bytes, (height, row bytes), with some bytes after each row."""
        height, row_bytes = data.shape[0], data.size // data.shape[0]
        channels = {"rgb8": 3, "bgr8": 3, "bgra8": 4, "mono16": 2, "yuv422": 2}.get(encoding, 1)
        rows = np.pad(data.reshape(height, -1), ((0, 0), (0, pad)))
        message = self.type("sensor_msgs/msg/Image")(
            self.header(time_s if stamped else None), height, row_bytes // channels, encoding, 0, rows.shape[1],
            rows.ravel(),
        )  # fmt: skip
        self.write(topic, "sensor_msgs/msg/Image", time_s, message)

    def jpeg(self, topic: str, time_s: float, image: Image, recorded_s: float | None = None) -> None:
        """A compressed picture, recorded at the time that it states or at another."""
        out = io.BytesIO()
        Pillow.fromarray(image).save(out, "JPEG", quality=95)
        self.bytes(topic, time_s, out.getvalue(), recorded_s)

    def bytes(self, topic: str, time_s: float, data: bytes, recorded_s: float | None = None) -> None:
        """A compressed picture, or what says that it is one."""
        kind = "sensor_msgs/msg/CompressedImage"
        message = self.type(kind)(self.header(time_s), "jpeg", np.frombuffer(data, np.uint8))
        self.write(topic, kind, time_s if recorded_s is None else recorded_s, message)

    def camera_info(self, topic: str, width: int, height: int, focal_px: float) -> None:
        """A calibrated camera."""
        k = np.array([focal_px, 0, width / 2, 0, focal_px, height / 2, 0, 0, 1], np.float64)
        roi = self.type("sensor_msgs/msg/RegionOfInterest")(0, 0, 0, 0, False)
        message = self.type("sensor_msgs/msg/CameraInfo")(
            self.header(0.0), height, width, "plumb_bob", np.zeros(5), k, np.eye(3).ravel(), np.zeros(12), 0, 0, roi
        )
        self.write(topic, "sensor_msgs/msg/CameraInfo", 0.0, message)

    def _vector(self, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Any:
        return self.type("geometry_msgs/msg/Vector3")(float(x), float(y), float(z))

    def imu(self, topic: str, time_s: float, rates: Floats, acceleration: Floats) -> None:
        """Rates in radians per second and accelerations, both (3,)."""
        message = self.type("sensor_msgs/msg/Imu")(
            self.header(time_s), self.type("geometry_msgs/msg/Quaternion")(0.0, 0.0, 0.0, 1.0), np.zeros(9),
            self._vector(*rates), np.zeros(9), self._vector(*acceleration), np.zeros(9),
        )  # fmt: skip
        self.write(topic, "sensor_msgs/msg/Imu", time_s, message)

    def odometry(
        self, topic: str, time_s: float, speed: float, yaw_rate: float,
        pose: tuple[float, float, float] = (0.0, 0.0, 0.0), variance: float = 0.0,
    ) -> None:  # fmt: skip
        """Speed in m/s, yaw rate in radians per second counter-clockwise; a pose as x, y and yaw."""
        covariance = variance * np.eye(6).ravel()
        half = 0.5 * pose[2]
        place = self.type("geometry_msgs/msg/Pose")(
            self.type("geometry_msgs/msg/Point")(pose[0], pose[1], 0.0),
            self.type("geometry_msgs/msg/Quaternion")(0.0, 0.0, float(np.sin(half)), float(np.cos(half))),
        )
        twist = self.type("geometry_msgs/msg/Twist")(self._vector(speed), self._vector(z=yaw_rate))
        message = self.type("nav_msgs/msg/Odometry")(
            self.header(time_s), "base_link", self.type("geometry_msgs/msg/PoseWithCovariance")(place, covariance),
            self.type("geometry_msgs/msg/TwistWithCovariance")(twist, covariance),
        )  # fmt: skip
        self.write(topic, "nav_msgs/msg/Odometry", time_s, message)

    def twist(self, topic: str, time_s: float, speed: float, yaw_rate: float) -> None:
        """The same as a TwistStamped."""
        twist = self.type("geometry_msgs/msg/Twist")(self._vector(speed), self._vector(z=yaw_rate))
        kind = "geometry_msgs/msg/TwistStamped"
        self.write(topic, kind, time_s, self.type(kind)(self.header(time_s), twist))
