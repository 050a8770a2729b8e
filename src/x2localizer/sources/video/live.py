"""Frames of a camera or a live stream, without a growing delay.

A thread decodes pictures as they arrive and keeps the last few. A reader that is slower than the camera gets the newest
frames; older ones are dropped and counted.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import av
from av.container import InputContainer
from av.video.frame import VideoFrame

from x2localizer.errors import VideoError
from x2localizer.sources.video.containers import choose_stream, timed_out
from x2localizer.sources.video.decoding import FrameDecoder, RgbConverter
from x2localizer.sources.video.packets import PacketReader
from x2localizer.sources.video.source import FrameGrid, VideoInfo, VideoSource
from x2localizer.types import Image

_KEPT_FRAMES = 2


class LiveSource(VideoSource):
    """A source that does not wait for its reader, from an open container that it will close.

    No picture for ``timeout_s`` seconds is a :class:`VideoError`; the end of a stream is not.
    """

    def __init__(
        self,
        container: InputContainer,
        name: str,
        grid: FrameGrid,
        size: tuple[int, int] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        super().__init__()
        self._container, self._name, self._grid, self._timeout_s = container, name, grid, timeout_s
        try:
            stream = choose_stream(container, name)
        except VideoError:
            container.close()
            raise
        self._decoder = FrameDecoder(stream, live=True)
        self._packets = PacketReader(container, stream, jumps=False)
        self._dropped = 0
        self._waiting: deque[tuple[float, VideoFrame]] = deque()
        self._news = threading.Condition()
        self._first: VideoFrame | None = None
        self._problem: Exception | None = None
        self._ended = False
        self._stop = threading.Event()
        self._last_sign_s = time.monotonic()
        self._thread = threading.Thread(target=self._follow, name=f"video {name}", daemon=True)
        self._thread.start()
        first = self._wait_for_first()
        self._to_rgb = RgbConverter(first, size)
        self.info = VideoInfo(
            width=self._to_rgb.width,
            height=self._to_rgb.height,
            duration_s=None,
            rate=stream.average_rate or None,
            live=True,
            start_time=datetime.now(UTC),
        )

    @property
    def skipped(self) -> int:
        """Number of damaged frames so far."""
        return self._decoder.skipped

    @property
    def dropped(self) -> int:
        """Number of undamaged frames dropped so far because the reader was slower than the camera."""
        return self._dropped

    def _read(self) -> Iterator[tuple[float, Image]]:
        while True:
            with self._news:
                self._wait(lambda: bool(self._waiting))
                if not self._waiting:
                    if self._problem is not None:
                        raise self._problem
                    return
                time_s, frame = self._waiting.popleft()
            yield time_s, self._to_rgb(frame)

    def _release(self) -> None:
        self._stop.set()
        # The thread notices at the next packet, or when reading times out. A driver that hangs longer is left to
        # the daemon thread, because closing a container in use crashes.
        self._thread.join(self._timeout_s + 1.0)

    def _wait_for_first(self) -> VideoFrame:
        try:
            with self._news:
                self._wait(lambda: self._first is not None)
                if self._first is None:
                    raise self._problem or VideoError(
                        f"{self._name} ended before the first picture.", "Check that the camera sends pictures."
                    )
                return self._first
        except BaseException:
            self.close()
            raise

    def _wait(self, arrived: Callable[[], bool]) -> None:
        """Wait for a picture or the end, while holding the lock; raises after too long a silence."""
        while not arrived() and not self._ended:
            left_s = self._last_sign_s + self._timeout_s + 1.0 - time.monotonic()
            if left_s <= 0:
                raise timed_out(self._name, self._timeout_s)
            self._news.wait(left_s)

    def _follow(self) -> None:
        """Decode until the stream ends, the requested end is reached, or something fails; runs in the thread."""
        try:
            for time_s, frame in self._incoming():
                if self._stop.is_set() or self._grid.is_over(time_s):
                    break
                self._take(time_s, frame)
        except Exception as problem:
            # Raised in the thread that waits for pictures.
            self._problem = problem
        finally:
            self._container.close()
            with self._news:
                self._ended = True
                self._news.notify_all()

    def _take(self, time_s: float, frame: VideoFrame) -> None:
        with self._news:
            self._last_sign_s = time.monotonic()
            self._first = self._first or frame
            if time_s >= self._grid.due_s:
                self._grid.hand_out(time_s)
                if len(self._waiting) == _KEPT_FRAMES:
                    self._waiting.popleft()
                    self._dropped += 1
                self._waiting.append((time_s, frame))
            self._news.notify_all()

    def _incoming(self) -> Iterator[tuple[float, VideoFrame]]:
        while not self._stop.is_set():
            try:
                packet = self._packets.following()
            except av.error.ExitError as problem:
                raise timed_out(self._name, self._timeout_s) from problem
            except av.error.FFmpegError as problem:
                self._decoder.damaged()
                if self._packets.gave_up:
                    raise VideoError(
                        f"Reading {self._name} failed: {problem.strerror or 'unknown error'}.",
                        "Check the connection and start again.",
                    ) from problem
                continue
            if packet is None:
                return
            yield from self._decoder.decode(packet)
