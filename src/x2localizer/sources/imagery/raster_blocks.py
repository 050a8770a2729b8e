"""How much of a file a read decodes: whole blocks, with all the bands that are stored in them.

A read of one pixel decodes a block. Most files have blocks of 256 x 256 pixels or a few rows, of three or four bands. A
file may also keep hundreds of bands together in rows of any length; then a look at it decodes gigabytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from rasterio.enums import Interleaving

from x2localizer.errors import ImageryError
from x2localizer.sources.imagery.raster_open import GDAL_ERRORS, without_secrets

MOST_BLOCK_BYTES = 1 << 27
"""Of one decoded block, about half a second's work. Blocks of ordinary files have 0.1 to 50 MB."""
PICTURE_BANDS = 4
"""Bands of a picture with alpha, of a byte each. Pixels of more bytes count as several."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a file.

    width, height: of the file, in pixels.
    columns, rows: of a block, in pixels.
    bands: that are decoded together.
    value_bytes: of one band of a pixel.
    """

    width: int
    height: int
    columns: int
    rows: int
    bands: int
    value_bytes: int

    @property
    def bytes(self) -> int:
        """Memory of one decoded block."""
        return self.columns * self.rows * self.bands * self.value_bytes

    def pixels(self, across: float, down: float) -> float:
        """About how many pixels of a picture are decoded for a window of some columns and rows, wherever it lies."""
        columns = min(across + self.columns - 1, _whole(self.width, self.columns))
        rows = min(down + self.rows - 1, _whole(self.height, self.rows))
        return columns * rows * max(1.0, self.bands * self.value_bytes / PICTURE_BANDS)


def blocks_of(dataset: Any, path: str) -> Blocks:
    """The blocks of an open file; those that are too large to be decoded for a look are refused."""
    try:
        together = dataset.interleaving == Interleaving.pixel
        rows, columns = dataset.block_shapes[0]
    except (*GDAL_ERRORS, ValueError) as problem:
        raise ImageryError(f"{without_secrets(path)} is damaged.", "Download or convert it again.") from problem
    value_bytes = max((_bytes(kind) for kind in dataset.dtypes), default=1)
    bands = dataset.count if together else 1
    blocks = Blocks(dataset.width, dataset.height, columns, rows, bands, value_bytes)
    if blocks.bytes > MOST_BLOCK_BYTES:
        raise ImageryError(
            f"{without_secrets(path)} is stored in blocks of {columns:,} x {rows:,} pixels with {bands:,} "
            f"{'band' if bands == 1 else 'bands'}: {blocks.bytes / 1e6:,.0f} MB have to be decoded for any pixel.",
            "Write the bands of the picture in small blocks: gdal_translate -b 1 -b 2 -b 3 -co TILED=YES FILE OUT.tif",
        )
    return blocks


def _whole(length: int, block: int) -> int:
    """A length, rounded up to whole blocks."""
    return math.ceil(length / block) * block


def _bytes(kind: str) -> int:
    try:
        return np.dtype(kind).itemsize
    except TypeError:  # complex integers, which are refused later
        return 8
