"""A video file or a ROS bag that is decoded in a second process.

The next frame is asked for before the last one is handed out, so that decoding and whatever is done with the frames go
on at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction

import numpy as np

from x2localizer.errors import VideoError
from x2localizer.sources.guard import Answer, GuardProcess
from x2localizer.sources.video.source import VideoInfo, VideoSource
from x2localizer.types import Image

OPEN_S = 60.0
FRAME_S = 300.0
"""Seconds until the next frame has to be there; between two frames a long stretch of a video may be damaged."""


class GuardedVideo(VideoSource):
    """What :func:`~x2localizer.sources.video.open.open_video` opens, in another process; the same frames."""

    def __init__(
        self, address: str, size: tuple[int, int] | None, spacing_s: float | None, start_s: float, end_s: float | None
    ) -> None:
        super().__init__()
        self._skipped = 0
        self._guard = GuardProcess("video", address, VideoError)
        try:
            opened = self._guard.ask(
                OPEN_S, ask="open", path=address, size=size, spacing_s=spacing_s, start_s=start_s, end_s=end_s
            ).values
        except BaseException:
            self._guard.close()
            raise
        width, height, duration_s, rate, start, focal_35mm = opened["info"]
        self.info = VideoInfo(
            width, height, duration_s, None if rate is None else Fraction(*rate), live=False,
            start_time=None if start is None else datetime.fromisoformat(start), focal_35mm=focal_35mm,
        )  # fmt: skip

    @property
    def skipped(self) -> int:
        """Number of damaged frames so far."""
        return self._skipped

    def _read(self) -> Iterator[tuple[float, Image]]:
        self._guard.send(ask="frame")
        while True:
            answer = self._guard.answer(FRAME_S)
            self._skipped = int(answer.values["skipped"])
            if answer.values["time_s"] is None:
                return
            self._guard.send(ask="frame")
            yield float(answer.values["time_s"]), _picture(answer)

    def _release(self) -> None:
        self._guard.close()


def _picture(answer: Answer) -> Image:
    try:
        height, width, channels = answer.values["shape"]
        return np.frombuffer(answer.data, np.uint8).reshape(height, width, channels)
    except ValueError as problem:
        raise VideoError("The process that decodes the video gave no picture.", "Run it again.") from problem
