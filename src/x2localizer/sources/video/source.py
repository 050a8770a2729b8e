"""What all video sources have in common: metadata, iteration, and the choice of frames."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from types import TracebackType
from typing import Self

from x2localizer.errors import ConfigError
from x2localizer.types import Frame, Image

ROUNDING_S = 0.001
"""Times this close count as equal, as Matroska and FLV store whole milliseconds."""


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """What is known about a source before its frames are read.

    ``width`` and ``height`` are those of the first picture, upright, before resizing. ``rate`` is the average number of
    frames per second, for information only; times are never computed from it. ``start_time`` is in UTC: the creation
    time of a file (whole seconds in MP4; some cameras write the end, or local time), or the time at which the first
    frame of a live source arrived. ``focal_35mm`` is the focal length in millimetres that a camera for 35 mm film would
    need to see as much, if the file says it.
    """

    width: int
    height: int
    duration_s: float | None
    rate: Fraction | None
    live: bool
    start_time: datetime | None
    focal_35mm: float | None = None


class FrameGrid:
    """Chooses the frames to return: the first at or after each of ``start_s + k * spacing_s``.

    Without a spacing, every frame from ``start_s`` on is returned. Frames at or after ``end_s`` are not. All times are
    seconds from the first frame of the source, and are compared with a tolerance of ``ROUNDING_S``.
    """

    def __init__(self, spacing_s: float | None = None, start_s: float = 0.0, end_s: float | None = None) -> None:
        if spacing_s is not None and not 0 < spacing_s < math.inf:
            raise ConfigError(f"The spacing of frames is {spacing_s} s.", "Use a number of seconds above 0.")
        if not 0 <= start_s < math.inf:
            raise ConfigError(f"The start is {start_s} s.", "Use 0 or a positive number of seconds.")
        if end_s is not None and not end_s > start_s:
            raise ConfigError(
                f"The end, {end_s} s, is not after the start, {start_s} s.",
                "Use an end that is later than the start.",
            )
        self._spacing_s = spacing_s
        self._start_s = start_s
        self._end_s = end_s
        self._step = 0

    @property
    def due_s(self) -> float:
        """The time before which no frame is returned."""
        return self._start_s + self._step * (self._spacing_s or 0.0) - ROUNDING_S

    def is_over(self, time_s: float) -> bool:
        """Whether a frame lies at or after the end."""
        return self._end_s is not None and time_s >= self._end_s - ROUNDING_S

    def hand_out(self, time_s: float) -> None:
        """Advance after the frame at this time was returned; grid points that it skipped are not made up for."""
        if self._spacing_s is not None:
            passed = math.floor((time_s + ROUNDING_S - self._start_s) / self._spacing_s)
            self._step = max(self._step, passed) + 1


class VideoSource(ABC):
    """Frames of a file, a camera, a stream or a folder, in order of time; use it in a ``with`` block."""

    info: VideoInfo

    def __init__(self) -> None:
        self._handed_out = 0
        self._pictures: Iterator[tuple[float, Image]] | None = None
        self._closed = False

    @property
    @abstractmethod
    def skipped(self) -> int:
        """Number of damaged frames skipped so far."""

    @property
    def dropped(self) -> int:
        """Number of undamaged frames of a live source dropped because the reader was slower than the camera."""
        return 0

    @abstractmethod
    def _read(self) -> Iterator[tuple[float, Image]]:
        """Times in seconds from the first frame, strictly increasing, and upright RGB pictures."""

    @abstractmethod
    def _release(self) -> None:
        """Release files, devices and threads; called once."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Frame:
        if self._closed:
            raise StopIteration
        if self._pictures is None:
            self._pictures = self._read()
        time_s, image = next(self._pictures)
        frame = Frame(self._handed_out, time_s, image)
        self._handed_out += 1
        return frame

    def close(self) -> None:
        """Close the file, the device or the stream; closing twice does nothing."""
        if not self._closed:
            self._closed = True
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
