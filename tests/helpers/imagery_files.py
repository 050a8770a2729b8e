"""Tiny georeferenced rasters for the tests of imagery."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import rasterio
from affine import Affine

from x2localizer import geo
from x2localizer.types import TileId

Pixels = npt.NDArray[Any]
"""As rasterio has them: (bands, height, width)."""

AT = TileId(12, 1000, 700)
"""The north-west tile of the rasters whose pixels coincide with those of tiles."""


def noise(bands: int = 3, side: int = 1024) -> Pixels:
    return np.random.default_rng(5).integers(0, 256, (bands, side, side), dtype=np.uint8)


def write(path: Path, pixels: Pixels, crs: str | None, transform: Affine | None, **options: Any) -> Path:
    layout = {"driver": "GTiff", "tiled": True, "blockxsize": 256, "blockysize": 256} | options
    with rasterio.open(
        path,
        "w",
        width=pixels.shape[2],
        height=pixels.shape[1],
        count=pixels.shape[0],
        dtype=pixels.dtype,
        crs=crs,
        transform=transform,
        **layout,
    ) as file:
        file.write(pixels)
    return path


def on_tiles(at: TileId = AT) -> Affine:
    west, _, east, north = geo.mercator_bounds(at.x, at.y, at.z)
    return Affine((east - west) / 256, 0.0, west, 0.0, -(east - west) / 256, north)


def on_grid(path: Path, pixels: Pixels, **options: Any) -> Path:
    """A file in Web Mercator whose pixels are the pixels of the tiles from ``AT`` on."""
    return write(path, pixels, "EPSG:3857", on_tiles(), **options)


def first_rows(pixels: Pixels, column: int, row: int, side: int = 256) -> Pixels:
    """The pixels of a tile of a file made by :func:`on_grid`, as height, width, bands."""
    return np.moveaxis(pixels[:, row * 256 : row * 256 + side, column * 256 : column * 256 + side], 0, -1)
