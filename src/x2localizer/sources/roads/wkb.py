"""Lines from well-known binary (WKB), the form in which GDAL hands out geometry."""

from __future__ import annotations

import struct

import numpy as np

from x2localizer.types import Floats

LINE, MULTI_LINE = 2, 5
_HIGH_DIMENSIONS = {0: 0, 1: 1, 2: 1, 3: 2}  # by thousands of the ISO type: plain, Z, M, ZM


def lines_of(data: bytes) -> list[Floats]:
    """The lines of a geometry, (n, 2) each: x and y. Other geometry has none; damaged data is a ValueError."""
    try:
        return _read(data, 0)[0]
    except struct.error as problem:
        raise ValueError("geometry ends too early") from problem


def _read(data: bytes, at: int, *, member: bool = False) -> tuple[list[Floats], int]:
    """The lines of the geometry that begins at a byte, and where it ends; ``member``: of several lines."""
    order = "<" if data[at : at + 1] == b"\x01" else ">"
    code, count = struct.unpack_from(f"{order}II", data, at + 1)
    kind, thousands = (code & 0x0FFFFFFF) % 1000, (code & 0x0FFFFFFF) // 1000
    width = 2 + _HIGH_DIMENSIONS.get(thousands, 0) + bool(code & 0x80000000) + bool(code & 0x40000000)
    at += 9
    if kind == LINE:
        end = at + 8 * width * count
        if end > len(data):
            raise ValueError("geometry ends too early")
        points = np.frombuffer(data, f"{order}f8", count * width, at).reshape(count, width)
        return [points[:, :2].astype(np.float64)], end
    if member:  # several lines consist of lines only; anything else could be nested without end
        raise ValueError("geometry is nested too deep")
    lines: list[Floats] = []
    if kind == MULTI_LINE:
        for _ in range(count):
            more, at = _read(data, at, member=True)
            lines += more
    return lines, at
