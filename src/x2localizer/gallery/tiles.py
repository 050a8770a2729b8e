"""The tiles of regions, read from a gallery: what a frame is matched with.

Each region is a grid of tiles at half stride, (2 n - 1) x (2 n - 1). Blocks of tiles are read from the
gallery once and kept, the least recently used go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from x2localizer import geo
from x2localizer.gallery.grid import BLOCK
from x2localizer.gallery.store import BlockRow, Gallery
from x2localizer.types import Bools, Codes, Position, Region


@dataclass(frozen=True, slots=True, eq=False)
class TileGrid:
    """Tiles of some regions: codes (c, m, m, d) and which hold data (c, m, m), with m = 2 n - 1."""

    regions: tuple[Region, ...]
    codes: Codes
    valid: Bools

    def place(self, candidate: int, row: float, column: float) -> Position:
        """The middle of a tile of a candidate; rows and columns may lie between tiles."""
        region = self.regions[candidate]
        lat, lon = geo.from_tile_coordinates(region.x + column / 2 + 0.5, region.y + row / 2 + 0.5, region.z)
        return Position(float(lat), float(geo.wrap_longitude(lon)))


class TileReader:
    """Reads tile grids from a gallery."""

    def __init__(self, gallery: Gallery, keep_blocks: int = 256) -> None:
        self._gallery, self._keep = gallery, keep_blocks
        self._blocks: OrderedDict[tuple[int, int], BlockRow | None] = OrderedDict()

    def grid(self, regions: Sequence[Region]) -> TileGrid:
        """The tiles of some regions."""
        about = self._gallery.about
        m = 2 * about.n - 1
        self._load({corner for region in regions for corner in self._corners(region)})
        codes = np.zeros((len(regions), m, m, about.dim), np.float32)
        valid = np.zeros((len(regions), m, m), np.bool_)
        for i, region in enumerate(regions):
            for corner in self._corners(region):
                block = self._blocks.get(corner)
                if block is not None:
                    _paste(region, block, codes[i], valid[i])
        return TileGrid(tuple(regions), codes, valid)

    def _corners(self, region: Region) -> list[tuple[int, int]]:
        world = 1 << region.z
        xs = range(region.x // BLOCK * BLOCK, region.x + region.n, BLOCK)
        ys = range(region.y // BLOCK * BLOCK, region.y + region.n, BLOCK)
        return [(x % world, y) for y in ys for x in xs]

    def _load(self, corners: set[tuple[int, int]]) -> None:
        missing = sorted(corners - self._blocks.keys())
        found = {(row.x, row.y): row for row in self._gallery.blocks(missing)}
        for corner in missing:
            self._blocks[corner] = found.get(corner)
        for corner in corners:
            self._blocks.move_to_end(corner)
        while len(self._blocks) > max(self._keep, len(corners)):
            self._blocks.popitem(last=False)


def _paste(region: Region, block: BlockRow, codes: Codes, valid: Bools) -> None:
    """Put the part of a block that lies in a region into its grid."""
    world = 1 << region.z
    east = (block.x - region.x + world // 2) % world - world // 2  # tiles from the region's corner, round the globe
    left, top = 2 * east, 2 * (block.y - region.y)
    m, side = len(valid), len(block.valid)
    c0, c1 = max(0, left), min(m, left + side)
    r0, r1 = max(0, top), min(m, top + side)
    if c0 < c1 and r0 < r1:
        codes[r0:r1, c0:c1] = block.codes[r0 - top : r1 - top, c0 - left : c1 - left]
        valid[r0:r1, c0:c1] = block.valid[r0 - top : r1 - top, c0 - left : c1 - left]
