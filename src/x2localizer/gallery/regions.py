"""The regions of a gallery: which there are, and where."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from x2localizer import geo
from x2localizer.gallery.grid import BLOCK, MIN_COVERAGE
from x2localizer.types import Bools, Floats, Ints, Position, Region


@dataclass(frozen=True, slots=True, eq=False)
class RegionTable:
    """All regions as columns, in order of id.

    x, y: north-west tiles, (r,).
    zoom, n: level of the tiles, and how many a region has along its side.
    """

    x: Ints
    y: Ints
    zoom: int
    n: int

    def __len__(self) -> int:
        return len(self.x)

    @property
    def ids(self) -> Ints:
        """A number for each region that only its place decides, (r,)."""
        ids: Ints = (self.y << self.zoom) + self.x
        return ids

    def region(self, row: int) -> Region:
        """A region by its row."""
        return Region(self.zoom, int(self.x[row]), int(self.y[row]), self.n)

    def centres(self) -> tuple[Floats, Floats]:
        """Latitudes and longitudes of the middles of all regions."""
        half = self.n / 2
        x, y = np.asarray(self.x + half, np.float64), np.asarray(self.y + half, np.float64)
        lat, lon = geo.from_tile_coordinates(x, y, self.zoom)
        return lat, geo.wrap_longitude(lon)

    def nearest(self, place: Position, allowed: Bools | None = None) -> int | None:
        """The row of the region around a place: of all that hold it, the one whose middle is nearest."""
        x, y = geo.tile_coordinates(place.lat_deg, place.lon_deg, self.zoom)
        world = 1 << self.zoom
        half = self.n / 2
        east = np.abs((self.x + half - float(x) + world / 2) % world - world / 2)
        away = np.maximum(east, np.abs(self.y + half - float(y)))
        if allowed is not None:
            away = np.where(allowed, away, np.inf)
        row = int(away.argmin())
        return row if away[row] <= half else None


def regions_with_data(blocks: dict[tuple[int, int], Bools], zoom: int, n: int, stride: int) -> RegionTable:
    """The regions of the grid of which at least half of the tiles hold data.

    ``blocks`` says which tiles at half stride hold data, (16, 16), by north-west tile; every second one is a whole
    tile.
    """
    world = 1 << zoom
    counts: Counter[tuple[int, int]] = Counter()
    for (x, y), mask in blocks.items():
        rows, columns = np.nonzero(mask[::2, ::2])
        inside_x = {c: (columns + x >= c) & (columns + x < c + n) for c in _corners(x, n, stride, world)}
        for corner_y in _corners(y, n, stride, world):
            inside_y = (rows + y >= corner_y) & (rows + y < corner_y + n)
            if 0 <= corner_y <= world - n:
                for corner_x, inside in inside_x.items():
                    counts[corner_y, corner_x % world] += int((inside & inside_y).sum())
    corners = sorted(corner for corner, count in counts.items() if count >= MIN_COVERAGE * n * n)
    ys, xs = np.array(corners, np.int64).reshape(-1, 2).T
    return RegionTable(xs, ys, zoom, n)


def _corners(first: int, n: int, stride: int, world: int) -> list[int]:
    """Where regions begin, along one axis, that reach into a block from ``first`` on; multiples of the stride.

    West of the antimeridian they are negative: the grid is that of the other side.
    """
    return [corner for corner in range(first - n + 1, first + BLOCK) if corner % world % stride == 0]
