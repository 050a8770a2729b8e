"""The columns of a gallery's tables, and codes as such columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from x2localizer.gallery.grid import HALVES
from x2localizer.gallery.manifest import GalleryManifest
from x2localizer.types import Bools, Codes

ROADS = pa.schema([
    *((name, pa.int64()) for name in ("source", "id")),
    *((name, pa.float64()) for name in ("west", "south", "east", "north")),
    *((name, pa.binary()) for name in ("points", "sizes", "kinds", "oneway", "numbers", "firsts")),
])  # fmt: skip
"""The table of roads; see :mod:`x2localizer.gallery.roads`."""


def schema(manifest: GalleryManifest, name: str) -> pa.Schema:
    """The columns of a table."""
    if name == "roads":
        return ROADS

    def codes(count: int) -> pa.DataType:
        return pa.list_(pa.float16(), count * manifest.dim)

    columns = {
        "tiles": [("codes", codes(HALVES * HALVES)), ("valid", pa.binary())],
        "pictures": [("picture", pa.binary())],
        "regions": [("whole", codes(1)), ("tokens", codes(manifest.region_tiles**2)), ("valid", pa.binary())],
    }
    place = [("id", pa.int64()), ("x", pa.int32()), ("y", pa.int32()), ("source", pa.int32())]
    return pa.schema([pa.field(*column) for column in place + columns[name]])


def to_column(values: Codes) -> pa.FixedSizeListArray:
    """Codes, (rows, ...), as a column of 16-bit vectors."""
    flat = np.ascontiguousarray(values.reshape(len(values), -1), np.float16)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), flat.shape[1])


def from_column(column: pa.ChunkedArray) -> Codes:
    """A column of vectors as 32-bit codes, (rows, width)."""
    parts = [chunk.flatten().to_numpy().reshape(-1, column.type.list_size) for chunk in column.chunks]
    return np.concatenate(parts).astype(np.float32) if parts else np.zeros((0, column.type.list_size), np.float32)


def masks(column: pa.ChunkedArray, count: int) -> Bools:
    """A column of masks, (rows, count)."""
    return np.frombuffer(b"".join(column.to_pylist()), np.uint8).reshape(-1, count).astype(np.bool_)
