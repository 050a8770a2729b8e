"""The tables of a dataset: regions, videos and frames, as rows with types and as Parquet schemas.

A picture is a range of bytes in a file (offset and length; length 0 is the whole file), so that single files and
pictures in a motion-JPEG file are read in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from x2localizer.files import atomic_path
from x2localizer.types import Position, Region

FORMAT = 1
"""Increased whenever an old reader could misread a new dataset."""
SPLITS = ("train", "val", "test")
ROLES = ("clip", "long")
"""A clip stays inside its region; a long drive leaves it."""


@dataclass(frozen=True, slots=True)
class Media:
    """The location of a picture: a path below the dataset's folder, and a range of bytes in the file."""

    path: str
    offset: int = 0
    length: int = 0  # 0: the whole file


@dataclass(frozen=True, slots=True)
class RegionRow:
    """A region of n x n tiles with its picture; ``lat_deg`` and ``lon_deg`` are its centre."""

    region_id: str
    split: str
    area: str
    zoom: int
    x: int
    y: int
    n: int
    lat_deg: float
    lon_deg: float
    image_path: str
    image_offset: int
    image_length: int

    @property
    def region(self) -> Region:
        """The region itself."""
        return Region(self.zoom, self.x, self.y, self.n)

    @property
    def image(self) -> Media:
        """The picture of the region, n tiles wide."""
        return Media(self.image_path, self.image_offset, self.image_length)


@dataclass(frozen=True, slots=True)
class VideoRow:
    """A video and its region. Clips of one ride have the same ``ride_id`` and are ordered by ``start_time``."""

    video_id: str
    split: str
    role: str
    area: str
    ride_id: str
    region_id: str
    start_time: datetime  # UTC
    duration_s: float
    frames: int
    keyframes: int
    season: str | None
    weather: str | None
    daytime: str | None


@dataclass(frozen=True, slots=True)
class FrameRow:
    """A frame with its time from the start of the video, its true position, and the tile centred on it."""

    video_id: str
    index: int
    time_s: float
    lat_deg: float
    lon_deg: float
    heading_deg: float | None
    speed_m_s: float | None
    keyframe: int  # 0, 1, ... for keyframes, -1 for other frames
    image_path: str
    image_offset: int
    image_length: int
    tile_path: str
    tile_offset: int
    tile_length: int

    @property
    def position(self) -> Position:
        """The position of the camera."""
        return Position(self.lat_deg, self.lon_deg)

    @property
    def image(self) -> Media:
        """The street frame."""
        return Media(self.image_path, self.image_offset, self.image_length)

    @property
    def tile(self) -> Media:
        """The aerial tile centred on the frame's position; its path is empty if there is none."""
        return Media(self.tile_path, self.tile_offset, self.tile_length)


def _schema(**columns: pa.DataType) -> pa.Schema:
    optional = {"season", "weather", "daytime", "heading_deg", "speed_m_s"}
    return pa.schema([pa.field(name, kind, nullable=name in optional) for name, kind in columns.items()])


_MEDIA = {"path": pa.string(), "offset": pa.int64(), "length": pa.int64()}

SCHEMAS: dict[str, pa.Schema] = {
    "regions": _schema(
        region_id=pa.string(), split=pa.string(), area=pa.string(), zoom=pa.int16(), x=pa.int32(), y=pa.int32(),
        n=pa.int16(), lat_deg=pa.float64(), lon_deg=pa.float64(),
        **{f"image_{name}": kind for name, kind in _MEDIA.items()},
    ),
    "videos": _schema(
        video_id=pa.string(), split=pa.string(), role=pa.string(), area=pa.string(), ride_id=pa.string(),
        region_id=pa.string(), start_time=pa.timestamp("ms", tz="UTC"), duration_s=pa.float64(),
        frames=pa.int32(), keyframes=pa.int32(), season=pa.string(), weather=pa.string(), daytime=pa.string(),
    ),
    "frames": _schema(
        video_id=pa.string(), index=pa.int32(), time_s=pa.float64(), lat_deg=pa.float64(), lon_deg=pa.float64(),
        heading_deg=pa.float32(), speed_m_s=pa.float32(), keyframe=pa.int16(),
        **{f"image_{name}": kind for name, kind in _MEDIA.items()},
        **{f"tile_{name}": kind for name, kind in _MEDIA.items()},
    ),
}  # fmt: skip

Row = RegionRow | VideoRow | FrameRow
ROWS: dict[str, type[Any]] = {"regions": RegionRow, "videos": VideoRow, "frames": FrameRow}


def to_table(name: str, rows: Sequence[Row]) -> pa.Table:
    """Rows as a typed table."""
    columns = [field.name for field in fields(ROWS[name])]
    return pa.table({column: [getattr(row, column) for row in rows] for column in columns}, schema=SCHEMAS[name])


def write_table(path: Path, table: pa.Table) -> None:
    """Write a Parquet file atomically."""
    with atomic_path(path) as target:
        pq.write_table(table, target, compression="zstd")
