"""Where a town is: its square of Web-Mercator tiles, and the conversion between map metres and degrees.

Map metres have the axes of pixels: x to the east, y to the south, from the town's north-west corner. One tile is
``tile_m`` metres at the latitude of the town's middle. Over two kilometres the scale of Web Mercator changes by 0.03%,
which the town ignores, so its imagery is an exact crop of the tile grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from x2localizer import geo
from x2localizer.town.columns import X, Y
from x2localizer.town.noise import stream
from x2localizer.types import Bools, Floats, Position, Region

ZOOM = 19
"""Zoom of the tiles, as in GAMa: about 58 m at 40 degrees north."""

Coordinate = float | npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Place:
    """The town's square of ``tiles`` x ``tiles`` tiles; (x, y) is its north-west tile."""

    x: int
    y: int
    tiles: int

    @property
    def tile_m(self) -> float:
        """Side of a tile in map metres."""
        middle, _ = geo.from_tile_coordinates(float(self.x), self.y + self.tiles / 2, ZOOM)
        return geo.tile_size_m(float(middle), ZOOM)

    @property
    def size_m(self) -> float:
        """Side of the town in map metres."""
        return self.tiles * self.tile_m

    def to_degrees(self, x_m: Floats, y_m: Floats) -> tuple[Floats, Floats]:
        """Latitude and longitude of map metres."""
        return geo.from_tile_coordinates(self.x + x_m / self.tile_m, self.y + y_m / self.tile_m, ZOOM)

    def to_metres(self, lat_deg: Floats, lon_deg: Floats) -> tuple[Floats, Floats]:
        """Map metres of positions."""
        x, y = geo.tile_coordinates(lat_deg, lon_deg, ZOOM)
        return (x - self.x) * self.tile_m, (y - self.y) * self.tile_m

    def corner_m(self, region: Region) -> tuple[float, float]:
        """Map metres of a region's north-west corner."""
        return (region.x - self.x) * self.tile_m, (region.y - self.y) * self.tile_m


@dataclass(frozen=True, slots=True)
class Bounds:
    """A rectangle in map metres."""

    west: float
    north: float
    east: float
    south: float

    def contains(self, x: Coordinate, y: Coordinate) -> Bools:
        """Whether places lie inside, the border excluded."""
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        return np.asarray((x > self.west) & (x < self.east) & (y > self.north) & (y < self.south))

    def encloses(self, points: Floats) -> bool:
        """Whether all points (k, 2) lie inside."""
        x = points[:, X]
        if x.min() <= self.west or x.max() >= self.east:
            return False
        y = points[:, Y]
        return bool(y.min() > self.north and y.max() < self.south)

    def overlaps(self, points: Floats) -> bool:
        """Whether the smallest bounds around points (k, 2) overlap these."""
        x, y = points.T
        return bool(x.min() <= self.east and y.min() <= self.south and x.max() >= self.west and y.max() >= self.north)


def bounds_around(points: Floats, margin_m: float) -> Bounds:
    """The smallest bounds that hold points (k, 2) and a margin around them."""
    (west, north), (east, south) = points.min(0) - margin_m, points.max(0) + margin_m
    return Bounds(float(west), float(north), float(east), float(south))


def place_for(seed: int, tiles: int) -> Place:
    """The place of a seed's town, in the North Atlantic between 40.2 and 41.2 degrees north."""
    rng = stream(seed, "place")
    at = Position(float(rng.uniform(40.2, 41.2)), float(rng.uniform(-45.0, -35.0)))
    tile = geo.tile_at(at, ZOOM)
    return Place(tile.x, tile.y, tiles)


def core_regions(place: Place, n: int = 7, margin: int = 1) -> list[Region]:
    """The regions of n x n tiles that fill the town without overlap, ``margin`` tiles inside its border."""
    count = (place.tiles - 2 * margin) // n
    return [
        Region(ZOOM, place.x + margin + column * n, place.y + margin + row * n, n)
        for row in range(count)
        for column in range(count)
    ]


def along_line(points: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Points (m, 2) and unit tangents (m, 2) at distances ``at`` (m,) along a polyline (k, 2)."""
    steps = np.diff(points, axis=0)
    lengths = np.hypot(*steps.T)
    ends = np.concatenate([[0.0], np.cumsum(lengths)])
    piece = np.clip(np.searchsorted(ends, at, side="right") - 1, 0, len(steps) - 1)
    tangent = steps[piece] / lengths[piece, None]
    return points[piece] + (at - ends[piece])[:, None] * tangent, tangent


def distance_to(line: Floats, points: Floats) -> Floats:
    """Distances in metres (m,) from points (m, 2) to a polyline (k, 2)."""
    start, step = line[:-1], np.diff(line, axis=0)
    length2 = np.maximum((step**2).sum(1), 1e-9)
    away = points[:, None, :] - start
    share = np.clip((away * step).sum(2) / length2, 0.0, 1.0)
    return np.asarray(np.sqrt(((away - share[..., None] * step) ** 2).sum(2).min(1)))
