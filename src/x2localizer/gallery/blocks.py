"""What a gallery is made of: blocks of tiles with their pictures, and sets of regions."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image as Pillow

from x2localizer.types import Bools, Codes, Image, Ints

PICTURE_PX = 32
"""Pixels of a tile in the pictures for display."""
Corner = tuple[int, int]
"""The north-west tile of a block: column and row."""


@dataclass(frozen=True, slots=True, eq=False)
class TileBlock:
    """8 x 8 tiles at half stride.

    x, y: the north-west tile.
    codes: image codes, (16, 16, headings, d).
    valid: which tiles hold data, (16, 16).
    """

    x: int
    y: int
    codes: Codes
    valid: Bools


@dataclass(frozen=True, slots=True, eq=False)
class RegionSet:
    """Set codes of some regions.

    ids: of the regions, (r,); see :func:`place_id`.
    whole: a code for each region, (r, d).
    tokens: a code for each of its tiles, (r, n n, d).
    valid: which tiles hold data, (r, n n).
    """

    ids: Ints
    whole: Codes
    tokens: Codes
    valid: Bools


def place_id(x: int, y: int, zoom: int) -> int:
    """A number for a tile of a zoom level."""
    return (y << zoom) + x


def to_jpeg(image: npt.NDArray[np.uint8]) -> bytes:
    """A picture for display, (h, w, 3), as a file."""
    out = io.BytesIO()
    Pillow.fromarray(image).save(out, "JPEG", quality=85)
    return out.getvalue()


def from_jpeg(data: bytes) -> Image:
    """The picture of such a file."""
    return np.asarray(Pillow.open(io.BytesIO(data)).convert("RGB"))
