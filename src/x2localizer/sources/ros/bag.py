"""Bags of ROS 2: a folder of rosbag2 with its ``metadata.yaml``, or a bare ``.mcap`` or ``.db3`` file.

Messages are read with the definitions of ROS 2 itself, never with those in the bag: code that a file brings is not run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from x2localizer.errors import UserError, optional
from x2localizer.sources.tracks.points import EARLIEST_S, EPOCH, LATEST_S

IMAGE, COMPRESSED = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"
PICTURES = (IMAGE, COMPRESSED)
CAMERA_INFO = "sensor_msgs/msg/CameraInfo"
IMU, ODOMETRY = "sensor_msgs/msg/Imu", "nav_msgs/msg/Odometry"
TWISTS = ("geometry_msgs/msg/TwistWithCovarianceStamped", "geometry_msgs/msg/TwistStamped")
OWN_TOPICS = "/x2localizer/"
"""Topics that we write ourselves begin so; they are no source."""
BAG_SUFFIXES = frozenset({".mcap", ".db3"})


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a bag with its type and number of messages."""

    name: str
    type: str
    messages: int


def bag_at(address: str | Path) -> tuple[Path, str | None] | None:
    """The bag that an address names, with the topic after "#": ``drive.mcap#/front/image_raw``; None if it is none."""
    text = str(address)
    place, mark, topic = text.partition("#/")
    for path, chosen in ((Path(text), None), (Path(place), f"/{topic}" if mark else None)):
        try:
            if path.suffix.lower() in BAG_SUFFIXES and path.is_file():
                return path, chosen
            if (path / "metadata.yaml").is_file():
                return path, chosen
        except (OSError, ValueError):  # names that no file can have
            continue
    return None


class Bag:
    """An open bag; use it in a ``with`` block.

    error: the class of error to raise where it cannot be read.
    """

    def __init__(self, path: Path, error: type[UserError]) -> None:
        rosbag2 = optional("rosbags.rosbag2", "rosbags", "A ROS bag")
        typesys = optional("rosbags.typesys", "rosbags", "A ROS bag")
        self.path, self._error = path, error
        try:
            self._reader: Any = rosbag2.Reader(path)
            self._reader.open()
            self.topics = tuple(
                sorted(
                    (Topic(c.topic, c.msgtype, int(c.msgcount or 0)) for c in self._reader.connections),
                    key=lambda topic: topic.name,
                )
            )
        except Exception as problem:  # a damaged bag raises nearly anything
            raise self._unreadable(problem) from problem
        self._types: Any = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)

    @property
    def end_s(self) -> float:
        """When the last message was recorded, in seconds since 1970."""
        try:
            return float(int(self._reader.end_time)) / 1e9  # int also refuses what is no number
        except (OverflowError, TypeError, ValueError) as problem:
            raise self._unreadable(problem) from problem

    def choose(self, types: tuple[str, ...], name: str | None = None) -> Topic | None:
        """The topic of a name, or the one with the most messages; None if there is none of these types."""
        fitting = [
            t for t in self.topics if t.type in types and not t.name.startswith(OWN_TOPICS) and "cmd" not in t.name
        ]
        if name is not None:
            fitting = [topic for topic in self.topics if topic.name == name and topic.type in types]
        return max(fitting, key=lambda topic: topic.messages, default=None)

    def messages(self, topic: Topic) -> Iterator[tuple[float, Any]]:
        """Times in seconds since 1970 and messages of a topic, as they were recorded.

        The time is the one that the sender stated, or if it stated none, that of the recording.
        """
        connections = [c for c in self._reader.connections if c.topic == topic.name and c.msgtype == topic.type]
        try:
            for _, recorded_ns, data in self._reader.messages(connections):
                message = self._types.deserialize_cdr(data, topic.type)
                stamp = message.header.stamp
                stated_s = stamp.sec + stamp.nanosec / 1e9
                yield (stated_s if stated_s > 0 else recorded_ns / 1e9), message
        except GeneratorExit:
            raise
        except Exception as problem:  # a damaged bag raises nearly anything
            raise self._unreadable(problem) from problem

    def close(self) -> None:
        """Close the files."""
        if self._reader.is_open:
            self._reader.close()

    def _unreadable(self, problem: Exception) -> UserError:
        why = str(problem).splitlines()[0][:200] if str(problem) else type(problem).__name__
        return self._error(
            f"Cannot read the bag {self.path}: {why}.", "Check that it is complete: ros2 bag info, or mcap doctor."
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def utc_of(time_s: float) -> datetime | None:
    """The date of a time in seconds since 1970; None if the clock was never set, as in a simulation."""
    return EPOCH + timedelta(seconds=time_s) if EARLIEST_S <= time_s < LATEST_S else None
