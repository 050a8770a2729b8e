"""The tiles of a gallery: of candidate regions, what a frame is matched with; and all of them, what a search compares.

Each region is a grid of tiles at half stride, (2 n - 1) x (2 n - 1), and a view into the tiles of the gallery: regions
overlap, and their tiles are kept once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from x2localizer import geo
from x2localizer.gallery.blocks import Corner, TileBlock
from x2localizer.gallery.grid import BLOCK, HALVES
from x2localizer.gallery.regions import RegionTable
from x2localizer.gallery.store import Gallery
from x2localizer.types import Bools, Codes, Position, Region

TILES_PER_BLOCK = HALVES * HALVES


@dataclass(frozen=True, slots=True, eq=False)
class TileGrid:
    """Tiles of some regions: codes (c, m, m, headings, d) and which hold data (c, m, m), with m = 2 n - 1."""

    regions: tuple[Region, ...]
    codes: Codes
    valid: Bools

    def place(self, candidate: int, row: float, column: float) -> Position:
        """The middle of a tile of a candidate; rows and columns may lie between tiles."""
        region = self.regions[candidate]
        lat, lon = geo.from_tile_coordinates(region.x + column / 2 + 0.5, region.y + row / 2 + 0.5, region.z)
        return Position(float(lat), float(geo.wrap_longitude(lon)))


class TileReader:
    """Reads tile grids from a gallery; blocks are read once and kept, the least recently used go first."""

    def __init__(self, gallery: Gallery, keep_blocks: int = 256) -> None:
        self._gallery, self._keep = gallery, keep_blocks
        self._blocks: OrderedDict[Corner, TileBlock | None] = OrderedDict()

    def grid(self, regions: Sequence[Region]) -> TileGrid:
        """The tiles of some regions."""
        manifest = self._gallery.manifest
        m = 2 * manifest.region_tiles - 1
        self._load({corner for region in regions for corner in block_corners_of(region)})
        codes = np.zeros((len(regions), m, m, manifest.headings, manifest.dim), np.float32)
        valid = np.zeros((len(regions), m, m), np.bool_)
        for i, region in enumerate(regions):
            for corner in block_corners_of(region):
                block = self._blocks.get(corner)
                if block is not None:
                    _paste(region, block, codes[i], valid[i])
        return TileGrid(tuple(regions), codes, valid)

    def _load(self, corners: set[Corner]) -> None:
        missing = sorted(corners - self._blocks.keys())
        blocks = {(block.x, block.y): block for block in self._gallery.tile_blocks(missing)}
        for corner in missing:
            self._blocks[corner] = blocks.get(corner)
        for corner in corners:
            self._blocks.move_to_end(corner)
        while len(self._blocks) > max(self._keep, len(corners)):
            self._blocks.popitem(last=False)


def block_corners_of(region: Region) -> list[Corner]:
    """The north-west tiles of the blocks that a region reaches into."""
    world = 1 << region.z
    xs = range(region.x // BLOCK * BLOCK, region.x + region.n, BLOCK)
    ys = range(region.y // BLOCK * BLOCK, region.y + region.n, BLOCK)
    return [(x % world, y) for y in ys for x in xs]


def region_views(table: RegionTable, block_of: dict[Corner, int]) -> npt.NDArray[np.int32]:
    """Where the tiles of each region are among the tiles of all blocks, 256 for each block: (r, (2 n - 1)^2).

    ``block_of`` numbers the blocks by their north-west tile. A tile whose block is not there is -1.
    """
    m = 2 * table.n - 1
    world = 1 << table.zoom
    views = np.full((len(table), m, m), -1, np.int32)
    half = np.arange(m)
    for row in range(len(table)):
        xs, ys = 2 * int(table.x[row]) + half, 2 * int(table.y[row]) + half  # in half tiles; past the antimeridian too
        columns, rows = xs // 2 % world * 2 + xs % 2, ys
        for by in np.unique(rows // HALVES):
            in_y = rows // HALVES == by
            for bx in np.unique(columns // HALVES):
                number = block_of.get((int(bx) * BLOCK, int(by) * BLOCK))
                if number is not None:
                    in_x = columns // HALVES == bx
                    inside = (rows[in_y] % HALVES * HALVES)[:, None] + columns[in_x] % HALVES
                    views[row][np.ix_(in_y, in_x)] = number * TILES_PER_BLOCK + inside
    return views.reshape(len(table), m * m)


def _paste(region: Region, block: TileBlock, codes: Codes, valid: Bools) -> None:
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
