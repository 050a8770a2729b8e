"""The gallery in LanceDB: a local folder, or any object-store address it takes.

    about      one row: the manifest, as JSON
    tiles      image codes of the tiles of 8 x 8 tiles at half stride, and which hold data
    pictures   a small picture of each such block, for people
    regions    set codes of whole regions, if they were asked for
    roads      centre lines of roads, if they were added

A gallery of roads alone has no tables of tiles, pictures and regions. Codes are stored as 16-bit floats, those of tiles
in several headings in 8 bits. Every write is one transaction of LanceDB: whatever is killed, a row is there whole or
not at all.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from x2localizer.encoders import Encoder
from x2localizer.errors import GalleryError
from x2localizer.gallery.blocks import Corner, RegionSet, TileBlock, from_jpeg, place_id, to_jpeg
from x2localizer.gallery.checksums import Checks, reading, write_seal, writing
from x2localizer.gallery.columns import (
    ROADS,
    from_byte_columns,
    from_column,
    masks,
    schema,
    to_byte_columns,
    to_column,
)
from x2localizer.gallery.grid import HALVES
from x2localizer.gallery.manifest import GalleryManifest
from x2localizer.gallery.regions import RegionTable, regions_with_data
from x2localizer.gallery.roads import from_rows
from x2localizer.gallery.where import ALL, Where
from x2localizer.sources.roads import Roads
from x2localizer.sources.roads.roads import Bounds
from x2localizer.types import Bools, Codes, Image, Ints, Region

TABLES = ("tiles", "pictures", "regions")


@dataclass
class Gallery:
    """An open gallery."""

    address: str
    manifest: GalleryManifest
    _db: Any = field(repr=False)
    _checks: Checks | None = field(default=None, repr=False)

    # Writing ---------------------------------------------------------------------------------------------------------

    def add_tiles(self, blocks: Sequence[TileBlock], source: int) -> None:
        """Add blocks of tiles, or replace those with the same corner: one transaction."""
        codes = np.stack([block.codes for block in blocks])
        if self.manifest.headings > 1:
            columns = to_byte_columns(codes.reshape(len(blocks), -1, self.manifest.dim))
        else:
            columns = {"codes": to_column(codes)}
        valid = [block.valid.astype(np.uint8).tobytes() for block in blocks]
        corners = [(block.x, block.y) for block in blocks]
        self._put("tiles", corners, source, {**columns, "valid": pa.array(valid, pa.binary())})

    def add_pictures(self, pictures: dict[Corner, Image], source: int) -> None:
        """Add the pictures of blocks, or replace them: one transaction."""
        column = pa.array([to_jpeg(picture) for picture in pictures.values()], pa.binary())
        self._put("pictures", list(pictures), source, {"picture": column})

    def add_regions(self, regions: Sequence[Region], whole: Codes, tokens: Codes, valid: Bools, source: int) -> None:
        """Add set codes of regions, or replace them: one transaction."""
        held = pa.array([row.astype(np.uint8).tobytes() for row in valid], pa.binary())
        columns = {"whole": to_column(whole), "tokens": to_column(tokens), "valid": held}
        self._put("regions", [(region.x, region.y) for region in regions], source, columns)

    def _put(self, name: str, corners: Sequence[Corner], source: int, columns: dict[str, Any]) -> None:
        xs, ys = (pa.array(values, pa.int32()) for values in zip(*corners, strict=True))
        place = {
            "id": pa.array([place_id(x, y, self.manifest.zoom) for x, y in corners], pa.int64()), "x": xs, "y": ys,
            "source": pa.array([source] * len(corners), pa.int32()),
        }  # fmt: skip
        rows = pa.table({**place, **columns}, schema=schema(self.manifest, name))
        with writing(self.address):
            table = self._db.open_table(name)
            table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)
        self.__dict__.pop("regions", None)

    def add_road_rows(self, rows: pa.Table) -> None:
        """Add rows of roads: one transaction. They count when the manifest names their source."""
        self.add_rows("roads", rows)

    def add_rows(self, name: str, rows: pa.Table) -> None:
        """Add rows of another gallery, or of roads: one transaction."""
        with writing(self.address):
            self._db.create_table(name, schema=schema(self.manifest, name), exist_ok=True).add(rows)
        self.__dict__.pop("regions", None)

    def drop_unused_roads(self) -> None:
        """Remove rows of roads whose source is not in the manifest: replaced ones, and those of a killed run."""
        if "roads" in self.tables():
            used = ", ".join(str(source.number) for source in self.manifest.roads)
            with writing(self.address):
                self._db.open_table("roads").delete(f"source NOT IN ({used})" if used else "true")

    def save_manifest(self, manifest: GalleryManifest) -> None:
        """Replace the manifest."""
        self.manifest = manifest
        with writing(self.address):
            self._db.create_table("about", pa.table({"text": [manifest.to_json()]}), mode="overwrite")

    def optimize(self, *, in_use: bool, names: Sequence[str] = TABLES) -> None:
        """Join the many small files of a long build, drop what was replaced, and index the rows by place.

        ``in_use``: others may be reading the gallery; what they read is kept for another hour.
        """
        keep = timedelta(hours=1) if in_use else timedelta(0)
        for name in names:
            with writing(self.address), warnings.catch_warnings():
                table = self.index_places(name)
                warnings.simplefilter("ignore", UserWarning)  # that readers of older versions fail: there are none
                table.optimize(cleanup_older_than=keep)

    def index_places(self, name: str) -> Any:
        """Index the rows of a table by place, so that a few are found without reading them all; returns the table."""
        from lancedb.index import BTree  # noqa: PLC0415

        table = self._db.open_table(name)
        if table.count_rows() > 0:
            table.create_index("id", config=BTree(), replace=True)
        return table

    def seal(self) -> None:
        """Write checksums of all files; the last step of every build."""
        write_seal(self.address, {name: self.version(name) for name in self.tables()})

    def version(self, name: str) -> int:
        """The version of a table, which each write makes larger."""
        with reading(self.address):
            return int(self._db.open_table(name).version)

    # Reading ---------------------------------------------------------------------------------------------------------

    @property
    def has_tiles(self) -> bool:
        """Whether it was made for imagery; False for a gallery of roads alone."""
        return bool(self.manifest.codes)

    def roads(self, bounds: Bounds | None = None) -> Roads:
        """The roads of the gallery, or those near an area; none if no roads were added.

        bounds: west, south, east, north in degrees. Roads are cut where they leave the blocks of some 600 m that touch
            this area, so what is returned reaches somewhat beyond it.
        """
        if not self.manifest.roads:
            return Roads.join([])
        where = Where(sources=self._road_numbers(), within=bounds)
        columns = [name for name in ROADS.names if name not in ("id", "west", "south", "east", "north")]
        with reading(self.address):
            return from_rows(self._read("roads", columns, where))

    def ids(self, name: str, source: int | None = None) -> set[int]:
        """The ids of a table's rows: all, or those that a source has put there."""
        if not self.has_tiles:
            return set()
        where = ALL if source is None else Where(sources=(source,))
        return set(self._read(name, ["id"], where)["id"].to_pylist())

    @cached_property
    def regions(self) -> RegionTable:
        """The regions of the grid of which at least half of the tiles hold data, in order of id."""
        m = self.manifest
        return regions_with_data(self.held_tiles(), m.zoom, m.region_tiles, m.stride)

    def held_tiles(self) -> dict[Corner, Bools]:
        """Which tiles at half stride hold data, (16, 16), by the north-west tile of their block."""
        if not self.has_tiles:
            return {}
        table = self._read("tiles", ["x", "y", "valid"])
        with reading(self.address):
            held = masks(table["valid"], HALVES * HALVES).reshape(-1, HALVES, HALVES)
            places = zip(table["x"].to_pylist(), table["y"].to_pylist(), strict=True)
            return dict(zip(places, held, strict=True))

    def tables(self) -> list[str]:
        """The names of its tables."""
        return table_names(self._db)

    def rows(self, name: str, where: Where = ALL) -> Iterator[pa.Table]:
        """The rows of a table as they are stored, some at a time; none if there is no such table."""
        if name in self.tables():
            if name == "roads" and where.sources is None:
                where = replace(where, sources=self._road_numbers())
            yield from self._batches(name, schema(self.manifest, name).names, where)

    def _road_numbers(self) -> tuple[int, ...]:
        """The roads that count: the manifest names them."""
        return tuple(source.number for source in self.manifest.roads)

    def sources_of(self, corners: Sequence[Corner]) -> dict[Corner, int]:
        """The numbers of the sources that blocks came from."""
        if not corners:
            return {}
        table = self._read("tiles", ["x", "y", "source"], self._at(corners))
        places = zip(table["x"].to_pylist(), table["y"].to_pylist(), strict=True)
        return dict(zip(places, table["source"].to_pylist(), strict=True))

    def corners(self) -> list[Corner]:
        """The north-west tiles of all blocks of tiles."""
        if not self.has_tiles:
            return []
        table = self._read("tiles", ["x", "y"])
        return list(zip(table["x"].to_pylist(), table["y"].to_pylist(), strict=True))

    def tile_blocks(self, corners: Sequence[Corner] | None = None) -> Iterator[TileBlock]:
        """The blocks with these north-west tiles, those that there are; without corners all of them."""
        if (corners is not None and not corners) or not self.has_tiles:
            return
        yield from self._tile_blocks(ALL if corners is None else self._at(corners))

    def tile_blocks_between(self, first_id: int, last_id: int) -> Iterator[TileBlock]:
        """The blocks with ids from the first to the last, both included; see :func:`place_id`."""
        yield from self._tile_blocks(Where(between=(first_id, last_id)))

    def block_sources(self) -> dict[int, int]:
        """Which source has put each block of tiles there last, by id."""
        if not self.has_tiles:
            return {}
        table = self._read("tiles", ["id", "source"])
        return dict(zip(table["id"].to_pylist(), table["source"].to_pylist(), strict=True))

    def _tile_blocks(self, where: Where) -> Iterator[TileBlock]:
        headings, small = self.manifest.headings, self.manifest.headings > 1
        for batch in self._batches("tiles", ["x", "y", "codes", *(["steps"] if small else []), "valid"], where):
            with reading(self.address):
                held = masks(batch["valid"], HALVES * HALVES).reshape(-1, HALVES, HALVES)
                places = list(zip(batch["x"].to_pylist(), batch["y"].to_pylist(), strict=True))
            for i, (x, y) in enumerate(places):  # one by one: codes as numbers take four times what is stored
                row = batch.slice(i, 1)
                with reading(self.address):
                    flat = from_byte_columns(row["codes"], row["steps"]) if small else from_column(row["codes"])
                yield TileBlock(x, y, flat.reshape(HALVES, HALVES, headings, self.manifest.dim), held[i])

    def pictures(self, corners: Sequence[Corner]) -> dict[Corner, Image]:
        """Pictures of the blocks with these north-west tiles, (256, 256, 3) each; those that there are."""
        if not corners or not self.has_tiles:
            return {}
        table = self._read("pictures", ["x", "y", "picture"], self._at(corners))
        places = zip(table["x"].to_pylist(), table["y"].to_pylist(), strict=True)
        with reading(self.address):
            return {place: from_jpeg(data) for place, data in zip(places, table["picture"].to_pylist(), strict=True)}

    def region_sets(self, ids: Ints | None = None) -> Iterator[RegionSet]:
        """Set codes of regions, some at a time: of those with these ids, or of all."""
        where = ALL if ids is None else Where.at(ids)
        n, d = self.manifest.region_tiles, self.manifest.dim
        for batch in self._batches("regions", ["id", "whole", "tokens", "valid"], where):
            with reading(self.address):
                tokens = from_column(batch["tokens"]).reshape(-1, n * n, d)
                rows = RegionSet(
                    batch["id"].to_numpy(), from_column(batch["whole"]), tokens, masks(batch["valid"], n * n)
                )
            yield rows

    def _at(self, corners: Sequence[Corner]) -> Where:
        return Where.at(place_id(x, y, self.manifest.zoom) for x, y in corners)

    def _batches(self, name: str, columns: list[str], where: Where = ALL) -> Iterator[pa.Table]:
        self._check(name, whole=where == ALL)
        with reading(self.address):
            for batch in self._query(name, columns, where).to_batches(512):
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])

    def _read(self, name: str, columns: list[str], where: Where = ALL) -> pa.Table:
        self._check(name, whole=False)  # never the large columns of all rows
        with reading(self.address):
            return self._query(name, columns, where).to_arrow()

    def _query(self, name: str, columns: list[str], where: Where) -> Any:
        query, condition = self._db.open_table(name).search().select(columns).limit(None), where.sql()
        return query if condition is None else query.where(condition)

    def _check(self, name: str, *, whole: bool) -> None:
        if self._checks is not None:
            self._checks.table(name, lambda: self.version(name), whole=whole)


def check_encoder(gallery: Gallery, encoder: Encoder) -> None:
    """Refuse a gallery without codes, or whose codes another encoder made.

    A bundle in another precision counts as another encoder, unless it says that it accepts the gallery's.
    """
    require_tiles(gallery)
    if gallery.manifest.encoder not in (encoder.fingerprint, *encoder.spec.accepts):
        raise GalleryError(
            f"The gallery {gallery.address} was made by the bundle {gallery.manifest.encoder}, "
            f"not by {encoder.fingerprint}.",
            "Use that bundle, or index the imagery again: x2l index IMAGERY --bundle BUNDLE --out NEW",
        )


def require_tiles(gallery: Gallery) -> None:
    """Refuse a gallery of roads alone."""
    if not gallery.has_tiles:
        raise GalleryError(
            f"This gallery has roads only, no imagery: {gallery.address}.",
            f"Add aerial imagery: x2l index IMAGERY --out {gallery.address}",
        )


def table_names(db: Any) -> list[str]:
    """The tables of a database."""
    return list(db.list_tables().tables)
