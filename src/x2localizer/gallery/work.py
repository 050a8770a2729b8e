"""One piece of imagery on its way into a gallery: planned in parts, encoded here or on a cluster, stored here."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from x2localizer import geo
from x2localizer.encoders import Encoder
from x2localizer.errors import ImageryError
from x2localizer.gallery.blocks import TileBlock, place_id
from x2localizer.gallery.cluster import Cluster
from x2localizer.gallery.grid import BLOCK, TileSpan, block_corners
from x2localizer.gallery.parts import (
    REGIONS_AT_ONCE,
    Encoded,
    EncodedRegion,
    Part,
    PartEncoder,
    RegionPart,
    largest_side,
    tile_parts,
)
from x2localizer.gallery.store import Gallery
from x2localizer.similarity import CodeKind
from x2localizer.sources.imagery import Access, Imagery
from x2localizer.sources.imagery.access import LOCAL
from x2localizer.types import Image, Position, Progress, Region

log = logging.getLogger(__name__)

READ_PIXELS_PER_S = 3e7
"""Stored pixels that are read and averaged in a second, roughly."""
Row = TypeVar("Row")

COMMIT_S = 10.0
"""Seconds of work that a kill may lose. Each transaction looks at all files of its table, so that a long build of many
small transactions would slow down with every one."""
COMMIT_ROWS = 256
"""Most rows of a transaction; 0.3 GB of blocks in eight headings while they wait."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """How much work an index is: tiles to encode, their area in square kilometres, and about how many seconds."""

    tiles: int
    area_km2: float
    seconds: float

    def __str__(self) -> str:
        took = f"{self.seconds:.0f} s" if self.seconds < 120 else f"{self.seconds / 60:.0f} min"
        took = took if self.seconds < 7200 else f"{self.seconds / 3600:.0f} h"
        return f"{self.tiles:,} tiles on {self.area_km2:,.1f} km², about {took}"


class Work:
    """One piece of imagery, opened from ``name``, on its way into a gallery.

    Parts are stored in their order by this process alone, whoever encodes them: a transaction for the pictures of some
    parts and one for their codes. A part is in when its codes are.
    """

    def __init__(
        self, name: str, imagery: Imagery, encoder: Encoder, gallery: Gallery, number: int, span: TileSpan,
        replacing: bool, progress: Progress, cluster: Cluster | None = None,
        access: Access = LOCAL,
    ) -> None:  # fmt: skip
        self.name, self.imagery, self.encoder, self.gallery, self.number = name, imagery, encoder, gallery, number
        self.span, self.replacing, self.progress, self.cluster = span, replacing, progress, cluster
        self.access = access
        self.zoom, self.px = gallery.manifest.zoom, encoder.spec.tile_px
        self._damaged = 0

    def estimate(self) -> Estimate:
        """How much work there is, by timing the encoder on a few tiles."""
        some = np.zeros((3 * self.px, 3 * self.px, 3), np.uint8)
        self.encoder.encode_area(some[: self.px, : self.px])
        start = time.perf_counter()
        codes = self.encoder.encode_area(some)
        per_tile = (time.perf_counter() - start) / (codes.shape[0] * codes.shape[1])
        regions = 49 / 36 if "regions" in self.gallery.manifest.codes else 0.0  # tiles of regions per tile, at stride 3
        lat = geo.from_tile_coordinates(self.span.west, self.span.north + self.span.rows / 2, self.zoom)[0]
        area = self.span.columns * self.span.rows * (geo.tile_size_m(float(lat), self.zoom) / 1000) ** 2
        seconds = self.span.tiles * per_tile * (1.3 + 1.5 * regions) + self._reading_s() * (1.0 + regions)
        return Estimate(self.span.tiles, area, seconds if self.cluster is None else self.cluster.share(seconds))

    def _reading_s(self) -> float:
        """About how long reading takes; fine imagery without overviews may take longer than encoding."""
        x, y = self.span.west + self.span.columns / 2, self.span.north + self.span.rows / 2
        lat, lon = geo.from_tile_coordinates(x, y, self.zoom)
        middle = Position(float(lat), float(geo.wrap_longitude(lon)))
        pixels = self.imagery.pixels_behind(middle, self.zoom, (BLOCK + 1) * self.px, BLOCK + 1)
        blocks = (self.span.columns / BLOCK + 1) * (self.span.rows / BLOCK + 1)
        return pixels * blocks / READ_PIXELS_PER_S

    def run(self) -> None:
        """Encode and store what is missing."""
        source = self.gallery.manifest.sources[self.number]
        if "tiles" not in source.done:
            if not self._add_tiles() and not self.gallery.ids("tiles"):
                raise ImageryError(
                    f"{source.imagery} holds no data where it claims to: nothing was indexed.",
                    "Look at it: x2l inspect IMAGERY",
                )
            self._mark_done("tiles")
        if "regions" in self.gallery.manifest.codes:
            self._add_regions()
            self._mark_done("regions")
        if self._damaged:
            log.warning("%s: %d reads had damaged pixels; these were left out", source.imagery, self._damaged)

    def _mark_done(self, kind: CodeKind) -> None:
        manifest = self.gallery.manifest
        source = manifest.sources[self.number]
        self.gallery.save_manifest(
            manifest.with_source(self.number, replace(source, done=tuple(dict.fromkeys((*source.done, kind)))))
        )

    def _encoded(self, parts: Sequence[Part]) -> Iterator[Encoded]:
        """What comes of the parts, in their order."""
        here = PartEncoder(self.imagery, self.encoder, self.zoom)
        encoded = (
            (here.encode(part) for part in parts) if self.cluster is None
            else self.cluster.encode(parts, self.name, self.imagery.info, self.encoder, self.zoom, self.access)
        )  # fmt: skip
        for each in encoded:
            self._damaged += each.damaged
            yield each

    def _add_tiles(self) -> int:
        """Tiles at half stride, and their pictures; returns how many blocks are in."""
        corners = block_corners(self.span)
        done = self.gallery.ids("tiles", self.number)
        others = self.gallery.ids("tiles") - done
        count = len(done)
        missing = [corner for corner in corners if place_id(*corner, self.zoom) not in done]
        parts = tile_parts(missing, largest_side(self.imagery, self.encoder.spec, self.zoom))
        seen = len(corners) - len(missing)
        waiting = _Waiting(self._store_blocks)
        for part, encoded in zip(parts, self._encoded(parts), strict=True):
            waiting.add([
                self._merged(block, picture) if place_id(block.x, block.y, self.zoom) in others else (block, picture)
                for block, picture in encoded.blocks
            ])  # fmt: skip
            count += len(encoded.blocks)
            seen += len(part.corners)
            self.progress("tiles", seen, len(corners))
        waiting.store()
        return count

    def _store_blocks(self, blocks: list[tuple[TileBlock, Image]]) -> None:
        # Pictures first: a block counts as done when its codes are in.
        self.gallery.add_pictures({(block.x, block.y): picture for block, picture in blocks}, self.number)
        self.gallery.add_tiles([block for block, _ in blocks], self.number)

    def _merged(self, new: TileBlock, picture: Image) -> tuple[TileBlock, Image]:
        """A block that older imagery touched too: the new fills its holes, or lies over it."""
        corner = (new.x, new.y)
        old = next(self.gallery.tile_blocks([corner])), self.gallery.pictures([corner]).get(corner)
        earlier = (old[0], np.zeros_like(picture) if old[1] is None else old[1])
        return laid_over((new, picture), earlier) if self.replacing else laid_over(earlier, (new, picture))

    def _add_regions(self) -> None:
        """Set codes of the regions that this imagery touches."""
        table = self.gallery.regions
        wanted = [region for row in range(len(table)) if self._touches(region := table.region(row))]
        done = self.gallery.ids("regions", self.number)
        tiles_of = {
            int(i): int(v)
            for part in self.gallery.region_sets()
            for i, v in zip(part.ids, part.valid.sum(1), strict=True)
        }
        missing = [region for region in wanted if place_id(region.x, region.y, self.zoom) not in done]
        # A region is one look at its ground: between two pieces of imagery the fuller one wins.
        least = [
            0 if self.replacing else 1 + tiles_of.get(place_id(region.x, region.y, self.zoom), 0) for region in missing
        ]
        parts = [
            RegionPart(tuple(missing[i : i + REGIONS_AT_ONCE]), tuple(least[i : i + REGIONS_AT_ONCE]))
            for i in range(0, len(missing), REGIONS_AT_ONCE)
        ]
        seen = len(wanted) - len(missing)
        waiting = _Waiting(self._store_regions)
        for part, encoded in zip(parts, self._encoded(parts), strict=True):
            waiting.add(list(encoded.regions))
            seen += len(part.regions)
            self.progress("regions", seen, len(wanted))
        waiting.store()

    def _store_regions(self, rows: list[EncodedRegion]) -> None:
        whole, tokens, valid = (np.stack([getattr(row, name) for row in rows]) for name in ("whole", "tokens", "valid"))
        self.gallery.add_regions([row.region for row in rows], whole, tokens, valid, self.number)

    def _touches(self, region: Region) -> bool:
        east = (region.x - self.span.west + region.n) % (1 << self.zoom) - region.n
        down = region.y - self.span.north
        return -region.n < east < self.span.columns and -region.n < down < self.span.rows


class _Waiting(Generic[Row]):
    """Rows that wait for the next transaction."""

    def __init__(self, store: Callable[[list[Row]], None]) -> None:
        self._store, self._since = store, time.monotonic()
        self._rows: list[Row] = []

    def add(self, rows: list[Row]) -> None:
        """Add rows, and store all that wait if it is time."""
        self._rows += rows
        if len(self._rows) >= COMMIT_ROWS or time.monotonic() - self._since >= COMMIT_S:
            self.store()

    def store(self) -> None:
        """Store what waits."""
        if self._rows:
            self._store(self._rows)
        self._rows, self._since = [], time.monotonic()


def laid_over(first: tuple[TileBlock, Image], second: tuple[TileBlock, Image]) -> tuple[TileBlock, Image]:
    """Two blocks of the same place, with their pictures, as one: the second fills the holes of the first."""
    (over, picture), (under, other) = first, second
    codes = np.where(over.valid[..., None, None], over.codes, under.codes)
    # Pictures are for people: each pixel where the preferred one shows something.
    shown = np.where(picture.any(-1, keepdims=True), picture, other)
    return TileBlock(over.x, over.y, codes, over.valid | under.valid), shown
