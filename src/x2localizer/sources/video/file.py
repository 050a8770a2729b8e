"""Frames of a recorded video, decoding only what the requested spacing needs.

Three savings, none of which changes the result: frames that are not due are not converted to RGB; frames that are not
due and that no other frame depends on are not decoded; and if the container has an index (MP4, MOV, Matroska), reading
jumps to the last codec keyframe before the next due time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import av
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from x2localizer.errors import VideoError
from x2localizer.sources.video.containers import choose_stream, creation_time, duration_s, focal_35mm, timed_out
from x2localizer.sources.video.decoding import FrameDecoder, RgbConverter, refuse_no_memory
from x2localizer.sources.video.packets import PacketReader
from x2localizer.sources.video.source import FrameGrid, VideoInfo, VideoSource
from x2localizer.types import Image


class FileSource(VideoSource):
    """A video that can be read at any speed, from an open container that it will close."""

    def __init__(
        self,
        container: InputContainer,
        name: str,
        grid: FrameGrid,
        size: tuple[int, int] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        super().__init__()
        self._container, self._name, self._grid, self._timeout_s = container, name, grid, timeout_s
        try:
            self._stream = choose_stream(container, name)
            self._decoder = FrameDecoder(self._stream, live=False, name=name)
            # Over a network it reads sequentially, as not every server can seek.
            self._packets = PacketReader(container, self._stream, jumps=timeout_s is None)
            self._decoded = self._decode()
            first = next(self._decoded, None)
            if first is None:
                raise VideoError(f"No frame of {name} can be decoded.", "Check that the file plays elsewhere.")
        except BaseException:
            container.close()
            raise
        self._first = first
        self._to_rgb = RgbConverter(first[1], size)
        self.info = VideoInfo(
            width=self._to_rgb.width,
            height=self._to_rgb.height,
            duration_s=duration_s(container, self._stream),
            rate=self._stream.average_rate or None,
            live=False,
            start_time=creation_time(container),
            focal_35mm=focal_35mm(container),
        )

    @property
    def skipped(self) -> int:
        """Number of damaged frames so far; those in skipped stretches are not counted."""
        return self._decoder.skipped

    def _read(self) -> Iterator[tuple[float, Image]]:
        following: tuple[float, VideoFrame] | None = self._first
        while following is not None and not self._grid.is_over(following[0]):
            time_s, frame = following
            if time_s >= self._grid.due_s:
                self._grid.hand_out(time_s)
                yield time_s, self._to_rgb(frame)
            following = next(self._decoded, None)

    def _release(self) -> None:
        self._decoded.close()
        self._container.close()

    def _decode(self) -> Generator[tuple[float, VideoFrame], None, None]:
        """Undamaged frames in display order: all that are due, and some in between."""
        while True:
            due = self._decoder.clock.ticks_at(self._grid.due_s)
            if due is not None and self._packets.jump_before(due):
                self._decoder.jumped(self._packets.landing)
            packet = self._following_packet()
            if packet is None:
                return
            if not self._may_be_left_out(packet, due):
                yield from self._decoder.decode(packet)
            if self._decoder.landed_badly:
                self._packets.rewind()
                self._decoder.jumped(None)

    def _following_packet(self) -> Packet[VideoStream] | None:
        """The next readable packet; None at the end."""
        while True:
            try:
                return self._packets.following()
            except av.error.ExitError as problem:
                raise timed_out(self._name, self._timeout_s or 0.0) from problem
            except av.error.FFmpegError as problem:
                refuse_no_memory(problem, self._name)
                self._decoder.damaged()

    def _may_be_left_out(self, packet: Packet[VideoStream], due: int | None) -> bool:
        """Whether neither this frame nor one that depends on it can be due; also sets what the decoder skips."""
        last = self._decoder.clock.last
        early = due is not None and packet.pts is not None and packet.pts < due and (last is None or last < packet.pts)
        self._stream.codec_context.skip_frame = "NONREF" if early else "DEFAULT"
        return early and self._stream.codec.intra_only
