"""The regions of a gallery: which there are, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from x2localizer import geo
from x2localizer.gallery.grid import BLOCK, HALVES, MIN_COVERAGE
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


def regions_with_data(blocks: Mapping[tuple[int, int], Bools], zoom: int, n: int, stride: int) -> RegionTable:
    """The regions of the grid of which at least half of the tiles hold data.

    ``blocks`` says which tiles at half stride hold data, (16, 16), by north-west tile; every second one is a whole
    tile.
    """
    world = 1 << zoom
    corners = np.array(list(blocks), np.int64).reshape(-1, 2)
    held = np.stack(list(blocks.values())) if blocks else np.zeros((0, HALVES, HALVES), np.bool_)
    sums = np.zeros((len(held), BLOCK + 1, BLOCK + 1), np.int32)
    sums[:, 1:, 1:] = held[:, ::2, ::2].astype(np.int32).cumsum(1).cumsum(2)
    ids, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for down in range(1 - n, BLOCK):  # where a region begins, seen from the corner of a block that it reaches into
        y = corners[:, 1] + down
        on_grid_y = (y % stride == 0) & (y >= 0) & (y <= world - n)
        top, bottom = max(0, down), min(BLOCK, down + n)
        for right in range(1 - n, BLOCK):
            x = (corners[:, 0] + right) % world  # west of the antimeridian the grid is that of the other side
            own = np.flatnonzero(on_grid_y & (x % stride == 0))
            left, end = max(0, right), min(BLOCK, right + n)
            some = sums[own]
            ids.append((y[own] << zoom) + x[own])
            counts.append(some[:, bottom, end] - some[:, top, end] - some[:, bottom, left] + some[:, top, left])
    found, which = np.unique(np.concatenate(ids), return_inverse=True)
    enough = np.bincount(which, np.concatenate(counts), len(found)) >= MIN_COVERAGE * n * n
    return RegionTable(found[enough] & (world - 1), found[enough] >> zoom, zoom, n)
