"""Writing H.264 video with true times, atomically.

with VideoWriter(Path("drive.mp4"), 480, 270, rate=30) as writer:
    writer.write(image, time_s=0.0)
"""

from __future__ import annotations

import contextlib
import math
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import av
import numpy as np
from av.container import OutputContainer
from av.video.frame import VideoFrame
from av.video.reformatter import (
    ColorPrimaries,
    ColorRange,
    Colorspace,
    ColorTrc,
    Interpolation,
    VideoReformatter,
)
from av.video.stream import VideoStream

from x2localizer.errors import VideoError
from x2localizer.files import atomic_path, cannot_write
from x2localizer.sources.video.decoding import EXACT_ROUNDING
from x2localizer.types import Image

TIME_BASE = Fraction(1, 60000)
"""One tick of the clock; 24, 25, 29.97, 30, 50, 59.94 and 60 frames per second are whole numbers of ticks."""

_KEYFRAME_EVERY_S = 1
"""Short enough that a reader of few frames can skip the rest."""


class _AbandonedError(Exception):
    """Thrown into :func:`atomic_path` to discard the file."""


class VideoWriter:
    """Writes RGB pictures of one size to a file that appears when the ``with`` block succeeds.

    ``rate`` is the nominal number of frames per second. ``start_time`` is written as the creation time, in UTC; MP4
    stores whole seconds.
    """

    def __init__(
        self,
        path: Path,
        width: int,
        height: int,
        rate: Fraction | float,
        start_time: datetime | None = None,
    ) -> None:
        if width < 2 or height < 2 or width % 2 or height % 2:
            raise VideoError(
                f"H.264 cannot store pictures of {width} x {height} pixels.", "Use an even width and height."
            )
        if not 0 < rate < math.inf:
            raise VideoError(f"The rate is {rate} frames per second.", "Use a number above 0.")
        if start_time is not None and start_time.tzinfo is None:
            raise VideoError("The start time has no time zone.", "Use UTC.")
        self._path = Path(path)
        self._width, self._height, self._start_time = width, height, start_time
        self._rate = Fraction(rate).limit_denominator(1001)
        self._next_s = Fraction(0)
        self._last: int | None = None
        self._reformatter = VideoReformatter()

    def __enter__(self) -> Self:
        self._file = atomic_path(self._path)
        temporary = self._file.__enter__()
        try:
            self._container, self._stream = self._open(temporary)
        except BaseException:
            self._forget_file()
            raise
        return self

    def _open(self, temporary: Path) -> tuple[OutputContainer, VideoStream]:
        options = {"fflags": "+bitexact"}
        if self._path.suffix.lower() in {".mp4", ".mov", ".m4v"}:
            options["movflags"] = "+faststart"
        try:
            container = av.open(str(temporary), "w", options=options)
        except (ValueError, av.error.FFmpegError) as problem:
            raise VideoError(
                f"Cannot write a video to {self._path}.", "Use a name that ends in .mp4 or .mkv."
            ) from problem
        if self._start_time is not None:
            stamp = self._start_time.astimezone(UTC).isoformat(timespec="microseconds")
            container.metadata["creation_time"] = stamp.replace("+00:00", "Z")
        return container, self._add_stream(container)

    def _add_stream(self, container: OutputContainer) -> VideoStream:
        if "libx264" in av.codecs_available:
            codec, options = "libx264", {"crf": "18", "preset": "veryfast"}
        else:  # builds of FFmpeg without GPL components
            codec, options = "mpeg4", {"qmin": "2", "qmax": "2"}
        stream = cast(VideoStream, container.add_stream(codec, rate=self._rate, options=options))
        stream.width, stream.height, stream.pix_fmt = self._width, self._height, "yuv420p"
        stream.time_base = stream.codec_context.time_base = TIME_BASE
        stream.gop_size = max(1, round(self._rate * _KEYFRAME_EVERY_S))
        stream.max_b_frames = 0  # stored in display order, so that the stated duration is exact
        stream.thread_count = 1  # the bytes depend on the number of threads
        stream.colorspace, stream.color_range = Colorspace.ITU709, ColorRange.MPEG
        stream.color_primaries, stream.color_trc = ColorPrimaries.BT709, ColorTrc.BT709
        return stream

    def write(self, image: Image, time_s: float | None = None) -> None:
        """Add an RGB picture, shape (height, width, 3), at a time in seconds; None is one frame after the last."""
        if image.shape != (self._height, self._width, 3) or image.dtype != np.uint8:
            raise VideoError(
                f"A picture of shape {image.shape} and type {image.dtype} does not fit {self._path}.",
                f"Use uint8 pictures of shape {(self._height, self._width, 3)}.",
            )
        if time_s is not None and not 0 <= time_s < math.inf:
            raise VideoError(f"A picture cannot be shown at {time_s} s.", "Count seconds from 0.")
        exact_s = self._next_s if time_s is None else Fraction(time_s)
        stamp = round(exact_s / TIME_BASE)
        if self._last is not None and stamp <= self._last:
            raise VideoError(
                f"A picture at {float(exact_s):g} s is not later than the previous one.",
                "Write pictures in order of time.",
            )
        self._encode(image, stamp)
        self._last, self._next_s = stamp, exact_s + 1 / self._rate

    def _encode(self, image: Image, stamp: int) -> None:
        rgb = VideoFrame.from_ndarray(np.ascontiguousarray(image), "rgb24")
        frame = self._reformatter.reformat(
            rgb,
            format="yuv420p",
            dst_colorspace=Colorspace.ITU709,
            dst_color_range=ColorRange.MPEG,
            interpolation=EXACT_ROUNDING | Interpolation.BICUBIC,
            threads=1,
        )
        frame.pts, frame.time_base = stamp, TIME_BASE
        frame.duration = round(1 / (self._rate * TIME_BASE))
        self._mux(frame)

    def _mux(self, frame: VideoFrame | None) -> None:
        try:
            self._container.mux(self._stream.encode(frame))
            if frame is None:
                self._container.close()
        except av.error.FFmpegError as problem:
            if isinstance(problem, OSError):
                raise cannot_write(self._path, problem) from problem
            raise VideoError(f"Cannot encode {self._path}: {problem.strerror}.", "Try another size.") from problem

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._abandon()
            return
        try:
            if self._last is None:
                raise VideoError(f"No picture was written to {self._path}.", "Write at least one before closing.")
            self._mux(None)
        except BaseException:
            self._abandon()
            raise
        self._file.__exit__(None, None, None)

    def _abandon(self) -> None:
        """Discard the new file; a file that was at the path before stays unchanged."""
        with contextlib.suppress(av.error.FFmpegError):
            self._container.close()
        self._forget_file()

    def _forget_file(self) -> None:
        with contextlib.suppress(_AbandonedError):
            self._file.__exit__(_AbandonedError, _AbandonedError(), None)
