"""From imagery to a gallery: read, encode, store, a block at a time; what is stored is never done again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace as changed
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image as Pillow

from x2localizer.datasets.tiles import cut_tiles, half_stride
from x2localizer.encoders import Bundle
from x2localizer.errors import ConfigError, ImageryError
from x2localizer.gallery.grid import BLOCK, HALVES, MIN_COVERAGE, TileSpan, block_corners, grid_regions, tile_span
from x2localizer.gallery.store import (
    PICTURE_PX,
    About,
    BlockRow,
    Gallery,
    RegionRow,
    Source,
    open_for_writing,
    place_id,
)
from x2localizer.sources.imagery import Imagery, open_imagery
from x2localizer.types import Image, Mask, Region

Progress = Callable[[str, int, int], None]
PIXELS_AT_ONCE = 2_000_000
"""Pictures are encoded in batches of about so many pixels, whatever the size of the imagery."""
ROWS_AT_ONCE = 16
"""Blocks or regions per transaction."""


def index(
    imagery: str | Path,
    bundle: Bundle,
    address: str | Path,
    *,
    zoom: int = 19,
    stride: int = 3,
    replace: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Gallery:
    """Put imagery into a gallery, a new one or one that is there; an interrupted run goes on.

    A gallery keeps what it has: more imagery fills holes and adds ground, with ``replace`` it takes the place of what
    was there. ``stride`` is the distance of regions in tiles: 3 puts every place at least 2 tiles inside some region
    of 7.
    """
    if not 1 <= stride <= bundle.spec.region_tiles:
        raise ConfigError(f"The stride is {stride} tiles.", f"Give 1 to {bundle.spec.region_tiles}.")
    with open_imagery(imagery) as opened:
        span = tile_span(opened, zoom)
        if span is None:
            raise ImageryError(
                f"{imagery} does not cover half of any tile of zoom {zoom}.", "Give larger imagery, or another --zoom."
            )
        m = bundle.spec
        gallery = open_for_writing(str(address), About(bundle.fingerprint, zoom, m.region_tiles, stride, m.dim))
        number, is_new = _source_number(gallery, Source(str(imagery), opened.info.bounds), replace)
        if not is_new and gallery.about.sources[number].done:
            return gallery
        work = _Work(opened, bundle, gallery, number, span, replace, progress)
        blocks = work.add_blocks()
        regions = work.add_regions()
        if not blocks and not regions and not gallery.ids("regions"):
            raise ImageryError(
                f"{imagery} holds no data where it claims to: nothing was indexed.", "Look at it: x2l inspect IMAGERY"
            )
    gallery.tidy()
    gallery.tell(gallery.about.with_source(number, changed(gallery.about.sources[number], done=True)))
    return gallery


def _source_number(gallery: Gallery, source: Source, replace: bool) -> tuple[int, bool]:
    """The number of a source in the gallery, and whether it was added now."""
    for number, known in enumerate(gallery.about.sources):
        if (known.imagery, known.bounds) == (source.imagery, source.bounds) and not (known.done and replace):
            return number, False
    number = len(gallery.about.sources)
    gallery.tell(gallery.about.with_source(number, source))
    return number, True


class _Work:
    """One source on its way into a gallery."""

    def __init__(
        self, imagery: Imagery, bundle: Bundle, gallery: Gallery, number: int, span: TileSpan, replace: bool,
        progress: Progress,
    ) -> None:  # fmt: skip
        self.imagery, self.bundle, self.gallery, self.number = imagery, bundle, gallery, number
        self.span, self.replace, self.progress = span, replace, progress
        self.zoom, self.px = gallery.about.zoom, bundle.spec.tile_px

    def add_blocks(self) -> int:
        """Tiles at half stride; gives how many blocks are in."""
        corners = block_corners(self.span)
        done = self.gallery.done("blocks", self.number)
        others = self.gallery.ids("blocks") - done
        rows: list[BlockRow] = []
        count = len(done)
        for i, (x, y) in enumerate(corners):
            if place_id(x, y, self.zoom) not in done:
                row = self._block(x, y)
                if row is not None:
                    if place_id(x, y, self.zoom) in others:
                        row = self._merged(row)
                    rows.append(row)
                    count += 1
            if rows and (len(rows) == ROWS_AT_ONCE or i + 1 == len(corners)):
                self.gallery.add_blocks(rows, self.number)
                rows = []
            self.progress("tiles", i + 1, len(corners))
        return count

    def _block(self, x: int, y: int) -> BlockRow | None:
        """Read and encode the tiles of a block; None if none holds data."""
        # One tile more to the south and east: tiles at half stride reach into the next block.
        seen = self.imagery.region(Region(self.zoom, x, y, BLOCK + 1), self.px)
        if not seen.valid.any():
            return None
        pictures, valid = half_stride_tiles(seen.image, seen.valid, self.px)
        if not valid.any():
            return None
        codes = np.zeros((HALVES, HALVES, self.bundle.spec.dim), np.float32)
        codes[valid] = np.concatenate(
            [self.bundle.encode_tiles(part) for part in _parts(pictures[valid], self._at_once(1))]
        )
        side = BLOCK * self.px
        small = Pillow.fromarray(seen.image[:side, :side]).resize((BLOCK * PICTURE_PX,) * 2, Pillow.Resampling.BOX)
        return BlockRow(x, y, codes, valid, np.asarray(small))

    def _merged(self, new: BlockRow) -> BlockRow:
        """A block that older imagery touched too: the new fills its holes, or with ``replace`` lies over it."""
        old = self.gallery.blocks([(new.x, new.y)])[0]
        first, second = (new, old) if self.replace else (old, new)
        codes = np.where(first.valid[..., None], first.codes, second.codes)
        # Pictures are for people: each pixel where the preferred one shows something.
        picture = np.where(first.picture.any(-1, keepdims=True), first.picture, second.picture)
        return BlockRow(new.x, new.y, codes, first.valid | second.valid, picture)

    def add_regions(self) -> int:
        """Regions of the grid; gives how many are in."""
        wanted = list(grid_regions(self.span, self.gallery.about.n, self.gallery.about.stride))
        done = self.gallery.done("regions", self.number)
        table = self.gallery.regions
        others = dict(zip(table.ids.tolist(), table.valid.sum(1).tolist(), strict=True))
        rows: list[tuple[Region, Image, npt.NDArray[np.bool_]]] = []
        count = len(done)
        for i, region in enumerate(wanted):
            identity = place_id(region.x, region.y, self.zoom)
            if identity not in done:
                seen = self._region(region)
                # A region is one look at its ground: between two pieces of imagery the fuller one wins.
                if seen is not None and (self.replace or int(seen[1].sum()) > others.get(identity, 0)):
                    rows.append((region, *seen))
                    count += 1
            if rows and (len(rows) == ROWS_AT_ONCE or i + 1 == len(wanted)):
                self.gallery.add_regions(self._encoded(rows), self.number)
                rows = []
            self.progress("regions", i + 1, len(wanted))
        return count

    def _region(self, region: Region) -> tuple[Image, npt.NDArray[np.bool_]] | None:
        """A region's tiles (n n, t, t, 3) and which of them hold data; None if fewer than half do."""
        seen = self.imagery.region(region, self.px)
        n, t = region.n, self.px
        valid = seen.valid.reshape(n, t, n, t).mean((1, 3)).reshape(-1) >= MIN_COVERAGE
        if valid.mean() < MIN_COVERAGE:
            return None
        return cut_tiles(seen.image, n), valid

    def _encoded(self, rows: list[tuple[Region, Image, npt.NDArray[np.bool_]]]) -> list[RegionRow]:
        out: list[RegionRow] = []
        for part in _parts(np.stack([tiles for _, tiles, _ in rows]), self._at_once(self.gallery.about.n**2)):
            found = self.bundle.encode_regions(part)
            for whole, tokens in zip(found.whole, found.tokens, strict=True):
                region, _, valid = rows[len(out)]
                out.append(RegionRow(region, whole, tokens, valid))
        return out

    def _at_once(self, tiles: int) -> int:
        return max(1, PIXELS_AT_ONCE // (tiles * self.px * self.px))


def half_stride_tiles(image: Image, valid: Mask, px: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """Tiles that start at every half tile: (16, 16, px, px, 3) views, and which of them hold data (16, 16)."""
    half = px // 2
    tiles = half_stride(image, BLOCK + 1, px)[:HALVES, :HALVES]
    held = np.lib.stride_tricks.sliding_window_view(valid, (px, px))[: HALVES * half : half, : HALVES * half : half]
    return tiles, held.mean((2, 3)) >= MIN_COVERAGE


def _parts(pictures: npt.NDArray[np.uint8], size: int) -> Iterator[npt.NDArray[np.uint8]]:
    for start in range(0, len(pictures), size):
        yield pictures[start : start + size]
