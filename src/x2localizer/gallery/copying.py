"""A gallery that is made of the rows of others: imported, merged or cut out.

Only what the manifest speaks of is copied: tables of tiles, pictures, regions and roads. Whatever else lies beside them
in a gallery, such as an index for faster search, is left behind and has to be made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from x2localizer.errors import GalleryError
from x2localizer.gallery.manifest import GalleryManifest
from x2localizer.gallery.object_store import store_errors
from x2localizer.gallery.open import find_gallery, make_gallery
from x2localizer.gallery.store import TABLES, Gallery
from x2localizer.types import Ints

BYTES_AT_ONCE = 64 << 20
"""Bytes of rows per transaction."""
Rows = Iterable[pa.Table]


def tables_of(manifest: GalleryManifest) -> tuple[str, ...]:
    """The tables of a gallery that hold something."""
    codes = TABLES if "regions" in manifest.codes else TABLES[:2]
    return (*(codes if manifest.codes else ()), *(("roads",) if manifest.roads else ()))


def write_copy(
    address: str, manifest: GalleryManifest, tables: Mapping[str, Rows],
    finish: Callable[[Gallery], None] = lambda gallery: None,
) -> Gallery:  # fmt: skip
    """Make a gallery of rows that there are already; nothing may be at the address but what a killed call left there.

    Until the last step the gallery counts as half built. ``finish`` is called before it.
    """
    begun = replace(manifest, sources=tuple(replace(source, done=()) for source in manifest.sources), roads=())
    with store_errors(address):
        there = find_gallery(address)
        if there is not None and there.manifest != begun:
            raise GalleryError(f"There is a gallery at {address} already.", "Choose another --out, or remove it.")
        gallery = make_gallery(address, begun, mode="overwrite")
        for name, rows in tables.items():
            for some in _chunks(rows):
                gallery.add_rows(name, some)
        finish(gallery)
        gallery.save_manifest(manifest)
        gallery.optimize(in_use=False, names=tables_of(manifest))
        gallery.seal()
        return gallery


def with_ids(rows: pa.Table, ids: Ints, *, without: bool = False) -> pa.Table:
    """The rows with these ids, or those with others."""
    return rows.filter(pa.array(np.isin(rows["id"].to_numpy(), ids, invert=without)))


def id_array(ids: Iterable[int]) -> Ints:
    """Some ids in order."""
    return np.array(sorted(ids), np.int64)


def renumbered(rows: pa.Table, numbers: Mapping[int, int]) -> pa.Table:
    """The rows with other numbers of their sources."""
    place = rows.schema.get_field_index("source")
    new = pa.array([numbers[number] for number in rows["source"].to_pylist()], rows.schema.field(place).type)
    return rows.set_column(place, "source", new)


def _chunks(rows: Rows) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    for some in rows:
        if some.num_rows:
            waiting.append(some)
        if sum(table.nbytes for table in waiting) >= BYTES_AT_ONCE:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
