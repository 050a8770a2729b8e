"""From imagery to a gallery: read, encode, store, a block at a time; what is stored is never encoded again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from x2localizer import geo
from x2localizer.encoders import Encoder
from x2localizer.errors import ConfigError, GalleryError, ImageryError
from x2localizer.gallery.build_roads import add_roads
from x2localizer.gallery.checksums import only_gallery_writer
from x2localizer.gallery.cluster import Cluster, join_cluster
from x2localizer.gallery.grid import TileSpan, tile_span
from x2localizer.gallery.manifest import GalleryManifest, ImagerySource
from x2localizer.gallery.object_store import store_errors
from x2localizer.gallery.open import open_for_writing
from x2localizer.gallery.store import Gallery
from x2localizer.gallery.work import Estimate, Work
from x2localizer.similarity import CodeKind
from x2localizer.sources.imagery import Access, Imagery, open_imagery
from x2localizer.sources.imagery.access import LOCAL
from x2localizer.sources.imagery.raster_open import without_secrets
from x2localizer.types import Progress

log = logging.getLogger(__name__)

ZOOMS = range(14, 23)
"""Tiles from 1.8 km down to 7 m; a street view shows some 50 m of ground."""
COARSEST = 16
"""Fewest pixels of the imagery along the side of a tile."""
LONG_S = 24 * 3600.0
"""Work that would take longer starts only when that is asked for."""


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
    ray: str | None = None,
    access: Access = LOCAL,
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
    ray: encode on a Ray cluster: "auto" for the one that this machine belongs to, its address, or "local" for processes
        of this machine. The gallery is the same as without.
    access: what the imagery may reach; by default nothing on the network, and no files outside of its folder.
    announce: called before the work on each piece of imagery, with its name and an estimate.
    """
    names = [imagery] if isinstance(imagery, str | Path) else list(imagery)
    if not names:
        raise ConfigError("There is no imagery to index.", "Name a file: x2l index IMAGERY --out GALLERY")
    fresh = _manifest(encoder, codes, zoom, stride)
    joined = join_cluster(ray) if ray else nullcontext()
    with only_gallery_writer(str(address)), store_errors(str(address)), joined as cluster:
        gallery = _index(
            names, encoder, str(address), fresh, roads=roads, replace=replace, allow_long=allow_long, access=access,
            announce=announce, progress=progress, cluster=cluster,
        )  # fmt: skip
    if not len(gallery.regions):
        side_m = geo.tile_size_m(0.0, zoom) * encoder.spec.region_tiles
        raise GalleryError(
            f"The gallery {address} has no regions: the imagery covers less than one region "
            f"({encoder.spec.region_tiles} x {encoder.spec.region_tiles} tiles, at most {side_m:.0f} m).",
            "Index a larger area, or all of its files at once.",
        )
    return gallery


def _index(
    names: Sequence[str | Path], encoder: Encoder, address: str, fresh: GalleryManifest, *,
    roads: Sequence[str | Path], replace: bool, allow_long: bool, access: Access,
    announce: Callable[[str, Estimate], None], progress: Progress, cluster: Cluster | None,
) -> Gallery:  # fmt: skip
    """Put imagery into a gallery that nobody else writes to."""
    gallery: Gallery | None = None
    in_use = changed = False
    for name in names:
        with open_imagery(name, access=access) as opened:
            span = _checked_span(name, opened, fresh.zoom, encoder)
            if gallery is None:
                gallery = open_for_writing(address, fresh)
                in_use = bool(gallery.manifest.sources) and not gallery.manifest.unfinished()
                add_roads(gallery, address, roads, replace=replace, progress=progress)
            _add_codes(gallery, fresh.codes)
            number = _source_number(gallery, without_secrets(str(name)), opened, replace)
            source = gallery.manifest.sources[number]
            if set(gallery.manifest.codes) <= set(source.done):
                continue
            work = Work(
                str(name), opened, encoder, gallery, number, span, source.replace, progress, cluster, access
            )  # fmt: skip
            estimate = work.estimate()
            announce(source.imagery, estimate)
            log.info("indexing %s: %s", source.imagery, estimate)
            if estimate.seconds > LONG_S and not allow_long:
                raise ImageryError(
                    f"Indexing {source.imagery} is a lot of work: {estimate}.",
                    "Cut it to the area you need, choose a smaller --zoom, spread it over many machines with "
                    "--ray, or start it with --yes.",
                )
            work.run()
            changed = True
    assert gallery is not None
    if changed:
        gallery.optimize(in_use=in_use)
    gallery.seal()
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
