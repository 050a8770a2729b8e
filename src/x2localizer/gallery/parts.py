"""Parts of an index: what is read and encoded at once, on this machine or on another.

A part depends on the imagery and the encoder alone, not on the gallery, and its codes are the same wherever it is
encoded. So a part whose machine dies is simply encoded again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image as Pillow

from x2localizer import geo
from x2localizer.datasets.tiles import cut_tiles
from x2localizer.encoders import Encoder
from x2localizer.encoders.protocol import EncoderSpec
from x2localizer.gallery.blocks import PICTURE_PX, Corner, TileBlock
from x2localizer.gallery.grid import BLOCK, HALVES, MIN_COVERAGE
from x2localizer.sources.imagery import Imagery
from x2localizer.types import Bools, Codes, Image, Images, Mask, Position, Region

SIDES = (4, 2, 1)
"""Blocks along the side of a part of tiles; the largest counts that the imagery can be read in. Where cameras look
ahead, tiles around the edge of a part are encoded for its neighbours too: 6% more at 4 blocks, 27% at 1."""
REGIONS_AT_ONCE = 16
"""Regions of a part."""


@dataclass(frozen=True, slots=True)
class TilePart:
    """Blocks of tiles that lie in one square.

    x, y: the north-west tile of the square.
    side: blocks along its side.
    corners: the north-west tiles of the blocks that are to be encoded.
    """

    x: int
    y: int
    side: int
    corners: tuple[Corner, ...]


@dataclass(frozen=True, slots=True)
class RegionPart:
    """Regions to be encoded as sets; each counts only if at least ``least`` of its tiles hold data."""

    regions: tuple[Region, ...]
    least: tuple[int, ...]


Part = TilePart | RegionPart


@dataclass(frozen=True, slots=True, eq=False)
class EncodedRegion:
    """Set codes of a region: of the whole (d,), of its tiles (n n, d), and which of them hold data (n n,)."""

    region: Region
    whole: Codes
    tokens: Codes
    valid: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """What came of a part.

    blocks: with a picture of each, (256, 256, 3); blocks without data are left out.
    regions: those that count.
    damaged: reads of the imagery with pixels that could not be decoded.
    """

    blocks: tuple[tuple[TileBlock, Image], ...] = ()
    regions: tuple[EncodedRegion, ...] = ()
    damaged: int = 0


def tile_parts(corners: Iterable[Corner], side: int) -> list[TilePart]:
    """Blocks by the square that they lie in, in the order of their first blocks."""
    tiles = side * BLOCK
    squares: dict[Corner, list[Corner]] = {}
    for x, y in corners:
        squares.setdefault((x // tiles * tiles, y // tiles * tiles), []).append((x, y))
    return [TilePart(x, y, side, tuple(blocks)) for (x, y), blocks in squares.items()]


def largest_side(imagery: Imagery, spec: EncoderSpec, zoom: int) -> int:
    """Blocks along the side of the largest part that the imagery can be read in."""
    west, south, east, north = imagery.info.bounds
    centre = Position((south + north) / 2, float(geo.wrap_longitude((west + east) / 2)))
    for side in SIDES:
        tiles = _tiles_across(side, spec)
        if math.isfinite(imagery.pixels_behind(centre, zoom, tiles * spec.tile_px, tiles)):
            return side
    return SIDES[-1]


class PartEncoder:
    """Encodes parts of one piece of imagery."""

    def __init__(self, imagery: Imagery, encoder: Encoder, zoom: int) -> None:
        self._imagery, self._encoder, self._zoom = imagery, encoder, zoom
        self._px = encoder.spec.tile_px

    def encode(self, part: Part) -> Encoded:
        """Read and encode a part."""
        before = self._imagery.damaged
        if isinstance(part, TilePart):
            blocks = tuple(self._blocks(part))
            return Encoded(blocks=blocks, damaged=self._imagery.damaged - before)
        regions = tuple(self._regions(part))
        return Encoded(regions=regions, damaged=self._imagery.damaged - before)

    def _blocks(self, part: TilePart) -> Iterator[tuple[TileBlock, Image]]:
        """Blocks that hold data, with their pictures."""
        spec = self._encoder.spec
        # As many tiles around the square as cameras look ahead, and one more to the south and east: tiles at half
        # stride reach into the next block.
        around = _around(spec)
        corner = ((part.x - around) % (1 << self._zoom), part.y - around)
        ground = self._imagery.region(Region(self._zoom, *corner, _tiles_across(part.side, spec)), self._px)
        holds = half_stride_valid(ground.valid, self._px)
        places = [((y - part.y) // BLOCK, (x - part.x) // BLOCK) for x, y in part.corners]
        wanted = np.zeros_like(holds)
        for row, column in places:
            own, reach = _halves(row, column, around), _halves(row, column, around, spec.reach)
            if holds[own].any():
                wanted[reach] = holds[reach]
        if not wanted.any():
            return
        codes = self._encoder.encode_area(ground.image, wanted)
        for (x, y), (row, column) in zip(part.corners, places, strict=True):
            own = _halves(row, column, around)
            if holds[own].any():
                top, left = ((around + BLOCK * i) * self._px for i in (row, column))
                shown = ground.image[top : top + BLOCK * self._px, left : left + BLOCK * self._px]
                small = Pillow.fromarray(shown).resize((BLOCK * PICTURE_PX,) * 2, Pillow.Resampling.BOX)
                yield TileBlock(x, y, codes[own].copy(), holds[own].copy()), np.asarray(small)

    def _regions(self, part: RegionPart) -> Iterator[EncodedRegion]:
        """Regions with enough data, encoded some at a time."""
        read = [(region, *self._region(region)) for region in part.regions]
        rows = [row for row, least in zip(read, part.least, strict=True) if int(row[2].sum()) >= least]
        for some in _batches(rows, self._encoder.spec.tiles_at_once(part.regions[0].n ** 2)):
            codes = self._encoder.encode_regions(np.stack([tiles for _, tiles, _ in some]))
            for (region, _, valid), whole, tokens in zip(some, codes.whole, codes.tokens, strict=True):
                yield EncodedRegion(region, whole, tokens, valid)

    def _region(self, region: Region) -> tuple[Images, Bools]:
        """A region's tiles (n n, t, t, 3) and which of them hold data."""
        ground = self._imagery.region(region, self._px)
        n, t = region.n, self._px
        valid = ground.valid.reshape(n, t, n, t).mean((1, 3)).reshape(-1) >= MIN_COVERAGE
        return cut_tiles(ground.image, n), valid


def half_stride_valid(valid: Mask, px: int) -> Bools:
    """Which of the tiles that start at every half tile of an area hold data, (2 a - 1, 2 b - 1)."""
    half = px // 2
    held = np.lib.stride_tricks.sliding_window_view(valid, (px, px))[::half, ::half]
    enough: Bools = held.mean((2, 3)) >= MIN_COVERAGE
    return enough


def _around(spec: EncoderSpec) -> int:
    """Tiles around a part that its cameras may look at."""
    return (spec.reach + 1) // 2


def _tiles_across(side: int, spec: EncoderSpec) -> int:
    """Tiles along the side of what is read for a part."""
    return side * BLOCK + 1 + 2 * _around(spec)


def _halves(row: int, column: int, around: int, ahead: int = 0) -> tuple[slice, slice]:
    """The tiles at half stride of a block of a square, and those that its cameras look at."""
    starts = (2 * around + HALVES * row - ahead, 2 * around + HALVES * column - ahead)
    return slice(starts[0], starts[0] + HALVES + 2 * ahead), slice(starts[1], starts[1] + HALVES + 2 * ahead)


def _batches(
    rows: Sequence[tuple[Region, Images, Bools]], size: int
) -> Iterator[Sequence[tuple[Region, Images, Bools]]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
