"""Small OpenStreetMap files, as XML and as protocol buffers."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import quoteattr

Point = tuple[float, float]
"""Latitude and longitude."""
Way = tuple[Sequence[Point], Mapping[str, str]]
"""The points and tags of a way."""


def write_osm(path: Path, ways: Sequence[Way]) -> Path:
    """Write ways as OpenStreetMap XML."""
    path.write_text(osm_text(ways), encoding="utf-8")
    return path


def osm_text(ways: Sequence[Way]) -> str:
    """Ways as OpenStreetMap XML; points at the same place are one node."""
    numbers = _node_numbers(ways)
    nodes = [f'<node id="{i}" version="1" lat="{lat!r}" lon="{lon!r}"/>' for (lat, lon), i in numbers.items()]
    text = ['<?xml version="1.0" encoding="UTF-8"?>', '<osm version="0.6" generator="test">', *nodes]
    for number, (points, tags) in enumerate(ways, 1):
        refs = [f'<nd ref="{numbers[point]}"/>' for point in points]
        words = [f"<tag k={quoteattr(key)} v={quoteattr(value)}/>" for key, value in tags.items()]
        text += [f'<way id="{number}" version="1">', *refs, *words, "</way>"]
    return "\n".join([*text, "</osm>\n"])


def write_pbf(path: Path, ways: Sequence[Way]) -> Path:
    """Write ways as .osm.pbf: a header, a block of nodes and a block of ways."""
    numbers = _node_numbers(ways)
    strings = [b"", *sorted({word.encode() for _, tags in ways for pair in tags.items() for word in pair})]
    nodes = b"".join(_node(number, point) for point, number in numbers.items())
    lines = b""
    for number, (points, tags) in enumerate(ways, 1):
        refs = [numbers[point] for point in points]
        steps = b"".join(_varint(_signed(b - a)) for a, b in pairwise([0, *refs]))
        keys = b"".join(_varint(strings.index(key.encode())) for key in tags)
        values = b"".join(_varint(strings.index(value.encode())) for value in tags.values())
        lines += _bytes(3, _number(1, number) + _bytes(2, keys) + _bytes(3, values) + _bytes(8, steps))
    table = _bytes(1, b"".join(_bytes(1, word) for word in strings))
    path.write_bytes(
        _block(b"OSMHeader", _bytes(4, b"OsmSchema-V0.6"))
        + _block(b"OSMData", table + _bytes(2, nodes)) + _block(b"OSMData", table + _bytes(2, lines))
    )  # fmt: skip
    return path


def _node_numbers(ways: Sequence[Way]) -> dict[Point, int]:
    return {point: i for i, point in enumerate(dict.fromkeys(p for points, _ in ways for p in points), 1)}


def _node(number: int, point: Point) -> bytes:
    lat, lon = (_signed(round(degrees * 1e7)) for degrees in point)
    return _bytes(1, _number(1, _signed(number)) + _number(8, lat) + _number(9, lon))


def _block(kind: bytes, content: bytes) -> bytes:
    blob = _number(2, len(content)) + _bytes(3, zlib.compress(content))
    header = _bytes(1, kind) + _number(3, len(blob))
    return struct.pack(">I", len(header)) + header + blob


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _signed(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
