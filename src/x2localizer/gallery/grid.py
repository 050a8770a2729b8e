"""Which regions and which tiles are indexed over a piece of imagery.

Regions lie on a grid that is the same for all imagery: north-west tiles at multiples of the stride. So a second piece
of imagery beside the first continues its grid. Tiles are kept at full and at half stride, and in blocks of 8 x 8
tiles: what is read, encoded and stored at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # reading imagery is heavy
    from x2localizer.sources.imagery import Imagery

BLOCK = 8
"""Tiles along the side of a block."""
HALVES = 2 * BLOCK
"""Tiles along the side of a block at half stride: each starts half a tile after the one before."""
MIN_COVERAGE = 0.5
"""A tile, or a region, of which less holds data is not indexed."""


@dataclass(frozen=True, slots=True)
class TileSpan:
    """The tiles that imagery touches: a rectangle of the map whose columns may run past the antimeridian."""

    z: int
    west: int
    north: int
    columns: int
    rows: int

    @property
    def tiles(self) -> int:
        """How many tiles there are at half stride."""
        return 4 * self.columns * self.rows


def tile_span(imagery: Imagery, z: int) -> TileSpan | None:
    """The tiles of which the imagery's bounds cover at least half; None if there are none."""
    west, north, east, south = imagery.edges(z)
    # A tile at an edge counts if at least half of it is covered; none is lost where two edges meet in a corner.
    first, last = math.ceil(west - MIN_COVERAGE), math.floor(east + MIN_COVERAGE)
    top, bottom = max(0, math.ceil(north - MIN_COVERAGE)), min(1 << z, math.floor(south + MIN_COVERAGE))
    columns, rows = min(last - first, 1 << z), bottom - top
    covers = columns > 0 and rows > 0 and min(east - west, south - north) >= MIN_COVERAGE
    return TileSpan(z, first % (1 << z), top, columns, rows) if covers else None


def block_corners(span: TileSpan) -> list[tuple[int, int]]:
    """The north-west tiles of the blocks that hold these tiles, row by row."""
    world = 1 << span.z
    x0, y0 = span.west // BLOCK * BLOCK, span.north // BLOCK * BLOCK
    return [
        (x % world, y)
        for y in range(y0, span.north + span.rows, BLOCK)
        for x in range(x0, span.west + span.columns, BLOCK)
    ]
