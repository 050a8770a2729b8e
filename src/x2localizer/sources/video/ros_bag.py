"""Pictures of a ROS 2 bag as a video."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from x2localizer.errors import VideoError
from x2localizer.sources.ros.bag import CAMERA_INFO, PICTURES, Bag, utc_of
from x2localizer.sources.video.containers import positive
from x2localizer.sources.video.ros_pictures import picture_of
from x2localizer.sources.video.source import FrameGrid, VideoInfo, VideoSource
from x2localizer.types import Image


class RosBagSource(VideoSource):
    """The pictures of one topic: the one that is named, or the one with the most of them.

    Times are those of the messages' headers. The field of view comes from ``camera_info`` beside the pictures.
    """

    def __init__(self, path: Path, topic: str | None, grid: FrameGrid, size: tuple[int, int] | None = None) -> None:
        super().__init__()
        self._grid, self._size, self._skipped = grid, size, 0
        self._bag = Bag(path, VideoError)
        try:
            chosen = self._bag.choose(PICTURES, topic)
            if chosen is None:
                raise _no_pictures(self._bag, topic)
            self._topic = chosen
            self._start_s, first = self._first_picture()
            self.info = self._describe(*first.shape[:2])
        except BaseException:
            self._bag.close()
            raise

    def _first_picture(self) -> tuple[float, Image]:
        for time_s, message in self._bag.messages(self._topic):
            image = picture_of(message)
            if image is not None:
                return time_s, image
        raise VideoError(
            f"No picture of {self._topic.name} in {self._bag.path} can be read.",
            "Use 8-bit colour, grey, Bayer or YUV 4:2:2 pictures, or JPEG and PNG.",
        )

    def _describe(self, height: int, width: int) -> VideoInfo:
        return VideoInfo(
            width=width, height=height, duration_s=max(self._bag.end_s - self._start_s, 0.0), rate=None, live=False,
            start_time=utc_of(self._start_s), focal_35mm=self._focal_35mm(height, width),
        )  # fmt: skip

    def _focal_35mm(self, height: int, width: int) -> float | None:
        """The focal length of a calibrated camera, as for film of 36 mm (24 mm upright)."""
        for place in _info_topics(self._topic.name):
            topic = self._bag.choose((CAMERA_INFO,), place)
            message = None if topic is None else next((m for _, m in self._bag.messages(topic)), None)
            if message is not None:
                return positive((36.0 if width >= height else 24.0) * float(message.k[0]) / (message.width or width))
        return None

    @property
    def skipped(self) -> int:
        """Number of pictures so far that could not be read, or whose time was not after the one before."""
        return self._skipped

    def _read(self) -> Iterator[tuple[float, Image]]:
        last_s = -math.inf
        for stamp_s, message in self._bag.messages(self._topic):
            time_s = stamp_s - self._start_s
            if time_s < 0.0 or time_s <= last_s:
                self._skipped += 1
                continue
            if self._grid.is_over(time_s):
                return
            last_s = time_s
            if time_s < self._grid.due_s:
                continue
            image = picture_of(message, self._size)
            if image is None:
                self._skipped += 1
            else:
                self._grid.hand_out(time_s)
                yield time_s, image

    def _release(self) -> None:
        self._bag.close()


def _info_topics(topic: str) -> tuple[str, str]:
    """Where camera_info may be: beside the pictures, or beside the topic that compressed ones belong to."""
    parts = topic.split("/")
    return "/".join([*parts[:-1], "camera_info"]), "/".join([*parts[:-2], "camera_info"])


def _no_pictures(bag: Bag, topic: str | None) -> VideoError:
    there = [t.name for t in bag.topics if t.type in PICTURES]
    if topic is not None and there:
        return VideoError(f"{bag.path} has no pictures on {topic}.", f"Use one of: {', '.join(there)}.")
    names = ", ".join(f"{t.name} ({t.type})" for t in bag.topics[:10]) or "no topics"
    return VideoError(
        f"{bag.path} has no pictures; it has {names}.", "Record sensor_msgs/Image or sensor_msgs/CompressedImage."
    )
