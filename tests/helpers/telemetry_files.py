"""GoPro's items and MP4 files with a data track, made byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np


def item(key: str, kind: str, size: int, values: bytes) -> bytes:
    padding = b"\0" * (-len(values) % 4)
    head = key.encode() + struct.pack(">BBH", ord(kind), size, len(values) // size)
    return head + values + padding


def nest(key: str, *inside: bytes) -> bytes:
    return item(key, "\0", 1, b"".join(inside))


def box(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I4s", 8 + len(body), kind) + body


def full_box(kind: bytes, *parts: bytes, flags: int = 0) -> bytes:
    return box(kind, struct.pack(">I", flags), *parts)


def mp4(packets: Sequence[bytes], kind: bytes, packet_ms: int = 1000) -> bytes:
    """A film with nothing but a data track."""
    count, lasts = len(packets), packet_ms * len(packets)
    upright = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
    file_type = box(b"ftyp", b"mp41", bytes(4), b"mp41")
    starts = len(file_type) + 8 + np.cumsum([0, *(len(packet) for packet in packets)])[:-1]
    table = box(
        b"stbl",
        full_box(b"stsd", struct.pack(">I", 1), box(kind, bytes(6), struct.pack(">H", 1), bytes(4))),
        full_box(b"stts", struct.pack(">3I", 1, count, packet_ms)),
        full_box(b"stsc", struct.pack(">4I", 1, 1, 1, 1)),
        full_box(b"stsz", struct.pack(f">{2 + count}I", 0, count, *(len(packet) for packet in packets))),
        full_box(b"stco", struct.pack(f">{1 + count}I", count, *(int(start) for start in starts))),
    )
    references = box(b"dinf", full_box(b"dref", struct.pack(">I", 1), full_box(b"url ", flags=1)))
    media = box(
        b"mdia",
        full_box(b"mdhd", struct.pack(">4I2H", 0, 0, 1000, lasts, 0x55C4, 0)),
        full_box(b"hdlr", b"mhlr", b"meta", bytes(12), b"Telemetry\0"),
        box(b"minf", box(b"gmhd", full_box(b"gmin", bytes(12))), references, table),
    )
    track_head = full_box(b"tkhd", struct.pack(">5I", 0, 0, 1, 0, lasts), bytes(16), upright, bytes(8), flags=7)
    film_head = full_box(
        b"mvhd",
        struct.pack(">4IIH", 0, 0, 1000, lasts, 0x10000, 0x100),
        bytes(10),
        upright,
        bytes(24),
        b"\0\0\0\2",
    )
    return file_type + box(b"mdat", *packets) + box(b"moov", film_head, box(b"trak", track_head, media))
