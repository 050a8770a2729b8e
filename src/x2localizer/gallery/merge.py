"""Two galleries as one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from x2localizer.errors import GalleryError
from x2localizer.gallery.blocks import Corner, TileBlock
from x2localizer.gallery.checksums import only_gallery_writer
from x2localizer.gallery.copying import id_array, renumbered, tables_of, with_ids, write_copy
from x2localizer.gallery.manifest import GalleryManifest, ImagerySource, RoadSource
from x2localizer.gallery.open import open_gallery
from x2localizer.gallery.regions import regions_with_data
from x2localizer.gallery.store import Gallery
from x2localizer.gallery.work import laid_over
from x2localizer.types import Image

BLOCKS_AT_ONCE = 64
"""Blocks that both galleries have, and that are joined at once."""
MUST_AGREE = ("encoder", "zoom", "region_tiles", "stride", "dim", "headings", "codes")


def merge(first: str, second: str, out: str) -> Gallery:
    """Make a gallery of two, made by the same bundle on the same grid.

    Where both have data, the first counts, and the second fills its holes: as if its imagery had been added to the
    first. A gallery merged with itself is the same gallery. Imagery and roads that are in both count once.
    """
    one, other = open_gallery(first), open_gallery(second)
    if one.has_tiles and other.has_tiles:
        _insist_on_one_kind(one, other)
    numbers, sources = _sources(one.manifest, other.manifest)
    road_numbers, roads = _roads(one.manifest, other.manifest)
    manifest = replace(one.manifest if one.has_tiles else other.manifest, sources=sources, roads=roads)
    in_first, in_second = one.ids("tiles"), other.ids("tiles")
    fuller = _fuller_regions(one, other) if "regions" in manifest.codes else set()
    if fuller and one.has_tiles:
        _insist_on_all_regions(one, other)

    def rows(name: str) -> Iterator[pa.Table]:
        if name == "roads":
            yield from one.rows(name)
            for some in other.rows(name):
                yield renumbered(where_source(some, road_numbers), road_numbers)
            return
        taken = id_array(fuller if name == "regions" else in_second - in_first)
        for some in one.rows(name):
            yield with_ids(some, taken, without=True)
        for some in other.rows(name):
            yield renumbered(with_ids(some, taken), numbers)

    def fill_holes(gallery: Gallery) -> None:
        shared = sorted(in_first & in_second)
        for start in range(0, len(shared), BLOCKS_AT_ONCE):
            ids = shared[start : start + BLOCKS_AT_ONCE]
            corners = [(i % (1 << manifest.zoom), i >> manifest.zoom) for i in ids]
            for number, joined in _joined(one, other, corners, numbers).items():
                gallery.add_pictures({(block.x, block.y): picture for block, picture in joined}, number)
                gallery.add_tiles([block for block, _ in joined], number)

    with only_gallery_writer(out):
        return write_copy(out, manifest, {name: rows(name) for name in tables_of(manifest)}, fill_holes)


def where_source(rows: pa.Table, numbers: dict[int, int]) -> pa.Table:
    """The rows of some sources."""
    return rows.filter(pa.array(np.isin(rows["source"].to_numpy(), list(numbers))))


def _insist_on_one_kind(one: Gallery, other: Gallery) -> None:
    for name in MUST_AGREE:
        a, b = getattr(one.manifest, name), getattr(other.manifest, name)
        if a != b:
            what = {"encoder": "bundle", "region_tiles": "region tiles", "dim": "length of codes"}.get(name, name)
            raise GalleryError(
                f"These galleries cannot be merged: {one.address} has {what} {_words(a)}, {other.address} {_words(b)}.",
                "Index the imagery of one again with the settings of the other: x2l index IMAGERY --out GALLERY",
            )


def _words(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _sources(one: GalleryManifest, other: GalleryManifest) -> tuple[dict[int, int], tuple[ImagerySource, ...]]:
    """Numbers for the sources of the second gallery, and the sources of both."""
    sources, numbers = list(one.sources), {}
    for number, source in enumerate(other.sources):
        same = [
            i for i, known in enumerate(one.sources) if (known.imagery, known.bounds) == (source.imagery, source.bounds)
        ]
        numbers[number] = same[-1] if same else len(sources)
        if not same:
            sources.append(source)
    return numbers, tuple(sources)


def _roads(one: GalleryManifest, other: GalleryManifest) -> tuple[dict[int, int], tuple[RoadSource, ...]]:
    """New numbers for the files of roads that only the second gallery has, and the files of both."""
    known = {source.digest for source in one.roads}
    first = max((source.number for source in one.roads), default=-1) + 1
    added = [source for source in other.roads if source.digest not in known]
    numbers = {source.number: first + i for i, source in enumerate(added)}
    return numbers, (*one.roads, *(replace(source, number=numbers[source.number]) for source in added))


def _joined(
    one: Gallery, other: Gallery, corners: list[Corner], numbers: dict[int, int]
) -> dict[int, list[tuple[TileBlock, Image]]]:
    """Blocks whose holes the second gallery fills, by the number of the source that does."""
    over = {(block.x, block.y): block for block in one.tile_blocks(corners)}
    under = {(block.x, block.y): block for block in other.tile_blocks(corners)}
    filled = [corner for corner in corners if (under[corner].valid & ~over[corner].valid).any()]
    pictures, others, sources = one.pictures(filled), other.pictures(filled), other.sources_of(filled)
    blank = np.zeros_like(next(iter((*pictures.values(), *others.values())), np.zeros((1, 1, 3), np.uint8)))
    joined: dict[int, list[tuple[TileBlock, Image]]] = {}
    for corner in filled:
        both = laid_over((over[corner], pictures.get(corner, blank)), (under[corner], others.get(corner, blank)))
        joined.setdefault(numbers[sources[corner]], []).append(both)
    return joined


def _tiles_of_regions(gallery: Gallery) -> dict[int, int]:
    """How many tiles of each region hold data."""
    if not gallery.has_tiles:
        return {}
    return {
        int(i): int(count)
        for part in gallery.region_sets()
        for i, count in zip(part.ids, part.valid.sum(1), strict=True)
    }


def _fuller_regions(one: Gallery, other: Gallery) -> set[int]:
    """Regions of which the second gallery has seen more tiles: a region is one look at its ground."""
    seen = _tiles_of_regions(one)
    return {i for i, count in _tiles_of_regions(other).items() if count > seen.get(i, 0)}


def _insist_on_all_regions(one: Gallery, other: Gallery) -> None:
    """Refuse to merge set codes if regions appear between the galleries that neither has seen."""
    held = one.held_tiles()
    for corner, mask in other.held_tiles().items():
        held[corner] = held[corner] | mask if corner in held else mask
    m = one.manifest
    wanted = set(regions_with_data(held, m.zoom, m.region_tiles, m.stride).ids.tolist())
    missing = len(wanted - one.ids("regions") - other.ids("regions"))
    if missing:
        raise GalleryError(
            f"{missing} regions on the seam of {one.address} and {other.address} have no set codes in either.",
            f"Add the imagery of the second to the first: x2l index IMAGERY --codes tiles,regions --out {one.address}",
        )
