"""Packets of a recorded video in decoding order, with jumps to places where decoding can start."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import cast

import av
from av.container import InputContainer
from av.packet import Packet
from av.video.stream import VideoStream

# Containers with a reliable index: decoding can start at its codec keyframes.
_INDEXED_FORMATS = frozenset({"mp4", "matroska"})
_JUMP_TRIES = 4
# A truncated file fails once for every missing packet; this many failures in a row are its end.
_UNREADABLE_IN_A_ROW = 100


class PacketReader:
    """Reads the packets of one stream; timestamps are in units of the stream's time base."""

    def __init__(self, container: InputContainer, stream: VideoStream, *, jumps: bool) -> None:
        self._container, self._stream = container, stream
        self._packets: Iterator[Packet[VideoStream]] = iter(())
        self._ahead: Packet[VideoStream] | None = None
        self._unreadable = 0
        self._furthest: int | None = None
        self._reorder = 0
        self._asked: int | None = None
        self.landing: int | None = None
        formats = set(container.format.name.split(","))
        self._jumps = jumps
        self._indexed = jumps and bool(formats & _INDEXED_FORMATS)
        if self._indexed and "matroska" in formats:
            self._go_to(stream.start_time or 0)  # FFmpeg reads Matroska's index at the first seek
        self._packets = container.demux(stream)

    @property
    def gave_up(self) -> bool:
        """Whether so many packets in a row were unreadable that this counts as the end."""
        return self._unreadable >= _UNREADABLE_IN_A_ROW

    def following(self) -> Packet[VideoStream] | None:
        """The next packet; at the end of the file an empty one, then None.

        Raises ``FFmpegError`` for an unreadable packet; the next call continues after it.
        """
        packet, self._ahead = self._ahead, None
        if packet is None:
            try:
                packet = next(self._packets, None)
            except av.error.ExitError:
                raise
            except av.error.FFmpegError as problem:
                self._unreadable += 1
                # An error ends PyAV's iterator, but reading can continue with a new one.
                self._packets = self._nothing_more() if self.gave_up else self._container.demux(self._stream)
                if not self._hung_up(problem):
                    raise
                self._packets = self._nothing_more()
                packet = next(self._packets)
            else:
                self._unreadable = 0
        self._note_place(packet)
        return packet

    def _hung_up(self, problem: av.error.FFmpegError) -> bool:
        """Whether a server of a stream without a known length closed the connection."""
        return not self._jumps and problem.errno == errno.EIO

    def _nothing_more(self) -> Iterator[Packet[VideoStream]]:
        """The empty packet that makes a decoder output its last frames."""
        empty = cast("Packet[VideoStream]", Packet())
        empty.stream = self._stream
        return iter((empty,))

    def _note_place(self, packet: Packet[VideoStream] | None) -> None:
        if packet is None or packet.pts is None:
            return
        self._furthest = packet.pts if self._furthest is None else max(self._furthest, packet.pts)
        if packet.dts is not None:
            self._reorder = max(self._reorder, packet.pts - packet.dts)

    def jump_before(self, due: int) -> bool:
        """Jump to the last codec keyframe at or before ``due``, if it lies ahead; ``landing`` is its timestamp.

        The index of MP4 contains decoding timestamps, which precede those of display. Therefore the timestamp of the
        packet found is checked, and if it is too late, an earlier codec keyframe is tried.
        """
        if not self._indexed or due == self._asked or self._furthest is None:
            return False
        self._asked = due
        index = self._stream.index_entries
        goal = due - self._reorder
        nearest = index.search_timestamp(goal)
        if nearest < 0 or index[nearest].timestamp <= self._furthest:
            return False
        for _ in range(_JUMP_TRIES):
            packet = self._go_to(goal)
            if packet is not None and packet.is_keyframe and packet.pts is not None and packet.pts <= due:
                self.landing = packet.pts
                return True
            nearest = index.search_timestamp(goal)
            goal = (index[nearest].timestamp if nearest >= 0 else goal) - 1
        self.rewind()
        return True

    def rewind(self) -> None:
        """Start again at the first packet, and do not jump any more, because the index is wrong."""
        self._indexed = False
        self.landing = None
        index = self._stream.index_entries
        self._go_to(index[0].timestamp if len(index) else 0)

    def _go_to(self, stamp: int) -> Packet[VideoStream] | None:
        """Seek to a timestamp or before it; the packet found there is the next one to be returned."""
        self._furthest = None
        self._ahead = None
        try:
            self._container.seek(stamp, stream=self._stream)
            self._packets = self._container.demux(self._stream)
            self._ahead = next(self._packets, None)
        except av.error.FFmpegError:
            self._packets = self._container.demux(self._stream)
        return self._ahead
