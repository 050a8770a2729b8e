"""From packets of a container to upright RGB pictures with true times: what files and live streams share.

Pixels that are not square (anamorphic video) are handed out as they are stored.
"""

from __future__ import annotations

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
# Rounded alike on every processor, so that the same video gives the same pixels everywhere.
EXACT_ROUNDING = Interpolation.ACCURATE_RND | Interpolation.BITEXACT | Interpolation.FULL_CHR_H_INT


class FrameClock:
    """Presentation time stamps to seconds from the first frame, growing with every frame.

    A frame without a stamp takes its decoding stamp; without either it follows the one before by a frame at
    the average rate (in a live source: by the wall clock). A step back of more than a second starts a new
    timeline that goes on where the old one ended; after a smaller one the time of a frame cannot be trusted.
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
        """Seconds from the first frame; None for a frame that would repeat a time or step back."""
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
        """A stamp as seconds from the first frame, rounded once."""
        return (stamp - (self.origin or 0)) * self._base.numerator / self._base.denominator

    def start_at(self, stamp: int | None) -> None:
        """Count from here if nothing was decoded yet: damage at the head of a file shifts no times."""
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
        """The stamp at or just before a time; None before the first frame is known."""
        if self.origin is None:
            return None
        return self.origin + math.floor(Fraction(time_s) / self._base)


class FrameDecoder:
    """Packets in, undamaged frames with their times out, in order of display.

    After a damaged frame those that build on it are smeared, although no decoder says so: they count as
    damaged too, up to the next whole picture. After ten seconds without one the stream is trusted again:
    some cameras send no whole pictures but mend a stripe at a time.
    """

    def __init__(self, stream: VideoStream, *, live: bool) -> None:
        self._stream = stream
        # Decoding frames side by side is faster, but holds pictures back: right for files, wrong for live.
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
        """The good frames that a packet brings out, each with its time in seconds."""
        self._head = packet.pts if self._head is None else self._head
        try:
            frames = [] if packet.is_corrupt else packet.decode()
        except av.error.FFmpegError:
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
        """Count something unreadable, and doubt the frames from a time on (all that come when None)."""
        self.skipped += 1
        self._unproven = False
        self._doubt_from_s = -math.inf if from_s is None else from_s
        self._doubt_began_s = None

    def _packet_damaged(self, packet: Packet[VideoStream], stamp: int | None) -> None:
        if self._landing is None or packet.pts is None or packet.pts >= self._landing:
            self.clock.start_at(self._head)
            self.damaged(None if stamp is None else self.clock.seconds(stamp))

    def _doubtful(self, frame: VideoFrame, time_s: float) -> bool:
        """Whether a frame may build on a damaged one."""
        if self._doubt_from_s is None or time_s < self._doubt_from_s:
            return False
        if self._doubt_began_s is None:
            self._doubt_began_s = time_s
        if frame.key_frame or time_s - self._doubt_began_s > _DOUBT_S:
            self._doubt_from_s = None
        return self._doubt_from_s is not None

    def jumped(self, landing: int | None) -> None:
        """Forget what came before: next comes a keyframe shown at ``landing``, or the file's first."""
        self.clock.last = None
        self._doubt_from_s = None
        self._landing = landing
        self._unproven = landing is not None and not self._stream.codec.intra_only
        self.landed_badly = False

    def _unusable(self, frame: VideoFrame) -> bool:
        """Whether a frame cannot be used after a jump.

        Frames shown before the keyframe may build on some that were jumped over. When the keyframe itself is
        held back (streams that mend a stripe at a time), nothing decoded from here on is what it should be.
        """
        if self._landing is not None and (frame.pts is None or frame.pts < self._landing):
            return True
        if self._unproven:
            self._unproven = False
            self.landed_badly = frame.pts != self._landing
        return self.landed_badly


class RgbConverter:
    """Turns frames into upright RGB pictures of one size: ``size`` (height, width), or that of the first."""

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
        """The picture, shape (height, width, 3), in memory of its own."""
        height, width = self._stored
        try:
            rgb = self._reformatter.reformat(
                frame, width=width, height=height, format="rgb24", interpolation=int(self._flags), threads=1
            )
        except (av.error.FFmpegError, ValueError) as problem:
            raise VideoError(
                f"Pictures of the kind {frame.format.name} cannot be turned into RGB.",
                "Convert the video to H.264 with 8 bits per colour.",
            ) from problem
        image = np.asarray(rgb.to_ndarray(), np.uint8)
        if self._across:
            image = image.transpose(1, 0, 2)
        image = image[:: -1 if self._flip_y else 1, :: -1 if self._flip_x else 1]
        return np.array(image, order="C")


def _orientation(frame: VideoFrame) -> tuple[bool, bool, bool]:
    """(axes swapped, then flipped left-right, then flipped top-bottom) that make a frame upright.

    The display matrix sends a stored pixel (x, y), y downward, to (a x + c y, b x + d y); only quarter turns
    and mirrorings are meant by cameras, anything between goes to the nearest.
    """
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return False, False, False
    a, b, _, c, d = np.frombuffer(cast(bytes, matrix), np.int32)[:5].tolist()
    if abs(a) + abs(d) >= abs(b) + abs(c):
        return False, a < 0, d < 0
    return True, c < 0, b < 0
