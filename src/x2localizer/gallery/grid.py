"""Which regions and which tiles are indexed over a piece of imagery.

Regions lie on a grid that is the same for all imagery: north-west tiles at multiples of the stride. So a second piece
of imagery beside the first continues its grid. Tiles are kept at full and at half stride, and in blocks of 8 x 8
tiles: what is read, encoded and stored at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from x2localizer.sources.imagery import Imagery
from x2localizer.types import Region

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


def tile_span(imagery: Imagery, z: int) -> TileSpan | None:
    """The tiles of which the imagery's bounds cover at least half; None if there are none."""
    first, columns, south = None, 0, 0
    for tile in imagery.tiles(z, min_coverage=MIN_COVERAGE):  # row by row from the north
        first = first or tile
        columns += tile.y == first.y
        south = tile.y
    return None if first is None else TileSpan(z, first.x, first.y, columns, south - first.y + 1)


def block_corners(span: TileSpan) -> list[tuple[int, int]]:
    """The north-west tiles of the blocks that hold these tiles, row by row."""
    world = 1 << span.z
    x0, y0 = span.west // BLOCK * BLOCK, span.north // BLOCK * BLOCK
    return [
        (x % world, y)
        for y in range(y0, span.north + span.rows, BLOCK)
        for x in range(x0, span.west + span.columns, BLOCK)
    ]


def grid_regions(span: TileSpan, n: int, stride: int) -> Iterator[Region]:
    """The regions of the grid of which the imagery's bounds cover at least half, row by row."""
    world = 1 << span.z
    first_x, first_y = -(-(span.west - n) // stride) * stride, -(-(span.north - n) // stride) * stride
    for y in range(max(0, first_y), min(span.north + span.rows, world - n + 1), stride):
        down = min(y + n, span.north + span.rows) - max(y, span.north)
        for x in range(first_x, span.west + span.columns, stride):
            across = min(x + n, span.west + span.columns) - max(x, span.west)
            if min(down, across) > 0 and down * across >= MIN_COVERAGE * n * n:
                yield Region(span.z, x % world, y, n)
