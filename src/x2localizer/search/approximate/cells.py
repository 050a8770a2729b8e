"""Cells: the squares of ground that tiles vote for. A region is made of a few of them.

A cell is as large as the distance between neighbouring regions, so that regions begin where cells do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from x2localizer.gallery.grid import BLOCK, HALVES
from x2localizer.gallery.regions import RegionTable
from x2localizer.search.approximate.kernels import Int32, UInt32
from x2localizer.types import Ints

SHIFT = 32
"""Bits of a cell's column in its id."""


@dataclass(frozen=True, slots=True)
class CellGrid:
    """zoom and n: of the tiles and of a region's side; stride: tiles between neighbouring regions."""

    zoom: int
    n: int
    stride: int

    @property
    def per_side(self) -> int:
        """Cells along the side of a region, as nearly as whole cells allow."""
        return max(1, round((2 * self.n - 1) / (2 * self.stride)))

    def of_blocks(self, ids: Ints) -> Ints:
        """The cell of each tile at half stride of some blocks, (blocks, 256)."""
        half = np.arange(HALVES)
        x, y = ids & ((1 << self.zoom) - 1), ids >> self.zoom
        columns = (2 * x[:, None] + half) // (2 * self.stride)
        rows = (2 * y[:, None] + half) // (2 * self.stride)
        cells = (rows[:, :, None] << SHIFT) + columns[:, None, :]
        return np.asarray(cells.reshape(len(ids), HALVES * HALVES), np.int64)

    def of_regions(self, table: RegionTable, cells: Ints) -> Int32:
        """Which of some sorted cells each region is made of, (r, q); -1 where there is no such cell."""
        across = -(-(1 << self.zoom) // self.stride)  # past the antimeridian the grid begins again
        out = np.empty((len(table), self.per_side**2), np.int32)
        for number in range(self.per_side**2):
            down, right = divmod(number, self.per_side)
            wanted = ((table.y // self.stride + down) << SHIFT) + (table.x // self.stride + right) % across
            out[:, number] = find(wanted, cells)
        return out


def find(wanted: Ints, ids: Ints) -> Int32:
    """Where ids are in a sorted list of them; -1 where they are not."""
    if not len(ids):
        return np.full(wanted.shape, -1, np.int32)
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[at] == wanted, at, -1).astype(np.int32)


def as_numbers(cells_of_tiles: Ints, cells: Ints) -> UInt32:
    """Cells of tiles as numbers in the sorted list of all cells; all must be there."""
    return np.searchsorted(cells, cells_of_tiles).astype(np.uint32)


def blocks_around(x: Ints, y: Ints, n: int, zoom: int) -> Ints:
    """Ids of the blocks that regions reach into, (r, b, b), and more where a region needs fewer."""
    span = (n - 1) // BLOCK + 2
    world = 1 << zoom
    columns = (x[:, None] // BLOCK + np.arange(span)) * BLOCK % world
    rows = (y[:, None] // BLOCK + np.arange(span)) * BLOCK
    return np.asarray((rows[:, :, None] << zoom) + columns[:, None, :], np.int64)
