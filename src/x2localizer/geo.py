"""WGS84, Web-Mercator tiles, geodesic distance, local metres.

Web Mercator reaches from 85.0511 degrees south to 85.0511 degrees north. Beyond that there are no tiles, and asking
for one raises ``ValueError``. Longitudes wrap: 180 and -180 are the same meridian. Functions of coordinates take floats
or arrays, and are exact to double precision (about 1e-8 degrees, 1 mm).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

import numpy as np
import numpy.typing as npt
from pyproj import Geod

from x2localizer.types import Floats, Position, Region, TileId

WEB_MERCATOR_RADIUS_M = 6378137.0
WEB_MERCATOR_HALF_M = np.pi * WEB_MERCATOR_RADIUS_M
"""Web Mercator x and y run from -HALF to +HALF."""
MAX_LATITUDE_DEG = 85.0511287798066
RIGHT_WITHIN_M = 80.467
"""A frame is localized correctly within 0.05 mile of the truth."""

_GEOD = Geod(ellps="WGS84")

Coordinate = float | npt.NDArray[np.float64]


def wrap_longitude(lon_deg: Coordinate) -> Floats:
    """The same meridian in [-180, 180)."""
    turned = (np.asarray(lon_deg, np.float64) + 180.0) % 360.0
    wrapped: Floats = np.where(turned < 360.0, turned, 0.0) - 180.0  # slightly below 0 rounds to a full turn
    return wrapped


def tile_coordinates(lat_deg: Coordinate, lon_deg: Coordinate, z: int) -> tuple[Floats, Floats]:
    """Fractional tile column and row: the integer part is the tile, the fraction the place inside it."""
    lat = np.asarray(lat_deg, np.float64)
    if np.any(~(np.abs(lat) <= MAX_LATITUDE_DEG)):
        raise ValueError(f"latitude is beyond Web Mercator's {MAX_LATITUDE_DEG:.4f} degrees, or not a number")
    if not np.all(np.isfinite(lon_deg)):
        raise ValueError("longitude is not a number")
    world = float(1 << z)
    x = (wrap_longitude(lon_deg) + 180.0) / 360.0 * world
    y = (1.0 - np.arcsinh(np.tan(np.radians(lat))) / np.pi) / 2.0 * world
    return x, np.clip(y, 0.0, np.nextafter(world, 0.0))


def from_tile_coordinates(x: Coordinate, y: Coordinate, z: int) -> tuple[Floats, Floats]:
    """Latitude and longitude of fractional tile coordinates; the inverse of :func:`tile_coordinates`."""
    world = float(1 << z)
    lon = wrap_longitude(np.asarray(x, np.float64) / world * 360.0 - 180.0)
    lat: Floats = np.degrees(np.arctan(np.sinh(np.pi * (1.0 - 2.0 * np.asarray(y, np.float64) / world))))
    return lat, lon


def tile_at(position: Position, z: int) -> TileId:
    """The tile that contains a position."""
    x, y = tile_coordinates(position.lat_deg, position.lon_deg, z)
    return TileId(z, int(x) % (1 << z), int(y))


def tile_centre(tile: TileId) -> Position:
    """The position at the middle of a tile."""
    lat, lon = from_tile_coordinates(tile.x + 0.5, tile.y + 0.5, tile.z)
    return Position(float(lat), float(lon))


def tile_size_m(lat_deg: float, z: int) -> float:
    """Side of a tile on the ground in metres, on Web Mercator's sphere (within 0.7% of the ellipsoid)."""
    return float(2 * WEB_MERCATOR_HALF_M / (1 << z) * np.cos(np.radians(lat_deg)))


def mercator_bounds(
    x: float, y: float, z: int, across: float = 1.0, down: float = 1.0
) -> tuple[float, float, float, float]:
    """(west, south, east, north) in Web-Mercator metres of a box of ``across`` x ``down`` tiles.

    (x, y) is its north-west corner in tiles. East of the antimeridian, ``east`` exceeds ``WEB_MERCATOR_HALF_M``.
    """
    side = 2 * WEB_MERCATOR_HALF_M / (1 << z)
    west = x * side - WEB_MERCATOR_HALF_M
    north = WEB_MERCATOR_HALF_M - y * side
    return west, north - down * side, west + across * side, north


def _columns_east_of(x: Coordinate, region: Region) -> Floats:
    """Tile columns east of the region's west edge, wrapping around the world."""
    columns: Floats = (np.asarray(x, np.float64) - region.x) % float(1 << region.z)
    return columns


def region_contains(
    region: Region, lat_deg: Coordinate, lon_deg: Coordinate, margin_tiles: float = 0.0
) -> npt.NDArray[np.bool_]:
    """Whether positions lie in a region, at least ``margin_tiles`` from its border."""
    x, y = tile_coordinates(lat_deg, lon_deg, region.z)
    column, row = _columns_east_of(x, region), y - region.y
    low, high = margin_tiles, region.n - margin_tiles
    inside: npt.NDArray[np.bool_] = (column >= low) & (column < high) & (row >= low) & (row < high)
    return inside


def region_centre(region: Region) -> Position:
    """The position at the middle of a region."""
    lat, lon = from_tile_coordinates(region.x + region.n / 2, region.y + region.n / 2, region.z)
    return Position(float(lat), float(lon))


def region_around(position: Position, z: int, n: int = 7) -> Region:
    """The region of n x n tiles centred as near to a position as whole tiles allow.

    At the northern and southern edge of the map the region is shifted so that it stays on the map.
    """
    x, y = tile_coordinates(position.lat_deg, position.lon_deg, z)
    world = 1 << z
    if n > world:
        raise ValueError(f"a region of {n} x {n} tiles is larger than the world at zoom {z}")
    # Halves round up, so that a region of one tile contains a position on the edge between two tiles.
    row = min(max(floor(float(y) - (n - 1) / 2), 0), world - n)
    return Region(z, floor(float(x) - (n - 1) / 2) % world, row, n)


def region_overlap(a: Region, b: Region) -> float:
    """The share of region ``a`` that region ``b`` covers, 0 to 1. Both must have the same zoom."""
    if a.z != b.z:
        raise ValueError("regions of different zoom cannot be compared")
    world = 1 << a.z
    east = (b.x - a.x) % world
    across = max(0, min(a.n, east + b.n) - east) + max(0, min(a.n, east - world + b.n))
    down = max(0, min(a.y + a.n, b.y + b.n) - max(a.y, b.y))
    return min(across, a.n) * down / (a.n * a.n)


def distance_m(lat_a_deg: Coordinate, lon_a_deg: Coordinate, lat_b_deg: Coordinate, lon_b_deg: Coordinate) -> Floats:
    """Geodesic distance on the WGS84 ellipsoid, in metres."""
    a, b, c, d = np.broadcast_arrays(lon_a_deg, lat_a_deg, lon_b_deg, lat_b_deg)
    return np.asarray(_GEOD.inv(a, b, c, d)[2], np.float64)


@dataclass(frozen=True, slots=True)
class LocalMetres:
    """Metres east and north of an origin (azimuthal equidistant projection).

    Distances and bearings from the origin are exact everywhere on the globe. Between two other points within 10 km of
    it they are accurate to 1 in 1,000,000.
    """

    origin: Position

    def to_metres(self, lat_deg: Coordinate, lon_deg: Coordinate) -> tuple[Floats, Floats]:
        """Metres east and north of positions."""
        lon0, lat0, lon, lat = np.broadcast_arrays(
            self.origin.lon_deg, self.origin.lat_deg, np.asarray(lon_deg), np.asarray(lat_deg)
        )
        azimuth, _, distance = _GEOD.inv(lon0, lat0, lon, lat)
        angle = np.radians(np.asarray(azimuth, np.float64))
        length = np.asarray(distance, np.float64)
        return length * np.sin(angle), length * np.cos(angle)

    def to_degrees(self, east_m: Coordinate, north_m: Coordinate) -> tuple[Floats, Floats]:
        """Latitude and longitude of points given in metres east and north."""
        east, north = np.broadcast_arrays(np.asarray(east_m, np.float64), np.asarray(north_m, np.float64))
        azimuth = np.degrees(np.arctan2(east, north))
        lon0 = np.full(east.shape, self.origin.lon_deg)
        lat0 = np.full(east.shape, self.origin.lat_deg)
        lon, lat, _ = _GEOD.fwd(lon0, lat0, azimuth, np.hypot(east, north))
        return np.asarray(lat, np.float64), wrap_longitude(np.asarray(lon, np.float64))
