"""From imagery to a gallery: read, encode, store, a block at a time; what is stored is never encoded again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image as Pillow

from x2localizer import geo
from x2localizer.datasets.tiles import cut_tiles
from x2localizer.encoders import Encoder
from x2localizer.encoders.area import PIXELS_AT_ONCE
from x2localizer.errors import ConfigError, GalleryError, ImageryError
from x2localizer.gallery.build_roads import add_roads
from x2localizer.gallery.grid import BLOCK, HALVES, MIN_COVERAGE, TileSpan, block_corners, tile_span
from x2localizer.gallery.manifest import GalleryManifest, ImagerySource
from x2localizer.gallery.open import open_for_writing
from x2localizer.gallery.store import PICTURE_PX, Corner, Gallery, TileBlock, place_id
from x2localizer.similarity import CodeKind
from x2localizer.sources.imagery import Imagery, open_imagery
from x2localizer.types import Bools, Image, Images, Mask, Progress, Region

log = logging.getLogger(__name__)

ROWS_AT_ONCE = 16
"""Blocks or regions per transaction."""
ZOOMS = range(14, 23)
"""Tiles from 1.8 km down to 7 m; a street view shows some 50 m of ground."""
COARSEST = 16
"""Fewest pixels of the imagery along the side of a tile."""
LONG_S = 24 * 3600.0
"""Work that would take longer starts only when that is asked for."""


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


def index(
    imagery: str | Path | Sequence[str | Path],
    encoder: Encoder,
    address: str | Path,
    *,
    roads: Sequence[str | Path] = (),
    codes: Sequence[CodeKind] = ("tiles",),
    zoom: int = 19,
    stride: int = 3,
    replace: bool = False,
    allow_long: bool = False,
    announce: Callable[[str, Estimate], None] = lambda what, estimate: None,
    progress: Progress = lambda what, done, total: None,
) -> Gallery:
    """Put imagery into a gallery, a new one or one that is there; an interrupted run resumes.

    roads: files of roads to add; :func:`x2localizer.gallery.index_roads` adds roads alone.
    codes: which codes to compute: "tiles" is all that the default localizer needs; "regions" adds set codes, which the
        paper's similarities s_g, s_f and s_mix compare.
    stride: distance of regions in tiles: 3 puts every place at least 2 tiles inside some region of 7.
    replace: a gallery keeps what it has, and more imagery fills holes and adds ground; with this the new imagery takes
        the place of what was there.
    allow_long: start also what would take more than a day.
    announce: called before the work on each piece of imagery, with its name and an estimate.
    """
    names = [imagery] if isinstance(imagery, str | Path) else list(imagery)
    fresh = _manifest(encoder, codes, zoom, stride)
    gallery: Gallery | None = None
    in_use = changed = False
    for name in names:
        with open_imagery(name) as opened:
            span = _checked_span(name, opened, zoom, encoder)
            if gallery is None:
                gallery = open_for_writing(str(address), fresh)
                in_use = bool(gallery.manifest.sources) and not gallery.manifest.unfinished()
                add_roads(gallery, str(address), roads, replace=replace, progress=progress)
            _add_codes(gallery, fresh.codes)
            number = _source_number(gallery, str(name), opened, replace)
            source = gallery.manifest.sources[number]
            if set(gallery.manifest.codes) <= set(source.done):
                continue
            work = _Work(opened, encoder, gallery, number, span, source.replace, progress)
            estimate = work.estimate()
            announce(str(name), estimate)
            log.info("indexing %s: %s", name, estimate)
            if estimate.seconds > LONG_S and not allow_long:
                raise ImageryError(
                    f"Indexing {name} is a lot of work: {estimate}.",
                    "Cut it to the area you need, choose a smaller --zoom, or start it with --yes.",
                )
            work.run()
            changed = True
    if gallery is None:
        raise ConfigError("There is no imagery to index.", "Name a file: x2l index IMAGERY --out GALLERY")
    if changed:
        gallery.optimize(in_use=in_use)
    if not len(gallery.regions):
        side_m = geo.tile_size_m(0.0, zoom) * encoder.spec.region_tiles
        raise GalleryError(
            f"The gallery {address} has no regions: the imagery covers less than one region "
            f"({encoder.spec.region_tiles} x {encoder.spec.region_tiles} tiles, at most {side_m:.0f} m).",
            "Index a larger area, or all of its files at once.",
        )
    return gallery


def _manifest(encoder: Encoder, codes: Sequence[CodeKind], zoom: int, stride: int) -> GalleryManifest:
    spec = encoder.spec
    if not 1 <= stride <= spec.region_tiles:
        raise ConfigError(f"The stride is {stride} tiles.", f"Give 1 to {spec.region_tiles}.")
    if zoom not in ZOOMS:
        raise ConfigError(
            f"Tiles of zoom {zoom} cannot be indexed.",
            f"Give a --zoom of {ZOOMS.start} to {ZOOMS.stop - 1}; 19 is usual.",
        )
    unknown = [kind for kind in codes if kind not in ("tiles", "regions")]
    if unknown or "tiles" not in codes:
        raise ConfigError(
            f"A gallery cannot hold the codes '{','.join(codes)}'.", "Give tiles, or tiles,regions for set codes too."
        )
    missing = {"tiles": "tile", "regions": "region"}
    for kind in codes:
        if missing[kind] not in spec.parts:
            raise ConfigError(f"This bundle cannot encode {kind}.", "Use one that can, or leave them out of --codes.")
    kinds: tuple[CodeKind, ...] = ("tiles", "regions") if "regions" in codes else ("tiles",)
    return GalleryManifest(
        encoder.fingerprint, zoom, spec.region_tiles, stride, spec.dim, kinds, headings=spec.headings
    )


def _checked_span(name: str | Path, imagery: Imagery, zoom: int, encoder: Encoder) -> TileSpan:
    """The tiles that imagery covers; imagery that is too coarse or too small for them is refused."""
    _, south, _, north = imagery.info.bounds
    tile_m = geo.tile_size_m(min(abs((south + north) / 2), geo.MAX_LATITUDE_DEG), zoom)
    if imagery.info.metres_per_pixel > tile_m / COARSEST:
        raise ImageryError(
            f"{name} has {imagery.info.metres_per_pixel:.3g} m per pixel, too coarse for tiles of {tile_m:.0f} m.",
            f"Give imagery of {tile_m / encoder.spec.tile_px:.2g} m per pixel or finer.",
        )
    span = tile_span(imagery, zoom)
    if span is None:
        raise ImageryError(
            f"{name} does not cover half of any tile of zoom {zoom}.", "Give larger imagery, or another --zoom."
        )
    return span


def _add_codes(gallery: Gallery, codes: tuple[CodeKind, ...]) -> None:
    """Let a gallery hold more codes than it did; the imagery that is in lacks them until it is indexed again."""
    if not set(codes) <= set(gallery.manifest.codes):
        gallery.save_manifest(replace(gallery.manifest, codes=codes))


def _source_number(gallery: Gallery, name: str, imagery: Imagery, replacing: bool) -> int:
    """The number of a source in the gallery; one that was begun and not finished resumes, else it is added."""
    wanted = set(gallery.manifest.codes)
    same = [
        number for number, source in enumerate(gallery.manifest.sources)
        if (source.imagery, source.bounds) == (name, imagery.info.bounds)
    ]  # fmt: skip
    begun = [number for number in same if not wanted <= set(gallery.manifest.sources[number].done)]
    if begun:
        return begun[-1]
    if same and not replacing:
        return same[-1]
    number = len(gallery.manifest.sources)
    source = ImagerySource(name, imagery.info.bounds, replacing)
    gallery.save_manifest(gallery.manifest.with_source(number, source))
    return number


class _Work:
    """One piece of imagery on its way into a gallery."""

    def __init__(
        self, imagery: Imagery, encoder: Encoder, gallery: Gallery, number: int, span: TileSpan, replacing: bool,
        progress: Progress,
    ) -> None:  # fmt: skip
        self.imagery, self.encoder, self.gallery, self.number = imagery, encoder, gallery, number
        self.span, self.replacing, self.progress = span, replacing, progress
        self.zoom, self.px = gallery.manifest.zoom, encoder.spec.tile_px

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
        return Estimate(self.span.tiles, area, self.span.tiles * per_tile * (1.3 + 1.5 * regions))

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

    def _mark_done(self, kind: CodeKind) -> None:
        manifest = self.gallery.manifest
        source = manifest.sources[self.number]
        self.gallery.save_manifest(
            manifest.with_source(self.number, replace(source, done=tuple(dict.fromkeys((*source.done, kind)))))
        )

    def _add_tiles(self) -> int:
        """Tiles at half stride, and their pictures; returns how many blocks are in."""
        corners = block_corners(self.span)
        done = self.gallery.ids("tiles", self.number)
        others = self.gallery.ids("tiles") - done
        blocks: list[TileBlock] = []
        pictures: dict[Corner, Image] = {}
        count = len(done)
        for i, (x, y) in enumerate(corners):
            identity = place_id(x, y, self.zoom)
            if identity not in done:
                encoded = self._block(x, y)
                if encoded is not None:
                    block, picture = self._merged(*encoded) if identity in others else encoded
                    blocks.append(block)
                    pictures[x, y] = picture
                    count += 1
            if blocks and (len(blocks) == ROWS_AT_ONCE or i + 1 == len(corners)):
                # Pictures first: a block counts as done when its codes are in.
                self.gallery.add_pictures(pictures, self.number)
                self.gallery.add_tiles(blocks, self.number)
                blocks, pictures = [], {}
            self.progress("tiles", i + 1, len(corners))
        return count

    def _block(self, x: int, y: int) -> tuple[TileBlock, Image] | None:
        """Read and encode the tiles of a block; None if none holds data."""
        # One tile more to the south and east: tiles at half stride reach into the next block. And as many on all
        # sides as cameras look ahead.
        around = (self.encoder.spec.ahead + 1) // 2
        ground = self.imagery.region(
            Region(self.zoom, (x - around) % (1 << self.zoom), y - around, BLOCK + 1 + 2 * around), self.px
        )
        holds = half_stride_valid(ground.valid, self.px)
        own = slice(2 * around, 2 * around + HALVES)
        valid = holds[own, own]
        if not valid.any():
            return None
        wanted = np.zeros_like(holds)
        reach = slice(own.start - self.encoder.spec.ahead, own.stop + self.encoder.spec.ahead)
        wanted[reach, reach] = holds[reach, reach]
        codes = self.encoder.encode_area(ground.image, wanted)[own, own]
        picture = slice(around * self.px, (around + BLOCK) * self.px)
        small = Pillow.fromarray(ground.image[picture, picture]).resize(
            (BLOCK * PICTURE_PX,) * 2, Pillow.Resampling.BOX
        )
        return TileBlock(x, y, codes, valid), np.asarray(small)

    def _merged(self, new: TileBlock, picture: Image) -> tuple[TileBlock, Image]:
        """A block that older imagery touched too: the new fills its holes, or lies over it."""
        corner = (new.x, new.y)
        old = next(self.gallery.tile_blocks([corner]))
        old_picture = self.gallery.pictures([corner]).get(corner, np.zeros_like(picture))
        first, second = (new, old) if self.replacing else (old, new)
        over, under = (picture, old_picture) if self.replacing else (old_picture, picture)
        codes = np.where(first.valid[..., None, None], first.codes, second.codes)
        # Pictures are for people: each pixel where the preferred one shows something.
        merged = np.where(over.any(-1, keepdims=True), over, under)
        return TileBlock(new.x, new.y, codes, first.valid | second.valid), merged

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
        rows: list[tuple[Region, Images, Bools]] = []
        for i, region in enumerate(wanted):
            identity = place_id(region.x, region.y, self.zoom)
            if identity not in done:
                tiles, valid = self._region(region)
                # A region is one look at its ground: between two pieces of imagery the fuller one wins.
                if self.replacing or int(valid.sum()) > tiles_of.get(identity, 0):
                    rows.append((region, tiles, valid))
            if rows and (len(rows) == ROWS_AT_ONCE or i + 1 == len(wanted)):
                self._store_regions(rows)
                rows = []
            self.progress("regions", i + 1, len(wanted))

    def _touches(self, region: Region) -> bool:
        east = (region.x - self.span.west + region.n) % (1 << self.zoom) - region.n
        down = region.y - self.span.north
        return -region.n < east < self.span.columns and -region.n < down < self.span.rows

    def _region(self, region: Region) -> tuple[Images, Bools]:
        """A region's tiles (n n, t, t, 3) and which of them hold data."""
        ground = self.imagery.region(region, self.px)
        n, t = region.n, self.px
        valid = ground.valid.reshape(n, t, n, t).mean((1, 3)).reshape(-1) >= MIN_COVERAGE
        return cut_tiles(ground.image, n), valid

    def _store_regions(self, rows: list[tuple[Region, Images, Bools]]) -> None:
        tiles = np.stack([tiles for _, tiles, _ in rows])
        encoded = [self.encoder.encode_regions(part) for part in _parts(tiles, self._at_once(tiles.shape[1]))]
        whole, tokens = (np.concatenate([getattr(part, name) for part in encoded]) for name in ("whole", "tokens"))
        valid = np.stack([valid for _, _, valid in rows])
        self.gallery.add_regions([region for region, _, _ in rows], whole, tokens, valid, self.number)

    def _at_once(self, tiles: int) -> int:
        return max(1, PIXELS_AT_ONCE // (tiles * self.px * self.px))


def half_stride_valid(valid: Mask, px: int) -> Bools:
    """Which of the tiles that start at every half tile of an area hold data, (2 a - 1, 2 b - 1)."""
    half = px // 2
    held = np.lib.stride_tricks.sliding_window_view(valid, (px, px))[::half, ::half]
    enough: Bools = held.mean((2, 3)) >= MIN_COVERAGE
    return enough


def _parts(pictures: Images, size: int) -> Iterator[Images]:
    for start in range(0, len(pictures), size):
        yield pictures[start : start + size]
