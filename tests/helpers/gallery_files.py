"""Small GeoTIFFs that lie exactly on the tiles of zoom 19."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import rasterio
from rasterio.transform import from_origin

from x2localizer.types import Image

PX = 32
"""Pixels of a tile."""
WORLD = 1 << 19


def write_noise(path: Path, x: int, y: int, tiles: int, seed: int = 0, hole: tuple[int, int] | None = None) -> Path:
    """Coloured noise over some tiles of zoom 19; a tile may be missing."""
    rng = np.random.default_rng(seed)
    colours = rng.integers(30, 226, (tiles * 4, tiles * 4, 3), dtype=np.uint8)
    image: Image = colours.repeat(PX // 4, 0).repeat(PX // 4, 1)
    if hole is not None:
        image[hole[0] * PX : (hole[0] + 1) * PX, hole[1] * PX : (hole[1] + 1) * PX] = 0
    write_tiles(path, image, x, y, nodata=hole is not None)
    return path


def write_tiles(path: Path, image: Image, x: int, y: int, *, nodata: bool) -> None:
    """Write a picture whose north-west corner is the corner of tile (x, y)."""
    side = 2 * 20037508.342789244
    step = side / WORLD / PX
    profile = {
        "driver": "GTiff", "width": image.shape[1], "height": image.shape[0], "count": 3, "dtype": "uint8",
        "crs": "EPSG:3857", "transform": from_origin(-side / 2 + x * PX * step, side / 2 - y * PX * step, step, step),
        **({"nodata": 0} if nodata else {}),
    }  # fmt: skip
    with rasterio.open(path, "w", **profile) as file:
        file.write(image.transpose(2, 0, 1))


def write_streets(path: Path, west: float, east: float, south: float, north: float) -> Path:
    """Two streets, one along each axis of a box."""
    middle = (south + north) / 2
    lines = [[[west, middle], [east, middle]], [[(west + east) / 2, south], [(west + east) / 2, north]]]
    street = {"type": "Feature", "properties": {"highway": "residential"}}
    features = [{**street, "geometry": {"type": "LineString", "coordinates": line}} for line in lines]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path
