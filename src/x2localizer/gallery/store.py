"""The gallery in LanceDB: a local folder, or any object-store address it takes.

    about      one row: what the gallery is (JSON), which bundle made it, which imagery went in
    regions    Phi of each region: its embedding, the tokens of its tiles, which of these hold data
    blocks     phi of the tiles of 8 x 8 tiles at half stride, which hold data, and a small picture to show

Every write is one transaction of LanceDB: whatever is killed, a row is there whole or not at all.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

os.environ.setdefault("LANCEDB_LOG", "error")  # it warns of every table that it makes
import lancedb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lancedb.index import BTree
from PIL import Image as Pillow

from x2localizer.encoders import Bundle
from x2localizer.errors import GalleryError
from x2localizer.gallery.grid import BLOCK, HALVES
from x2localizer.types import Bools, Codes, Image, Region

FORMAT = 1
PICTURE_PX = 32
"""Pixels of a tile in the pictures for display."""


@dataclass(frozen=True, slots=True)
class Source:
    """Imagery that went into a gallery."""

    imagery: str
    bounds: tuple[float, float, float, float]
    done: bool = False


@dataclass(frozen=True, slots=True)
class About:
    """What a gallery is. ``bundle`` is the fingerprint of the bundle that made its embeddings."""

    bundle: str
    zoom: int
    n: int
    stride: int
    dim: int
    sources: tuple[Source, ...] = ()
    format: int = FORMAT

    def with_source(self, index: int, source: Source) -> About:
        """The same with one source changed or added."""
        sources = [*self.sources]
        sources[index : index + 1] = [source]
        return replace(self, sources=tuple(sources))


@dataclass(frozen=True, slots=True, eq=False)
class RegionRow:
    """A region with its embedding (d,), tokens (n n, d), and which tiles hold data (n n,)."""

    region: Region
    whole: Codes
    tokens: Codes
    valid: Bools


@dataclass(frozen=True, slots=True, eq=False)
class BlockRow:
    """Tiles at half stride: the north-west tile, codes (16, 16, d), which hold data, a picture (256, 256, 3)."""

    x: int
    y: int
    codes: Codes
    valid: Bools
    picture: Image


def regions_schema(about: About) -> pa.Schema:
    """Columns of the regions table."""
    tokens = about.n * about.n * about.dim
    return pa.schema([
        pa.field("id", pa.int64()), pa.field("x", pa.int32()), pa.field("y", pa.int32()),
        pa.field("whole", pa.list_(pa.float32(), about.dim)), pa.field("tokens", pa.list_(pa.float32(), tokens)),
        pa.field("valid", pa.binary()), pa.field("source", pa.int32()),
    ])  # fmt: skip


def blocks_schema(about: About) -> pa.Schema:
    """Columns of the blocks table."""
    return pa.schema([
        pa.field("id", pa.int64()), pa.field("x", pa.int32()), pa.field("y", pa.int32()),
        pa.field("codes", pa.list_(pa.float32(), HALVES * HALVES * about.dim)),
        pa.field("valid", pa.binary()), pa.field("picture", pa.binary()), pa.field("source", pa.int32()),
    ])  # fmt: skip


def _fixed(values: npt.NDArray[np.float32]) -> pa.FixedSizeListArray:
    """(rows, width) as a column of vectors."""
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def _vectors(column: pa.ChunkedArray) -> Codes:
    """A column of vectors as (rows, width)."""
    parts = [np.asarray(chunk.flatten(), np.float32).reshape(-1, column.type.list_size) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.zeros((0, column.type.list_size), np.float32)


def place_id(x: int, y: int, zoom: int) -> int:
    """A number for a tile of a zoom level."""
    return (y << zoom) + x


def connect(address: str) -> Any:
    """The database at an address."""
    try:
        return lancedb.connect(address)
    except (OSError, ValueError, RuntimeError) as problem:
        raise GalleryError(f"Cannot open a gallery at {address}: {problem}", "Check the path or address.") from problem


@dataclass
class Gallery:
    """An open gallery."""

    address: str
    about: About
    _db: Any = field(repr=False)

    # Writing ---------------------------------------------------------------------------------------------------------

    def add_regions(self, rows: Sequence[RegionRow], source: int) -> None:
        """Add regions, or put them in the place of those with the same corner: one transaction."""
        x, y = [row.region.x for row in rows], [row.region.y for row in rows]
        table = pa.table(
            [
                pa.array([place_id(a, b, self.about.zoom) for a, b in zip(x, y, strict=True)], pa.int64()),
                pa.array(x, pa.int32()), pa.array(y, pa.int32()),
                _fixed(np.stack([row.whole for row in rows])),
                _fixed(np.stack([row.tokens.reshape(-1) for row in rows])),
                pa.array([row.valid.astype(np.uint8).tobytes() for row in rows], pa.binary()),
                pa.array([source] * len(rows), pa.int32()),
            ],
            schema=regions_schema(self.about),
        )  # fmt: skip
        self._put("regions", table)

    def add_blocks(self, rows: Sequence[BlockRow], source: int) -> None:
        """Add blocks of tiles, or replace them: one transaction."""
        table = pa.table(
            [
                pa.array([place_id(row.x, row.y, self.about.zoom) for row in rows], pa.int64()),
                pa.array([row.x for row in rows], pa.int32()), pa.array([row.y for row in rows], pa.int32()),
                _fixed(np.stack([row.codes.reshape(-1) for row in rows])),
                pa.array([row.valid.astype(np.uint8).tobytes() for row in rows], pa.binary()),
                pa.array([_to_jpeg(row.picture) for row in rows], pa.binary()),
                pa.array([source] * len(rows), pa.int32()),
            ],
            schema=blocks_schema(self.about),
        )  # fmt: skip
        self._put("blocks", table)

    def _put(self, name: str, rows: pa.Table) -> None:
        table = self._db.open_table(name)
        try:
            table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)
        except (OSError, RuntimeError, ValueError) as problem:
            raise GalleryError(
                f"Cannot write to the gallery {self.address}: {_first_line(problem)}",
                "Free some space and run the same command again: it goes on.",
            ) from problem
        self.__dict__.pop("regions", None)

    def tell(self, about: About) -> None:
        """Keep what the gallery is."""
        self.about = about
        _write_about(self._db, about)

    def tidy(self) -> None:
        """Join the many small files of a long build, and index the rows by place."""
        for name in ("regions", "blocks"):
            table = self._db.open_table(name)
            table.optimize()
            if table.count_rows() > 0:
                table.create_index("id", config=BTree(), replace=True)

    # Reading ---------------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether all imagery that was begun is in."""
        return all(source.done for source in self.about.sources)

    def done(self, name: str, source: int) -> set[int]:
        """The ids that a source has put into a table."""
        return set(self._read(name, ["id"], f"source = {source}")["id"].to_pylist())

    def ids(self, name: str) -> set[int]:
        """All ids of a table."""
        return set(self._read(name, ["id"])["id"].to_pylist())

    @cached_property
    def regions(self) -> RegionTable:
        """The regions without their tokens, in order of id."""
        table = self._read("regions", ["id", "x", "y", "whole", "valid"]).sort_by("id")
        valid = (
            np.frombuffer(b"".join(table["valid"].to_pylist()), np.uint8).reshape(-1, self.about.n**2).astype(np.bool_)
        )
        return RegionTable(
            table["id"].to_numpy(), table["x"].to_numpy(), table["y"].to_numpy(), _vectors(table["whole"]), valid,
            self.about.zoom, self.about.n,
        )  # fmt: skip

    def tokens(self, ids: npt.NDArray[np.int64]) -> Codes:
        """The tokens of some regions, in their order: (r, n n, d)."""
        return self._ordered("regions", "tokens", ids).reshape(len(ids), -1, self.about.dim)

    def token_parts(self, rows: int = 512) -> Iterator[tuple[npt.NDArray[np.int64], Codes]]:
        """All tokens, some regions at a time: ids (r,) and tokens (r, n n, d)."""
        reader = self._db.open_table("regions").search().select(["id", "tokens"]).limit(None).to_batches(rows)
        for batch in reader:
            if batch.num_rows:
                column = pa.chunked_array([batch["tokens"]])
                yield batch["id"].to_numpy(), _vectors(column).reshape(batch.num_rows, -1, self.about.dim)

    def blocks(self, corners: Sequence[tuple[int, int]]) -> list[BlockRow]:
        """The blocks with these north-west tiles, those that there are."""
        if not corners:
            return []
        wanted = ", ".join(str(place_id(x, y, self.about.zoom)) for x, y in corners)
        table = self._read("blocks", ["x", "y", "codes", "valid", "picture"], f"id IN ({wanted})")
        codes = _vectors(table["codes"]).reshape(len(table), HALVES, HALVES, self.about.dim)
        return [
            BlockRow(
                table["x"][i].as_py(), table["y"][i].as_py(), codes[i],
                np.frombuffer(table["valid"][i].as_py(), np.uint8).reshape(HALVES, HALVES).astype(np.bool_),
                _from_jpeg(table["picture"][i].as_py()),
            )
            for i in range(len(table))
        ]  # fmt: skip

    def block_corners(self) -> list[tuple[int, int]]:
        """The north-west tiles of all blocks."""
        table = self._read("blocks", ["x", "y"])
        return list(zip(table["x"].to_pylist(), table["y"].to_pylist(), strict=True))

    def _ordered(self, name: str, column: str, ids: npt.NDArray[np.int64]) -> Codes:
        table = self._read(name, ["id", column], f"id IN ({', '.join(str(i) for i in ids)})")
        place = {value: row for row, value in enumerate(table["id"].to_pylist())}
        return _vectors(table[column])[[place[int(i)] for i in ids]]

    def _read(self, name: str, columns: list[str], where: str | None = None) -> pa.Table:
        query = self._db.open_table(name).search().select(columns).limit(None)
        return (query.where(where) if where else query).to_arrow()


@dataclass(frozen=True, slots=True, eq=False)
class RegionTable:
    """All regions as columns: ids (r,), north-west tiles x and y (r,), embeddings (r, d), tiles with data (r, n n)."""

    ids: npt.NDArray[np.int64]
    x: npt.NDArray[np.int32]
    y: npt.NDArray[np.int32]
    whole: Codes
    valid: Bools
    zoom: int
    n: int

    def __len__(self) -> int:
        return len(self.ids)

    def region(self, row: int) -> Region:
        """A region by its row."""
        return Region(self.zoom, int(self.x[row]), int(self.y[row]), self.n)


def open_gallery(address: str, bundle: Bundle | None = None) -> Gallery:
    """Open a finished gallery; one made by another bundle, or half built, is refused with the way out."""
    db = connect(address)
    about = _read_about(db, address)
    gallery = Gallery(address, about, db)
    if bundle is not None and about.bundle != bundle.fingerprint:
        raise GalleryError(
            f"The gallery {address} was made by the bundle {about.bundle}, not by {bundle.fingerprint}.",
            "Use that bundle, or index the imagery again: x2l index IMAGERY --bundle BUNDLE --out NEW",
        )
    if not gallery.finished:
        missing = ", ".join(source.imagery for source in about.sources if not source.done)
        raise GalleryError(
            f"The gallery {address} is half built: {missing} is not all in.",
            f"Finish it: x2l index {missing} --out {address}",
        )
    return gallery


def describe(address: str) -> dict[str, object]:
    """What is in a gallery, finished or not."""
    db = connect(address)
    about = _read_about(db, address)
    counts = {name: db.open_table(name).count_rows() for name in ("regions", "blocks")}
    return {
        "bundle": about.bundle, "zoom": about.zoom, "region tiles": about.n, "stride": about.stride,
        "regions": counts["regions"], "blocks of 8 x 8 tiles": counts["blocks"],
        **{
            f"imagery {i + 1}": f"{s.imagery} ({'all in' if s.done else 'half built'})"
            for i, s in enumerate(about.sources)
        },
    }  # fmt: skip


def open_for_writing(address: str, fresh: About) -> Gallery:
    """Open a gallery to add to, or make one; it must have been made with the same bundle and grid."""
    db = connect(address)
    if "about" not in table_names(db):
        try:
            db.create_table("regions", schema=regions_schema(fresh), exist_ok=True)
            db.create_table("blocks", schema=blocks_schema(fresh), exist_ok=True)
            _write_about(db, fresh)
        except (OSError, RuntimeError) as problem:
            raise GalleryError(
                f"Cannot make a gallery at {address}: {_first_line(problem)}", "Check the path and the disk."
            ) from problem
        return Gallery(address, fresh, db)
    found = _read_about(db, address)
    for name, value in asdict(fresh).items():
        if name != "sources" and asdict(found)[name] != value:
            raise GalleryError(
                f"The gallery {address} has {name} {asdict(found)[name]}, this is {value}.",
                "Choose a new --out, or the same settings.",
            )
    return Gallery(address, found, db)


def table_names(db: Any) -> list[str]:
    """The tables of a database."""
    return list(db.list_tables().tables)


def _read_about(db: Any, address: str) -> About:
    try:
        if "about" not in table_names(db):
            raise GalleryError(f"There is no gallery at {address}.", f"Make one: x2l index IMAGERY --out {address}")
        told = json.loads(db.open_table("about").to_arrow()["text"][0].as_py())
        sources = tuple(Source(s["imagery"], tuple(s["bounds"]), s["done"]) for s in told.pop("sources"))
        about = About(**told, sources=sources)
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, IndexError) as problem:
        raise GalleryError(f"The gallery {address} is damaged.", "Index the imagery again.") from problem
    if about.format != FORMAT:
        raise GalleryError(
            f"The gallery {address} has format {about.format}, this version reads {FORMAT}.",
            "Index the imagery again.",
        )
    return about


def _write_about(db: Any, about: About) -> None:
    db.create_table("about", pa.table({"text": [json.dumps(asdict(about))]}), mode="overwrite")


def _to_jpeg(image: Image) -> bytes:
    out = io.BytesIO()
    Pillow.fromarray(image).save(out, "JPEG", quality=85)
    return out.getvalue()


def _from_jpeg(data: bytes) -> Image:
    return np.asarray(Pillow.open(io.BytesIO(data)).convert("RGB"))


def _first_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0][:200]


__all__ = ["BLOCK", "About", "BlockRow", "Gallery", "RegionRow", "RegionTable", "Source", "open_gallery"]
