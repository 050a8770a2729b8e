"""From packets of a container to upright RGB pictures with true times, for files and live streams.

Pixels that are not square (anamorphic video) are returned as they are stored.
"""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import cast

import av
import numpy as np
from av.codec.context import ThreadType
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter
from av.video.stream import VideoStream

from x2localizer.errors import VideoError
from x2localizer.types import Image

_USUAL_RATE = Fraction(25)
_NEW_TIMELINE_S = 1.0
_DOUBT_S = 10.0
# The same rounding on every processor, so that the same video gives the same pixels everywhere.
EXACT_ROUNDING = Interpolation.ACCURATE_RND | Interpolation.BITEXACT | Interpolation.FULL_CHR_H_INT


class FrameClock:
    """Converts presentation timestamps to strictly increasing seconds from the first frame.

    A frame without a presentation timestamp gets its decoding timestamp; without either it follows the previous frame
    at the average rate (in a live source, by the wall clock). A step back of more than a second starts a new timeline
    that continues where the old one ended; frames after a smaller step back have no reliable time.
    """

    def __init__(self, stream: VideoStream, *, live: bool) -> None:
        self._base = stream.time_base or Fraction(1, 90000)
        rate = stream.average_rate or stream.guessed_rate or _USUAL_RATE
        self._period = max(1, round(1 / (rate * self._base)))
        self._live = live
        self._wall_s = 0.0
        self.origin: int | None = None
        self.last: int | None = None

    def time_of(self, frame: VideoFrame) -> float | None:
        """Seconds from the first frame; None if that would repeat a time or step back."""
        ticks = self._ticks_of(frame)
        if self.origin is None or (self.last is None and ticks < self.origin):
            self.origin, self._wall_s = ticks, time.monotonic()
        elif self.last is not None and ticks <= self.last:
            if (self.last - ticks) * self._base < _NEW_TIMELINE_S:
                return None
            self.origin += ticks - self.last - self._period
        self.last = ticks
        return self.seconds(ticks)

    def seconds(self, stamp: int) -> float:
        """A timestamp as seconds from the first frame, rounded once."""
        return (stamp - (self.origin or 0)) * self._base.numerator / self._base.denominator

    def start_at(self, stamp: int | None) -> None:
        """Count from here if nothing was decoded yet, so that damage at the start of a file does not shift times."""
        if self.origin is None and not self._live:
            self.origin = stamp

    def _ticks_of(self, frame: VideoFrame) -> int:
        stamp = frame.pts if frame.pts is not None else frame.dts
        if stamp is not None:
            return stamp
        if self._live and self.origin is not None:
            return self.origin + round((time.monotonic() - self._wall_s) / self._base)
        return 0 if self.last is None else self.last + self._period

    def ticks_at(self, time_s: float) -> int | None:
        """The timestamp at or just before a time; None until the first frame is known."""
        if self.origin is None:
            return None
        return self.origin + math.floor(Fraction(time_s) / self._base)


class FrameDecoder:
    """Decodes packets to undamaged frames with their times, in display order.

    Frames that depend on a damaged one are smeared, although decoders do not report it: they count as damaged too, up
    to the next codec keyframe. After ten seconds without one the stream is trusted again, as some cameras send no
    codec keyframes but refresh the picture stripe by stripe.
    """

    def __init__(self, stream: VideoStream, *, live: bool, name: str = "the video") -> None:
        self._stream, self._name = stream, name
        # Decoding frames in parallel is faster but delays pictures: right for files, wrong for live sources.
        stream.thread_type = ThreadType.SLICE if live else ThreadType.AUTO
        self.clock = FrameClock(stream, live=live)
        self.skipped = 0
        self.landed_badly = False
        self._head: int | None = None
        self._landing: int | None = None
        self._unproven = False
        self._doubt_from_s: float | None = None
        self._doubt_began_s: float | None = None

    def decode(self, packet: Packet[VideoStream]) -> Iterator[tuple[float, VideoFrame]]:
        """The undamaged frames that a packet completes, each with its time in seconds."""
        self._head = packet.pts if self._head is None else self._head
        try:
            frames = [] if packet.is_corrupt else packet.decode()
        except av.error.FFmpegError as problem:
            refuse_no_memory(problem, self._name)
            frames = []
            self._packet_damaged(packet, None)
        if packet.is_corrupt:
            self._packet_damaged(packet, packet.dts)
        for frame in frames:
            if self._unusable(frame):
                continue
            time_s = self.clock.time_of(frame)
            if frame.is_corrupt:
                self.damaged(time_s)
            elif time_s is None or self._doubtful(frame, time_s):
                self.skipped += 1
            else:
                yield time_s, frame

    def damaged(self, from_s: float | None = None) -> None:
        """Count something unreadable, and distrust frames from a time on (all following frames if None)."""
        self.skipped += 1
        self._unproven = False
        self._doubt_from_s = -math.inf if from_s is None else from_s
        self._doubt_began_s = None

    def _packet_damaged(self, packet: Packet[VideoStream], stamp: int | None) -> None:
        if self._landing is None or packet.pts is None or packet.pts >= self._landing:
            self.clock.start_at(self._head)
            self.damaged(None if stamp is None else self.clock.seconds(stamp))

    def _doubtful(self, frame: VideoFrame, time_s: float) -> bool:
        """Whether a frame may depend on a damaged one."""
        if self._doubt_from_s is None or time_s < self._doubt_from_s:
            return False
        if self._doubt_began_s is None:
            self._doubt_began_s = time_s
        if frame.key_frame or time_s - self._doubt_began_s > _DOUBT_S:
            self._doubt_from_s = None
        return self._doubt_from_s is not None

    def jumped(self, landing: int | None) -> None:
        """Reset after a seek to the codec keyframe with timestamp ``landing``, or to the start of the file if None."""
        self.clock.last = None
        self._doubt_from_s = None
        self._landing = landing
        self._unproven = landing is not None and not self._stream.codec.intra_only
        self.landed_badly = False

    def _unusable(self, frame: VideoFrame) -> bool:
        """Whether a frame cannot be used after a seek.

        Frames displayed before the codec keyframe may depend on skipped ones. If the codec keyframe itself is not
        output (streams that refresh stripe by stripe), nothing decoded from here on is correct.
        """
        if self._landing is not None and (frame.pts is None or frame.pts < self._landing):
            return True
        if self._unproven:
            self._unproven = False
            self.landed_badly = frame.pts != self._landing
        return self.landed_badly


def refuse_no_memory(problem: av.error.FFmpegError, name: str = "the video") -> None:
    """Raise if a decoder did not get the memory or the threads that it needs: the video is not to blame."""
    if problem.errno in (errno.ENOMEM, errno.EAGAIN):
        raise VideoError(
            f"There is not enough memory to decode {name}.",
            "Close other programs, or give this one more memory; a smaller picture needs less.",
        ) from problem


class RgbConverter:
    """Converts frames to upright RGB pictures of one size: ``size`` (height, width), or that of the first frame."""

    def __init__(self, first: VideoFrame, size: tuple[int, int] | None) -> None:
        self._across, self._flip_x, self._flip_y = _orientation(first)
        upright = (first.width, first.height) if self._across else (first.height, first.width)
        self.height, self.width = upright
        height, width = size or upright
        self._stored = (width, height) if self._across else (height, width)
        shrinks = self._stored[0] <= first.height and self._stored[1] <= first.width
        self._flags = EXACT_ROUNDING | (Interpolation.AREA if shrinks else Interpolation.BICUBIC)
        self._reformatter = VideoReformatter()

    def __call__(self, frame: VideoFrame) -> Image:
        """The picture as a new array, shape (height, width, 3)."""
        height, width = self._stored
        try:
            rgb = self._reformatter.reformat(
                frame, width=width, height=height, format="rgb24", interpolation=int(self._flags), threads=1
            )
        except (av.error.FFmpegError, ValueError) as problem:
            if isinstance(problem, av.error.FFmpegError):
                refuse_no_memory(problem)
            raise VideoError(
                f"Cannot convert pictures of format {frame.format.name} to RGB.",
                "Convert the video to H.264 with 8 bits per colour.",
            ) from problem
        image = np.asarray(rgb.to_ndarray(), np.uint8)
        if self._across:
            image = image.transpose(1, 0, 2)
        image = image[:: -1 if self._flip_y else 1, :: -1 if self._flip_x else 1]
        return np.array(image, order="C")


def _orientation(frame: VideoFrame) -> tuple[bool, bool, bool]:
    """Whether to swap the axes, then flip left-right, then flip top-bottom, to make a frame upright.

    The display matrix maps a stored pixel (x, y), y downward, to (a x + c y, b x + d y). Cameras only use quarter turns
    and reflections; anything in between is rounded to the nearest.
    """
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return False, False, False
    a, b, _, c, d = np.frombuffer(cast(bytes, matrix), np.int32)[:5].tolist()
    if abs(a) + abs(d) >= abs(b) + abs(c):
        return False, a < 0, d < 0
    return True, c < 0, b < 0
