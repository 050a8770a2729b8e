"""Writing aerial imagery as cloud-optimized GeoTIFF."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import rasterio
from affine import Affine

from x2localizer.errors import ImageryError
from x2localizer.files import atomic_path
from x2localizer.sources.imagery.raster_open import GDAL_ERRORS, quiet_gdal
from x2localizer.types import Image

_LEVEL = 4
"""DEFLATE level: 1 is slightly faster and gives files a few percent larger, 9 takes several times as long."""


def write_geotiff(
    path: Path, image: Image, *, crs: str, west: float, north: float, pixel: float, tags: dict[str, str]
) -> None:
    """Write a picture as a cloud-optimized GeoTIFF: lossless, tiled, with averaged overviews.

    (``west``, ``north``) is the outer corner of the north-west pixel and ``pixel`` the side of a pixel, in units of
    ``crs`` (such as "EPSG:3857"). The same input gives the same bytes.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f"image must be 8-bit RGB, not {image.dtype} of shape {image.shape}")
    try:
        system = rasterio.CRS.from_string(crs)
    except ValueError as problem:
        raise ImageryError(f"Unknown coordinate system '{crs}'.", "Use its code, such as EPSG:3857.") from problem
    layout = {
        "driver": "COG",
        "width": image.shape[1],
        "height": image.shape[0],
        "count": 3,
        "dtype": "uint8",
        "crs": system,
        "transform": Affine(pixel, 0.0, west, 0.0, -pixel, north),
        "blocksize": 256,
        "compress": "DEFLATE",
        "level": _LEVEL,
        "predictor": "YES",
        "overview_resampling": "AVERAGE",
        "num_threads": min(4, os.cpu_count() or 1),
    }
    with atomic_path(path) as temporary, quiet_gdal():
        try:
            with rasterio.open(temporary, "w", **layout) as file:
                file.write(np.moveaxis(image, -1, 0))
                file.update_tags(**tags)
        except GDAL_ERRORS as problem:
            raise OSError("the disk may be full") from problem
        if temporary.stat().st_size == 0:  # the file is written on closing, which does not report a full disk
            raise OSError("the disk may be full")
