"""Aerial imagery in a folder of tiles: ``{z}/{x}/{y}.png``, ``.jpg``, ``.jpeg`` or ``.webp``.

A request is answered from one stored zoom level: the coarsest that is as fine as the request, otherwise the finest,
enlarged. A tile that is missing there is invalid in the picture, even if another level has it, as mixing levels would
hide how coarse the picture is. Finer tiles are averaged down as they are loaded, so memory does not grow with the
number of tiles under a request.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import PIL.Image

from x2localizer import geo
from x2localizer.errors import ImageryError
from x2localizer.sources.imagery.pixel_source import (
    VALID_FROM_ALPHA,
    Box,
    Extent,
    ImageryInfo,
    around_the_globe,
    blank,
    natural_zoom,
)
from x2localizer.types import Image, Mask, TileId

_SUFFIXES = {".png", ".jpg", ".jpeg", ".webp"}
_UNREADABLE = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    struct.error,
    zlib.error,
    PIL.Image.DecompressionBombError,
)
"""Exceptions that Pillow's decoders raise for damaged pictures."""
_TRIES = 100
"""Tiles to try until one can be read; its size is taken for all."""
_MOST_TILES_ACROSS = 256
"""Tiles along the side of a picture; more would take minutes."""
_ON_GRID = 1e-6
"""Pixels. A picture this close to the grid of the tiles is cropped without resampling."""


@dataclass(frozen=True, slots=True)
class _Level:
    """One stored zoom level: the first and last row of each column, counted from the north."""

    z: int
    columns: dict[int, tuple[int, int]]
    suffixes: tuple[str, ...]

    def extent(self) -> Extent:
        """The extent of its tiles."""
        world = float(1 << self.z)
        west, east = around_the_globe(np.array(sorted(self.columns)) / world)
        west, east = (west, east + 1 / world) if east - west + 1 / world < 1 else (0.0, 1.0)
        north = min(first for first, _ in self.columns.values()) / world
        south = (max(last for _, last in self.columns.values()) + 1) / world
        return Extent(west, north, east, south)


class TileFolder:
    """A folder of tiles; with ``tms`` its rows are counted from the south."""

    def __init__(self, folder: Path, tms: bool) -> None:
        self._folder = folder
        self._tms = tms
        self._bad: set[TileId] = set()
        try:
            self._levels = {level.z: level for level in _scan(folder, tms)}
        except OSError as problem:
            raise ImageryError(
                f"Cannot list the folder {folder}: {problem.strerror}.", "Check your access to it."
            ) from problem
        if not self._levels:
            raise ImageryError(
                f"The folder {folder} contains no map tiles.",
                "Use a folder of {z}/{x}/{y}.png, .jpg or .webp tiles; to use several GeoTIFFs as one, "
                "gdalbuildvrt <all.vrt> <files>.",
            )
        finest = self._levels[max(self._levels)]
        self._side, bands = self._look(finest)
        extent = finest.extent()
        lat = extent.centre_latitude()
        metres = geo.tile_size_m(lat, finest.z) / self._side
        self._info = ImageryInfo("XYZ folder", "EPSG:3857", extent.degrees(), metres, bands, natural_zoom(lat, metres))

    @property
    def info(self) -> ImageryInfo:
        """Resolution and bounds of the finest level."""
        return self._info

    @property
    def damaged(self) -> int:
        """Number of stored tiles that could not be decoded so far."""
        return len(self._bad)

    def extent(self, z: int) -> Extent:
        """The extent of the stored level that tiles of 256 pixels of a zoom are made of."""
        return self._level(z + math.log2(256 / self._side)).extent()

    def close(self) -> None:
        """Nothing is kept open."""

    def read(self, box: Box, size: int) -> tuple[Image, Mask]:
        """The pixels of a box, from all tiles that it touches."""
        level = self._level(box.z + math.log2(size / box.across / self._side))
        scale = 2.0 ** (level.z - box.z)  # tiles of the level per tile of the box
        x, y, across = box.x * scale, box.y * scale, box.across * scale
        shrink = self._shrink(across * self._side / size)
        if shrink > 1 and across > _MOST_TILES_ACROSS:
            raise ImageryError(
                f"The tiles in {self._folder} have zoom {level.z} or finer, too fine for zoom {box.z}.",
                "Ask for a finer zoom, or add coarser levels to the folder (gdal2tiles makes them).",
            )
        side = self._side // shrink
        # One more pixel on all sides, as interpolation at the border needs the neighbours.
        first_x, first_y = math.floor(x - 1 / side), math.floor(y - 1 / side)
        last_x, last_y = math.ceil(x + across + 1 / side), math.ceil(y + across + 1 / side)
        mosaic = PIL.Image.new("RGBA", ((last_x - first_x) * side, (last_y - first_y) * side))
        for column in range(first_x, last_x):
            for row in range(first_y, last_y):
                tile = self._load(level, column % (1 << level.z), row, shrink)
                if tile is not None:
                    mosaic.paste(tile, ((column - first_x) * side, (row - first_y) * side))
        return _cut(mosaic, (x - first_x) * side, (y - first_y) * side, across * side, size)

    def pixels_behind(self, box: Box, size: int) -> float:
        """About how many pixels the stored tiles under a box have."""
        level = self._level(box.z + math.log2(size / box.across / self._side))
        scale = 2.0 ** (level.z - box.z)
        if self._shrink(box.across * scale * self._side / size) > 1 and box.across * scale > _MOST_TILES_ACROSS:
            return math.inf
        first_x, first_y = math.floor(box.x * scale), math.floor(box.y * scale)
        last_x, last_y = math.ceil((box.x + box.across) * scale), math.ceil((box.y + box.across) * scale)
        tiles = 0
        for column in range(first_x, last_x):
            top, bottom = level.columns.get(column % (1 << level.z), (0, -1))
            tiles += max(0, min(bottom + 1, last_y) - max(top, first_y))
        return float(tiles * self._side**2)

    def _level(self, zoom: float) -> _Level:
        """The coarsest level that is as fine as a zoom, otherwise the finest."""
        fine = [z for z in self._levels if z >= zoom - 1e-9]
        return self._levels[min(fine) if fine else max(self._levels)]

    def _shrink(self, stored_per_pixel: float) -> int:
        """The power of two by which tiles are averaged down on loading; they stay at least as fine as the picture."""
        shrink = 1
        while shrink * 2 <= stored_per_pixel * (1 + 1e-9) and self._side % (shrink * 2) == 0:
            shrink *= 2
        return shrink

    def _load(self, level: _Level, x: int, y: int, shrink: int) -> PIL.Image.Image | None:
        """A stored tile as RGBA, averaged down; None if it is missing or cannot be read."""
        rows = level.columns.get(x)
        tile = TileId(level.z, x, y)
        if rows is None or not rows[0] <= y <= rows[1] or tile in self._bad:
            return None
        for path in self._paths(level, x, y):
            try:
                with PIL.Image.open(path) as stored:
                    if stored.size != (self._side, self._side):
                        raise ValueError("size differs from the other tiles")
                    picture = stored.convert("RGBA")
                # Pillow weights colours by their alpha, so those of transparent pixels do not show.
                return picture.reduce(shrink) if shrink > 1 else picture
            except FileNotFoundError:
                continue
            except _UNREADABLE:
                self._bad.add(tile)
        return None

    def _paths(self, level: _Level, x: int, y: int) -> Iterator[Path]:
        """Paths at which a tile may be stored; ``y`` is counted from the north."""
        row = (1 << level.z) - 1 - y if self._tms else y
        for suffix in level.suffixes:
            yield self._folder / str(level.z) / str(x) / f"{row}{suffix}"

    def _look(self, level: _Level) -> tuple[int, int]:
        """The side of the tiles in pixels, and their number of bands."""
        places = ((x, y) for x, (first, last) in sorted(level.columns.items()) for y in range(first, last + 1))
        tries = 0
        for x, y in places:
            for path in self._paths(level, x, y):
                try:
                    with PIL.Image.open(path) as tile:
                        tile.load()
                        if tile.width == tile.height:
                            bands = 4 if tile.has_transparency_data else 1 if tile.mode == "L" else 3
                            return tile.width, bands
                except FileNotFoundError:
                    continue
                except _UNREADABLE:
                    self._bad.add(TileId(level.z, x, y))
                tries += 1
            if tries >= _TRIES:
                break
        raise ImageryError(
            f"The tiles in {self._folder / str(level.z)} cannot be read as pictures.",
            "Copy or download them again.",
        )


def _cut(mosaic: PIL.Image.Image, left: float, top: float, side: float, size: int) -> tuple[Image, Mask]:
    """A square of a mosaic, resized; unchanged where the pixels coincide."""
    column, row = round(left), round(top)
    if max(abs(side - size), abs(left - column), abs(top - row)) < _ON_GRID:
        cut = mosaic.crop((column, row, column + size, row + size))
    else:
        box = (left, top, left + side, top + side)
        cut = mosaic.resize((size, size), PIL.Image.Resampling.BILINEAR, box=box)
    image, valid = blank(size)
    pixels = np.asarray(cut)
    valid |= pixels[..., 3] >= VALID_FROM_ALPHA
    image[valid] = pixels[valid][:, :3]
    return image, valid


def _scan(folder: Path, tms: bool) -> Iterator[_Level]:
    """The zoom levels in a folder; files with other names are ignored."""
    for zoom_folder in _numbered(folder, 31):
        z = int(zoom_folder.name)
        world = 1 << z
        columns: dict[int, tuple[int, int]] = {}
        suffixes: set[str] = set()
        for column_folder in _numbered(zoom_folder, world):
            rows = []
            for path in column_folder.iterdir():
                if path.suffix.lower() in _SUFFIXES and path.stem.isdecimal() and int(path.stem) < world:
                    rows.append(world - 1 - int(path.stem) if tms else int(path.stem))
                    suffixes.add(path.suffix)
            if rows:
                columns[int(column_folder.name)] = (min(rows), max(rows))
        if columns:
            yield _Level(z, columns, tuple(sorted(suffixes)))


def _numbered(folder: Path, below: int) -> Iterator[Path]:
    """Subfolders that are named by a number less than ``below``."""
    for path in folder.iterdir():
        if path.name.isdecimal() and int(path.name) < below and path.is_dir():
            yield path
