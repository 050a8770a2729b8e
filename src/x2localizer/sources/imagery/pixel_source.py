"""The interface of imagery readers: the extent of the imagery, and the pixels of a box of the map."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from x2localizer import geo
from x2localizer.errors import ImageryError
from x2localizer.types import Floats, Image, Mask, TileId

FINEST_ZOOM = 24
"""Tiles of 2 m; no imagery is finer."""
VALID_FROM_ALPHA = 128
"""A pixel counts as data if its alpha (0 to 255) is at least this."""

_WHOLE_TURN = 330 / 360
"""Imagery that covers more of a turn of the globe than this is taken to cover all of it."""
_SNAP_TILES = 1e-6
"""Edges closer than this to the border of a tile are taken to lie on it; the difference is rounding."""


@dataclass(frozen=True, slots=True)
class ImageryInfo:
    """Facts about imagery.

    ``bounds`` are (west, south, east, north) in degrees, clipped to Web Mercator; west is in [-180, 180), and east is
    greater than 180 if the imagery crosses the antimeridian. ``metres_per_pixel`` is measured on the ground at the
    centre. ``zoom`` is the level whose tiles of 256 pixels are closest to the resolution of the imagery.
    """

    kind: str
    crs: str
    bounds: tuple[float, float, float, float]
    metres_per_pixel: float
    bands: int
    zoom: int


@dataclass(frozen=True, slots=True)
class Box:
    """A square of the map: its north-west corner and its side, in tiles of zoom ``z``.

    It may lie anywhere: x continues past the antimeridian, y past the north and the south of the map.
    """

    z: int
    x: float
    y: float
    across: float = 1.0


@dataclass(frozen=True, slots=True)
class Extent:
    """Edges of imagery on the Web-Mercator world, as shares of its side.

    x is counted from the antimeridian eastward, y from the north. ``west`` is in [0, 1); ``east`` is at most one turn
    further, so it exceeds 1 if the imagery crosses the antimeridian.
    """

    west: float
    north: float
    east: float
    south: float

    def degrees(self) -> tuple[float, float, float, float]:
        """(west, south, east, north) in degrees."""
        (south, north), _ = geo.from_tile_coordinates(0.0, np.array([self.south, self.north]), 0)
        return self.west * 360.0 - 180.0, float(south), self.east * 360.0 - 180.0, float(north)

    def centre_latitude(self) -> float:
        """The latitude of the centre, in degrees."""
        return float(geo.from_tile_coordinates(0.0, (self.north + self.south) / 2, 0)[0])

    def edges(self, z: int) -> tuple[float, float, float, float]:
        """West, north, east and south in tiles of zoom ``z``; an edge very near the border of a tile lies on it."""
        world = 1 << z
        west, north, east, south = (_snap(edge * world) for edge in (self.west, self.north, self.east, self.south))
        return west, north, east, south

    def tiles(self, z: int, min_coverage: float) -> Iterator[TileId]:
        """Tiles of which at least a share lies in the extent, row by row."""
        world = 1 << z
        west, north, east, south = self.edges(z)
        # A tile may be met from both sides when the imagery goes nearly round the globe: count every turn.
        columns = [
            (x, sum(max(0.0, min(east - turn, x + 1) - max(west - turn, x)) for turn in (-world, 0, world)))
            for x in range(math.floor(west), math.ceil(east))[:world]
        ]
        for y in range(max(math.floor(north), 0), min(math.ceil(south), world)):
            down = min(south, y + 1) - max(north, y)
            for x, across in columns:
                share = min(across, 1.0) * down
                if share > 0 and share >= min_coverage - _SNAP_TILES:
                    yield TileId(z, x % world, y)


class PixelSource(Protocol):
    """A reader of one imagery format."""

    @property
    def info(self) -> ImageryInfo:
        """Format, resolution and bounds of the imagery."""

    @property
    def damaged(self) -> int:
        """Number of stored tiles, or reads of a file, that could not be decoded so far."""

    def extent(self, z: int) -> Extent:
        """The extent of the data that tiles of a zoom level are made of."""

    def read(self, box: Box, size: int) -> tuple[Image, Mask]:
        """The pixels of a box, shape (size, size, 3), and a mask of those that hold data, shape (size, size)."""

    def pixels_behind(self, box: Box, size: int) -> float:
        """About how many stored pixels :meth:`read` decodes; infinite if it would refuse.

        Where many bands are stored together, or numbers of more than a byte, a pixel counts as several.
        """

    def close(self) -> None:
        """Close open files."""


def check_zoom(z: int) -> None:
    """Refuse a zoom of which there are no tiles."""
    if not 0 <= z <= FINEST_ZOOM:
        raise ImageryError(f"There are no tiles of zoom {z}.", f"Give a zoom from 0 to {FINEST_ZOOM}, such as 19.")


def shares_of(lat_deg: Floats, lon_deg: Floats) -> tuple[Floats, Floats]:
    """Positions as shares of the Web-Mercator world, (x, y); latitudes beyond it are clipped."""
    lat = np.clip(lat_deg, -geo.MAX_LATITUDE_DEG, geo.MAX_LATITUDE_DEG)
    return geo.tile_coordinates(lat, lon_deg, 0)


def around_the_globe(x: Floats) -> tuple[float, float]:
    """The shortest stretch (west, east) of a turn of the globe that contains all x: the one beside the widest gap."""
    ring = np.sort(x % 1.0)
    gaps = np.diff(ring, append=ring[0] + 1.0)
    widest = int(np.argmax(gaps))
    length = 1.0 - float(gaps[widest])
    if length > _WHOLE_TURN:
        return 0.0, 1.0
    west = float(ring[(widest + 1) % ring.size])
    return west, west + length


def blank(size: int) -> tuple[Image, Mask]:
    """A picture without data: black pixels, none of them valid."""
    return np.zeros((size, size, 3), np.uint8), np.zeros((size, size), np.bool_)


def natural_zoom(lat_deg: float, metres_per_pixel: float) -> int:
    """The zoom level whose tiles of 256 pixels are closest to a resolution on the ground."""
    finest_deg = min(abs(lat_deg), geo.MAX_LATITUDE_DEG)
    return max(0, round(math.log2(geo.tile_size_m(finest_deg, 0) / 256 / metres_per_pixel)))


def _snap(edge: float) -> float:
    nearest = round(edge)
    return float(nearest) if abs(edge - nearest) < _SNAP_TILES else edge
