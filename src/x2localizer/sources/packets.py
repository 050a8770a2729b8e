"""Packets of the data tracks of a video file: what a camera writes beside its pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import av
import av.stream

from x2localizer.errors import UserError
from x2localizer.sources.guard import AVAILABLE, GuardProcess

Packet = tuple[float, float, bytes]
"""Time and duration in seconds, the time from the first video frame; and the bytes."""
NOMINAL_PAYLOAD_S = 1.0
"""GoPro writes one payload per second; used if the time of the next one is unknown."""
PROBLEMS = (av.FFmpegError, OSError, ValueError)
"""What reading a file may raise."""
READ_S = 300.0
"""Seconds until the next packets have to be there."""
_MOST_PACKETS, _MOST_BYTES = 1000, 8 << 20
"""Packets that are handed over at once."""


def data_packets(path: Path, error: type[UserError], *, own_process: bool = False) -> Iterator[Packet]:
    """Every packet of the data tracks of a file.

    error: the class of errors about a crash or a hang in the second process; a file that cannot be read is one of
        ``PROBLEMS``.
    own_process: let FFmpeg read the file in a second process.
    """
    if not (own_process and AVAILABLE):
        yield from plain_packets(path)
        return
    guard = GuardProcess("packets", str(path), error)
    try:
        guard.send(path=str(path))
        while True:
            answer = guard.answer(READ_S)
            if "failed" in answer.values:
                raise ValueError(answer.values["failed"])
            if answer.values["more"]:
                guard.send()  # read on while these are used
            at = 0
            for time_s, duration_s, size in answer.values["packets"]:
                yield float(time_s), float(duration_s), bytes(answer.data[at : at + size])
                at += size
            if not answer.values["more"]:
                return
    finally:
        guard.close()


def plain_packets(path: Path) -> Iterator[Packet]:
    """The same in this process."""
    with av.open(str(path)) as container:
        data_streams = container.streams.data
        if not data_streams:
            return
        for stream in container.streams:
            if stream not in data_streams:
                with suppress(AttributeError):  # older versions of PyAV read the pictures too, which is only slower
                    stream.discard = av.stream.Discard.all
        first_frame_s = 0.0
        for video in container.streams.video[:1]:
            if video.start_time is not None and video.time_base is not None:
                first_frame_s = float(video.start_time * video.time_base)
        for packet in container.demux(data_streams):
            if packet.pts is not None and packet.time_base is not None and packet.size:
                time_s = float(packet.pts * packet.time_base) - first_frame_s
                duration_s = float((packet.duration or 0) * packet.time_base)
                yield time_s, duration_s or NOMINAL_PAYLOAD_S, bytes(packet)


def some_packets(packets: Iterator[Packet]) -> tuple[list[Packet], bool]:
    """As many of the next packets as are handed over at once, and whether there may be more."""
    taken: list[Packet] = []
    size = 0
    for packet in packets:
        taken.append(packet)
        size += len(packet[2])
        if len(taken) >= _MOST_PACKETS or size >= _MOST_BYTES:
            return taken, True
    return taken, False
