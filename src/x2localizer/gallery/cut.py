"""Part of a gallery, by a box."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from x2localizer import geo
from x2localizer.errors import ConfigError, GalleryError
from x2localizer.gallery.blocks import Corner, place_id
from x2localizer.gallery.checksums import only_gallery_writer
from x2localizer.gallery.copying import id_array, tables_of, with_ids, write_copy
from x2localizer.gallery.grid import BLOCK
from x2localizer.gallery.manifest import ImagerySource, RoadSource
from x2localizer.gallery.open import open_gallery
from x2localizer.gallery.regions import regions_with_data
from x2localizer.gallery.roads import from_rows
from x2localizer.gallery.store import Gallery
from x2localizer.gallery.where import Where
from x2localizer.sources.roads.roads import Bounds
from x2localizer.types import Bools, Ints


def cut(address: str, box: Bounds, out: str) -> Gallery:
    """Make a gallery of the part of another that touches a box.

    box: west, south, east, north in degrees; it may cross the antimeridian. Blocks of 8 x 8 tiles are kept whole, so
        what is kept reaches up to some 500 m beyond the box.
    """
    box = _checked(box)
    gallery = open_gallery(address)
    m = gallery.manifest
    everywhere = gallery.held_tiles()
    held = {corner: everywhere[corner] for corner in _blocks_in(list(everywhere), m.zoom, box)}
    blocks = id_array(place_id(x, y, m.zoom) for x, y in held)
    regions = regions_with_data(held, m.zoom, m.region_tiles, m.stride).ids
    roads = tuple(part for source in m.roads if (part := _road_part(gallery, source, box)) is not None)
    if not (len(regions) if gallery.has_tiles else roads):
        raise GalleryError(
            f"The gallery {address} has nothing in this box, or less than one region.",
            f"Look where it is: x2l inspect {address} --picture map.png",
        )
    sources = tuple(_clipped(source, box) for source in m.sources)
    manifest = replace(m, sources=sources, roads=roads)

    def rows(name: str) -> Iterator[pa.Table]:
        if name == "roads":
            numbers = tuple(source.number for source in manifest.roads)
            yield from gallery.rows(name, Where(sources=numbers, within=box))
            return
        kept = regions if name == "regions" else blocks
        for some in gallery.rows(name, Where(between=(int(kept.min()), int(kept.max())))):
            yield with_ids(some, kept)

    with only_gallery_writer(out):
        return write_copy(out, manifest, {name: rows(name) for name in tables_of(manifest)})


def _checked(box: Bounds) -> Bounds:
    west, south, east, north = box
    inside = -180 <= west <= 180 and -180 <= east <= 360 and -90 <= south < north <= 90
    if not inside or west == east or east - west > 360:
        raise ConfigError(
            f"{west:g},{south:g},{east:g},{north:g} is not a box.", "Give --box WEST,SOUTH,EAST,NORTH in degrees."
        )
    return west, south, east if east > west else east + 360.0, north


def _blocks_in(corners: list[Corner], zoom: int, box: Bounds) -> list[Corner]:
    """The blocks that touch a box."""
    if not corners:
        return []
    west, south, east, north = box
    limit = geo.MAX_LATITUDE_DEG
    lats = np.clip([north, south], -limit, limit)
    _, (top, bottom) = geo.tile_coordinates(lats, np.zeros(2), zoom)
    world = 1 << zoom
    left, right = ((lon + 180.0) / 360.0 * world for lon in (west, east))
    x, y = (np.array(values, np.int64) for values in zip(*corners, strict=True))
    across: Bools = np.zeros(len(x), np.bool_)
    for turn in (-world, 0, world):
        across |= (x + turn < right) & (x + turn + BLOCK > left)
    kept: Ints = np.flatnonzero(across & (y < bottom) & (y + BLOCK > top))
    return [corners[i] for i in kept]


def _clipped(source: ImagerySource, box: Bounds) -> ImagerySource:
    """Imagery with bounds within the box, so that the same imagery can be added again to fill the rest."""
    west, south, east, north = source.bounds
    clipped = (max(west, box[0]), max(south, box[1]), min(east, box[2]), min(north, box[3]))
    return replace(source, bounds=clipped) if clipped[0] < clipped[2] and clipped[1] < clipped[3] else source


def _road_part(gallery: Gallery, source: RoadSource, box: Bounds) -> RoadSource | None:
    """What a file of roads is after the cut; None if nothing of it is left."""
    parts = list(gallery.rows("roads", Where(sources=(source.number,), within=box)))
    if not parts:
        return None
    roads = from_rows(pa.concat_tables(parts))
    main, street, service = roads.lengths_by_kind_m().values()
    digest = hashlib.sha256(f"{source.digest} {box}".encode()).hexdigest()[:16]
    bounds = roads.bounds or source.bounds
    return replace(source, digest=digest, roads=len(roads), lengths_m=(main, street, service), bounds=bounds)
