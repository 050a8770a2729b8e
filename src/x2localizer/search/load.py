"""The codes of an open gallery, as a search compares them."""

from __future__ import annotations

import numpy as np

from x2localizer.errors import GalleryError
from x2localizer.gallery.blocks import Corner
from x2localizer.gallery.store import Gallery, require_tiles
from x2localizer.gallery.tiles import TILES_PER_BLOCK, region_views
from x2localizer.search.codes import ByteCodes, RegionCodes, StoredCodes, TileCodes, to_bytes
from x2localizer.similarity import CodeKind
from x2localizer.types import Codes, Ints


def load_codes(gallery: Gallery, kind: CodeKind, memory_mb: int = 1024, threads: int = 0) -> StoredCodes:
    """The codes of a gallery that similarities of a kind compare, in full if they take at most ``memory_mb``."""
    require_codes(gallery, kind)
    if kind == "tiles":
        return _tile_codes(gallery, memory_mb, threads)
    return _region_codes(gallery, memory_mb, threads)


def require_codes(gallery: Gallery, kind: CodeKind) -> None:
    """Refuse a gallery without codes of a kind."""
    require_tiles(gallery)
    if kind not in gallery.manifest.codes:
        source = gallery.manifest.sources[0].imagery if gallery.manifest.sources else "IMAGERY"
        raise GalleryError(
            f"The gallery {gallery.address} has no codes of {kind}, which this similarity compares.",
            f"Add them: x2l index {source} --codes tiles,{kind} --out {gallery.address}",
        )


def _tile_codes(gallery: Gallery, memory_mb: int, threads: int) -> TileCodes:
    corners: list[Corner] = []
    masks, full, small = [], [], []
    count = len(gallery.ids("tiles"))
    d, headings = gallery.manifest.dim, gallery.manifest.headings
    keep = count * TILES_PER_BLOCK * headings * d * 4 <= memory_mb << 20
    for block in gallery.tile_blocks():
        corners.append((block.x, block.y))
        masks.append(block.valid.reshape(-1))
        codes = block.codes.reshape(-1, d)
        if keep:
            full.append(codes)
        else:
            small.append(to_bytes(codes[:, None]))
    views = region_views(gallery.regions, {corner: number for number, corner in enumerate(corners)})
    valid = np.concatenate(masks)
    if keep:
        return TileCodes(views, valid, full=np.concatenate(full), threads=threads, headings=headings)

    def read(tiles: Ints) -> Codes:
        numbers, inverse = np.unique(tiles // TILES_PER_BLOCK, return_inverse=True)
        place = {corner: i for i, corner in enumerate(corners[int(number)] for number in numbers)}
        codes = np.empty((len(numbers), TILES_PER_BLOCK, headings * d), np.float32)
        for block in gallery.tile_blocks(list(place)):
            codes[place[block.x, block.y]] = block.codes.reshape(TILES_PER_BLOCK, -1)
        return codes[inverse, tiles % TILES_PER_BLOCK].reshape(-1, d)

    return TileCodes(views, valid, small=_joined(small), read=read, threads=threads, headings=headings)


def _region_codes(gallery: Gallery, memory_mb: int, threads: int) -> RegionCodes:
    table = gallery.regions
    n, d, count = gallery.manifest.region_tiles, gallery.manifest.dim, len(table)
    row_of = {int(identity): row for row, identity in enumerate(table.ids)}
    keep = count * n * n * d * 4 <= memory_mb << 20
    full = np.zeros((count, n * n, d), np.float32) if keep else None
    whole, valid = np.zeros((count, d), np.float32), np.zeros((count, n * n), np.bool_)
    small = ByteCodes(
        np.full((count, n * n, d), 128, np.uint8), np.ones(count, np.float32), np.zeros(count, np.float32)
    )
    for part in gallery.region_sets():
        rows = np.array([row_of.get(int(identity), -1) for identity in part.ids], np.int64)
        there = rows >= 0
        rows, tokens = rows[there], part.tokens[there]
        packed = to_bytes(tokens)
        whole[rows], valid[rows] = part.whole[there], part.valid[there]
        small.values[rows], small.scale[rows], small.slack[rows] = packed.values, packed.scale, packed.slack
        if full is not None:
            full[rows] = tokens

    def read(rows: Ints) -> Codes:
        codes = np.zeros((len(rows), n * n, d), np.float32)
        place = {int(table.ids[row]): i for i, row in enumerate(rows)}
        for part in gallery.region_sets(table.ids[rows]):
            for identity, tokens in zip(part.ids, part.tokens, strict=True):
                codes[place[int(identity)]] = tokens
        return codes

    return RegionCodes(whole, valid, small, read, full, threads)


def _joined(parts: list[ByteCodes]) -> ByteCodes:
    return ByteCodes(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "scale", "slack"))
    )
