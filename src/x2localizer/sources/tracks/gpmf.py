"""GPS positions from GoPro's telemetry format, GPMF.

A payload is a list of items: four letters, a type, the size of one sample, the number of samples, the samples in
big-endian order, padding to 4 bytes. Type 0 contains further items. Cameras up to the HERO10 write ``GPS5`` (latitude,
longitude, altitude, two speeds) with one fix, precision and UTC for the whole payload; from the HERO11 on, ``GPS9`` has
them in every sample. Damaged items are skipped; truncated ones are read as far as possible.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from x2localizer.types import Floats

_NUMBERS = {"b": "i1", "B": "u1", "s": "i2", "S": "u2", "l": "i4", "L": "u4", "f": "f4", "d": "f8"}
_GPS9_DAY_ZERO = datetime(2000, 1, 1, tzinfo=UTC)
_LAST_DAY = 73_000  # the year 2199; damaged files may have any number here
_DEEPEST = 8
"""GoPro nests items three levels deep; deeper nesting is damage."""


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a payload; ``value`` is shorter than ``size * repeat`` if the file was truncated."""

    key: str
    kind: str
    size: int
    repeat: int
    value: bytes


@dataclass(frozen=True, slots=True, eq=False)
class GpsBlock:
    """The GPS samples of one payload, evenly spread over its time. Arrays have shape (n,).

    ``fixed`` says whether the receiver had a fix. ``dops`` is the dilution of precision: below 5 is good, 0 is unknown.
    ``utc`` is the time of the first sample, if the receiver knew it.
    """

    lats_deg: Floats
    lons_deg: Floats
    fixed: npt.NDArray[np.bool_]
    dops: Floats
    utc: datetime | None


def items(data: bytes) -> Iterator[Item]:
    """The items of one level of a payload."""
    at = 0
    while at + 8 <= len(data):
        key, kind, size, repeat = struct.unpack_from(">4sBBH", data, at)
        if key == b"\0\0\0\0":  # padding at the end
            return
        length = size * repeat
        yield Item(key.decode("latin-1"), chr(kind), size, repeat, data[at + 8 : at + 8 + length])
        at += 8 + (length + 3) // 4 * 4


def gps_block(payload: bytes) -> GpsBlock | None:
    """The GPS samples of one payload; of ``GPS9`` if there are both kinds, None if there is neither."""
    found: dict[str, GpsBlock] = {}
    for stream in _streams(payload):
        block = _block(stream)
        if block is not None:
            found.setdefault("GPS9" if "GPS9" in stream else "GPS5", block)
    return found.get("GPS9", found.get("GPS5"))


def sensor_samples(payload: bytes, key: str, columns: int) -> Floats | None:
    """The samples of a sensor in one payload, such as ``GYRO``, in their units, (n, columns); None if it has none."""
    for stream in _streams(payload):
        if key in stream:
            table = _table(stream[key], stream, columns)
            if table is not None and len(table):
                return table
    return None


def _streams(data: bytes, depth: int = 0) -> Iterator[dict[str, Item]]:
    """Every list of items at any level, by key; of repeated keys the last item is kept."""
    level: dict[str, Item] = {}
    for item in items(data):
        if item.kind != "\0":
            level[item.key] = item
        elif depth < _DEEPEST:
            yield from _streams(item.value, depth + 1)
    yield level


def _block(stream: dict[str, Item]) -> GpsBlock | None:
    if "GPS9" in stream:
        table = _table(stream["GPS9"], stream, columns=9)
        return None if table is None else _gps9(table)
    if "GPS5" in stream:
        table = _table(stream["GPS5"], stream, columns=5)
        return None if table is None else _gps5(table, stream)
    return None


def _gps5(table: Floats, stream: dict[str, Item]) -> GpsBlock:
    fix, precision = _first_number(stream.get("GPSF")), _first_number(stream.get("GPSP"))
    fixed = _somewhere(table) & (fix is None or fix >= 2)
    dops = np.full(len(table), 0.0 if precision is None else precision / 100.0)
    utc = _utc(stream.get("GPSU")) if fixed.any() else None
    return GpsBlock(table[:, 0], table[:, 1], fixed, dops, utc)


def _gps9(table: Floats) -> GpsBlock:
    fixed = _somewhere(table) & (table[:, 8] >= 2)
    utc = None
    if len(table) and fixed[0]:
        days, seconds = float(table[0, 5]), float(table[0, 6])
        if 0 <= days < _LAST_DAY and 0 <= seconds < 86401:  # a day may have a leap second
            utc = _GPS9_DAY_ZERO + timedelta(days=days, seconds=seconds)
    return GpsBlock(table[:, 0], table[:, 1], fixed, table[:, 7], utc)


def _somewhere(table: Floats) -> npt.NDArray[np.bool_]:
    """Samples that are not (0, 0), which some cameras write before the first fix."""
    elsewhere: npt.NDArray[np.bool_] = (table[:, 0] != 0) | (table[:, 1] != 0)
    return elsewhere


def _table(item: Item, stream: dict[str, Item], columns: int) -> Floats | None:
    """The samples of an item in their units, shape (n, columns); None if the item is damaged."""
    kinds = _text(stream.get("TYPE")) if item.kind == "?" else item.kind * columns
    if len(kinds) != columns or any(kind not in _NUMBERS for kind in kinds):
        return None
    layout = np.dtype([(f"c{i}", f">{_NUMBERS[kind]}") for i, kind in enumerate(kinds)])
    if layout.itemsize != item.size:
        return None
    samples = np.frombuffer(item.value, layout, count=len(item.value) // item.size)
    table = np.stack([samples[name].astype(np.float64) for name in layout.names or ()], axis=1)
    scale = _numbers(stream.get("SCAL"))
    if scale.size not in (1, columns) or not np.all(scale):
        return None
    with np.errstate(all="ignore"):  # damaged floats become infinite and are dropped later
        scaled: Floats = table / scale
    return scaled


def _numbers(item: Item | None) -> Floats:
    """The numbers of an item, flat; empty if there are none."""
    if item is None or item.kind not in _NUMBERS:
        return np.empty(0)
    kind = np.dtype(f">{_NUMBERS[item.kind]}")
    return np.frombuffer(item.value, kind, count=len(item.value) // kind.itemsize).astype(np.float64)


def _first_number(item: Item | None) -> float | None:
    numbers = _numbers(item)
    return float(numbers[0]) if numbers.size else None


def _text(item: Item | None) -> str:
    return "" if item is None else item.value.rstrip(b"\0 ").decode("latin-1")


def _utc(item: Item | None) -> datetime | None:
    """A time written as ``yymmddhhmmss.sss``; None if it is something else."""
    try:
        return datetime.strptime(f"20{_text(item)}", "%Y%m%d%H%M%S.%f").replace(tzinfo=UTC)
    except ValueError:
        return None
