"""The ground of a map as rectangular patches of the tile grid, far from each other or touching.

Places are tile coordinates: columns from the antimeridian eastward and rows from the north, at the gallery's zoom, with
fractions. Each patch is a rectangle of them; everything that is known of the ground lies in flat arrays, patch after
patch, row after row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from x2localizer import geo
from x2localizer.localize.track.kernels import HALVES
from x2localizer.types import Floats, Ints, Position

Corners = npt.NDArray[np.int64]
"""(p, 4): first column and row of each patch, and how many columns and rows it has, in tiles."""
MARGIN = 1
"""Tiles around what a patch holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Patches:
    """Rectangles of the tile grid.

    corners: (p, 4), see :data:`Corners`.
    zoom: of the grid.
    """

    corners: Corners
    zoom: int

    def __len__(self) -> int:
        return len(self.corners)

    @property
    def world(self) -> float:
        """Tiles around the globe."""
        return float(1 << self.zoom)

    def offsets(self, per_tile: int) -> npt.NDArray[np.int64]:
        """Where each patch begins in a flat array with ``per_tile`` cells along the side of a tile, (p + 1,)."""
        cells = self.corners[:, 2] * self.corners[:, 3] * per_tile**2
        return np.concatenate([[0], np.cumsum(cells)])

    def tile_m(self, rows: Floats) -> Floats:
        """Metres along the side of a tile at some rows."""
        return np.asarray(METRES_AROUND / self.world / np.cosh(np.pi * (1.0 - 2.0 * rows / self.world)))

    def tile_coordinates(self, lats_deg: Floats, lons_deg: Floats) -> tuple[Floats, Floats]:
        """Columns and rows of positions."""
        return geo.tile_coordinates(lats_deg, lons_deg, self.zoom)

    def position(self, x: float, y: float) -> Position:
        """The position of tile coordinates."""
        lat, lon = geo.from_tile_coordinates(x, y, self.zoom)
        return Position(float(lat), float(geo.wrap_longitude(lon)))

    def holding(self, x: Floats, y: Floats) -> npt.NDArray[np.int32]:
        """The patch that holds each place, (n,); -1 for those that none holds."""
        found = np.full(len(x), -1, np.int32)
        for number, (x0, y0, columns, rows) in enumerate(self.corners):
            east = (x - x0) % self.world
            found[(east < columns) & (y >= y0) & (y < y0 + rows)] = number
        return found


METRES_AROUND = 2 * geo.WEB_MERCATOR_HALF_M
CANDIDATES = 32
"""The best place is looked for among so many half tiles."""


def best_cell(cells: Floats, offsets: Ints, corners: Ints) -> tuple[int, int, int]:
    """Patch, row and column of the half tile that holds the most weight together with the eight around it.

    Only those that hold the most by themselves are compared.

    cells: weights of the half tiles of all patches, one patch after the other.
    offsets: where each patch begins among them.
    corners: of the patches, as in :class:`Patches`.
    """
    few = min(CANDIDATES, len(cells))
    found, most = (0, 0, 0), -1.0
    for cell in np.argpartition(cells, len(cells) - few)[-few:]:
        patch = int(np.searchsorted(offsets, cell, "right")) - 1
        columns, rows = (int(value) * HALVES for value in corners[patch][2:])
        first = int(offsets[patch])
        row, column = divmod(int(cell) - first, columns)
        grid = cells[first : first + rows * columns].reshape(rows, columns)
        around = float(grid[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2].sum())
        if around > most:
            found, most = (patch, row, column), around
    return found


def patches_around(tiles: Iterable[tuple[int, int]], zoom: int, block: int = 8) -> Patches:
    """Patches that hold some tiles, given as columns and rows: one for each group of neighbouring blocks."""
    world = (1 << zoom) // block
    blocks = {(x // block, y // block) for x, y in tiles}
    corners = []
    while blocks:
        group, edge = set(), [blocks.pop()]
        while edge:
            x, y = edge.pop()
            group.add((x, y))
            near = {((x + dx) % world, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)} & blocks
            blocks -= near
            edge += near
        corners.append(_rectangle(sorted(group), world, block))
    return Patches(np.array(sorted(corners), np.int64).reshape(-1, 4), zoom)


def _rectangle(group: Sequence[tuple[int, int]], world: int, block: int) -> tuple[int, int, int, int]:
    """The smallest rectangle of blocks that holds a group, also across the antimeridian, with a margin, in tiles."""
    columns = sorted({x for x, _ in group})
    gaps = [(columns[(i + 1) % len(columns)] - x) % world or world for i, x in enumerate(columns)]
    widest = int(np.argmax(gaps))
    first = columns[(widest + 1) % len(columns)]
    width = world - gaps[widest] + 1
    top, bottom = min(y for _, y in group), max(y for _, y in group)
    return (
        (first * block - MARGIN) % (world * block), top * block - MARGIN,
        width * block + 2 * MARGIN, (bottom - top + 1) * block + 2 * MARGIN,
    )  # fmt: skip
