"""Pictures of a live topic of ROS 2 as a video, without a growing delay."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from x2localizer.errors import VideoError
from x2localizer.sources.ros.bag import utc_of
from x2localizer.sources.ros.node import give_back, ros_module, take_node
from x2localizer.sources.video.containers import timed_out
from x2localizer.sources.video.ros_pictures import picture_of
from x2localizer.sources.video.source import FrameGrid, VideoInfo, VideoSource
from x2localizer.types import Image

_KEPT = 2


class RosTopicSource(VideoSource):
    """A topic of sensor_msgs/Image, or of CompressedImage if its name ends in "compressed".

    A reader that is slower than the camera gets the newest pictures; others are dropped and counted. No picture for
    ``timeout_s`` seconds is a :class:`VideoError`.
    """

    def __init__(
        self, topic: str, grid: FrameGrid, size: tuple[int, int] | None = None, timeout_s: float = 10.0
    ) -> None:
        super().__init__()
        if not topic.strip("/ "):
            raise VideoError("'ros2:' names no topic.", "Write it like ros2:/camera/image_raw.")
        self._topic, self._grid, self._size, self._timeout_s = topic, grid, size, timeout_s
        self._skipped = self._dropped = 0
        self._start_s: float | None = None
        self._last_s = -1.0
        self._waiting: deque[tuple[float, Any]] = deque()
        self._news = threading.Condition()
        messages, qos = ros_module("sensor_msgs.msg"), ros_module("rclpy.qos")
        kind = messages.CompressedImage if topic.endswith("compressed") else messages.Image
        self._node = take_node()
        try:
            self._subscription = self._node.node.create_subscription(
                kind, topic, self._take, qos.qos_profile_sensor_data
            )
            self._first = self._next_picture()
        except BaseException:
            self.close()
            raise
        self.info = VideoInfo(
            width=self._first[1].shape[1], height=self._first[1].shape[0], duration_s=None, rate=None, live=True,
            start_time=utc_of(self._start_s or 0.0),
        )  # fmt: skip

    @property
    def skipped(self) -> int:
        """Number of pictures that could not be read, or whose time was not after the one before."""
        return self._skipped

    @property
    def dropped(self) -> int:
        """Number of pictures dropped so far because the reader was slower than the camera."""
        return self._dropped

    def _take(self, message: Any) -> None:
        """Keep a picture if it is due; runs in the thread of the node."""
        stamp_s = message.header.stamp.sec + message.header.stamp.nanosec / 1e9 or time.time()
        with self._news:
            self._start_s = stamp_s if self._start_s is None else self._start_s
            time_s = stamp_s - self._start_s
            if time_s <= self._last_s:
                self._skipped += 1
            elif time_s >= self._grid.due_s and not self._grid.is_over(time_s):
                self._last_s = time_s
                self._grid.hand_out(time_s)
                if len(self._waiting) == _KEPT:
                    self._waiting.popleft()
                    self._dropped += 1
                self._waiting.append((time_s, message))
            self._news.notify()

    def _next_picture(self) -> tuple[float, Image]:
        """Wait for a picture that can be read."""
        end_s = time.monotonic() + self._timeout_s
        while True:
            with self._news:
                while not self._waiting:
                    left_s = end_s - time.monotonic()
                    if left_s <= 0:
                        raise timed_out(f"the topic {self._topic}", self._timeout_s)
                    self._news.wait(left_s)
                time_s, message = self._waiting.popleft()
            image = picture_of(message, self._size)
            if image is not None:
                return time_s, image
            self._skipped += 1

    def _read(self) -> Iterator[tuple[float, Image]]:
        yield self._first
        while True:
            yield self._next_picture()

    def _release(self) -> None:
        give_back(self._node)
