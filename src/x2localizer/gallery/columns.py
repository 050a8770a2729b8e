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

    tiles = HALVES * HALVES * manifest.headings
    small = [("codes", pa.list_(pa.int8(), tiles * manifest.dim)), ("steps", pa.list_(pa.float16(), tiles))]
    columns = {
        "tiles": [*(small if manifest.headings > 1 else [("codes", codes(tiles))]), ("valid", pa.binary())],
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


def to_byte_columns(values: Codes) -> dict[str, pa.FixedSizeListArray]:
    """Codes, (rows, n, d), as columns of 8-bit vectors and of what a step of each is worth."""
    _, count, d = values.shape
    steps = (np.maximum(np.abs(values).max(2), 0.01) / 127.0).astype(np.float16)
    whole = np.clip(np.rint(values / steps[..., None].astype(np.float32)), -127, 127).astype(np.int8)
    return {
        "codes": pa.FixedSizeListArray.from_arrays(pa.array(whole.reshape(-1)), count * d),
        "steps": pa.FixedSizeListArray.from_arrays(pa.array(steps.reshape(-1)), count),
    }


def from_byte_columns(codes: pa.ChunkedArray, steps: pa.ChunkedArray) -> Codes:
    """Codes of such columns, (rows, n, d)."""
    scale = from_column(steps)
    return from_column(codes).reshape(*scale.shape, -1) * scale[..., None]


def masks(column: pa.ChunkedArray, count: int) -> Bools:
    """A column of masks, (rows, count)."""
    return np.frombuffer(b"".join(column.to_pylist()), np.uint8).reshape(-1, count).astype(np.bool_)
