"""Aerial imagery that is stored as square tiles of a few zoom levels, wherever they are stored.

A request is answered from one stored zoom level: the coarsest that is as fine as the request, otherwise the finest,
enlarged. A tile that is missing there is invalid in the picture, even if another level has it, as mixing levels would
hide how coarse the picture is. Finer tiles are averaged down as they are loaded, so memory does not grow with the
number of tiles under a request.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

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

UNREADABLE = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    struct.error,
    zlib.error,
    PIL.Image.DecompressionBombError,
)
"""Exceptions that Pillow's decoders raise for damaged pictures."""
_MOST_TILES_ACROSS = 256
"""Tiles along the side of a picture; more would take minutes."""
_ON_GRID = 1e-6
"""Pixels. A picture this close to the grid of the tiles is cropped without resampling."""


@dataclass(frozen=True, slots=True)
class Level:
    """One stored zoom level: the first and last row of each column, counted from the north."""

    z: int
    columns: dict[int, tuple[int, int]]

    def extent(self) -> Extent:
        """The extent of its tiles."""
        world = float(1 << self.z)
        west, east = around_the_globe(np.array(sorted(self.columns)) / world)
        west, east = (west, east + 1 / world) if east - west + 1 / world < 1 else (0.0, 1.0)
        north = min(first for first, _ in self.columns.values()) / world
        south = (max(last for _, last in self.columns.values()) + 1) / world
        return Extent(west, north, east, south)

    def has(self, tile: TileId) -> bool:
        """Whether a tile lies between the first and the last row of its column."""
        first, last = self.columns.get(tile.x, (0, -1))
        return first <= tile.y <= last


class TilePyramid:
    """Tiles of some zoom levels. Who stores them says how a tile is loaded, and calls :meth:`describe` when open.

    name: of the place they are stored in, for errors.
    """

    def __init__(self, name: str, levels: Iterable[Level]) -> None:
        self.name = name
        self.levels = {level.z: level for level in levels}
        self.bad: set[TileId] = set()
        self._side = 256

    def load(self, tile: TileId) -> PIL.Image.Image | None:
        """A stored tile; None if it is missing. One that cannot be decoded raises one of ``UNREADABLE``."""
        raise NotImplementedError

    def prepare(self, tiles: list[TileId]) -> None:
        """Told which tiles are loaded next, where it helps to know."""

    def describe(self, kind: str, side: int, bands: int) -> None:
        """What the tiles are, once one of them was seen."""
        self._side = side
        finest = self.levels[max(self.levels)]
        extent = finest.extent()
        lat = extent.centre_latitude()
        metres = geo.tile_size_m(lat, finest.z) / side
        self._info = ImageryInfo(kind, "EPSG:3857", extent.degrees(), metres, bands, natural_zoom(lat, metres))

    @property
    def info(self) -> ImageryInfo:
        """Resolution and bounds of the finest level."""
        return self._info

    @property
    def damaged(self) -> int:
        """Number of stored tiles that could not be decoded so far."""
        return len(self.bad)

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
                f"The tiles in {self.name} have zoom {level.z} or finer, too fine for zoom {box.z}.",
                "Ask for a finer zoom, or add coarser levels to the folder (gdal2tiles makes them).",
            )
        side = self._side // shrink
        # One more pixel on all sides, as interpolation at the border needs the neighbours.
        first_x, first_y = math.floor(x - 1 / side), math.floor(y - 1 / side)
        last_x, last_y = math.ceil(x + across + 1 / side), math.ceil(y + across + 1 / side)
        mosaic = PIL.Image.new("RGBA", ((last_x - first_x) * side, (last_y - first_y) * side))
        places = {
            (column, row): TileId(level.z, column % (1 << level.z), row)
            for column in range(first_x, last_x)
            for row in range(first_y, last_y)
        }
        wanted = {place: tile for place, tile in places.items() if level.has(tile) and tile not in self.bad}
        self.prepare(list(wanted.values()))
        for (column, row), tile in wanted.items():
            picture = self._picture(tile, shrink)
            if picture is not None:
                mosaic.paste(picture, ((column - first_x) * side, (row - first_y) * side))
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

    def _level(self, zoom: float) -> Level:
        """The coarsest level that is as fine as a zoom, otherwise the finest."""
        fine = [z for z in self.levels if z >= zoom - 1e-9]
        return self.levels[min(fine) if fine else max(self.levels)]

    def _shrink(self, stored_per_pixel: float) -> int:
        """The power of two by which tiles are averaged down on loading; they stay at least as fine as the picture."""
        shrink = 1
        while shrink * 2 <= stored_per_pixel * (1 + 1e-9) and self._side % (shrink * 2) == 0:
            shrink *= 2
        return shrink

    def _picture(self, tile: TileId, shrink: int) -> PIL.Image.Image | None:
        """A stored tile as RGBA, averaged down; None if it is missing or cannot be read."""
        try:
            stored = self.load(tile)
            if stored is None:
                return None
            with stored:
                if stored.size != (self._side, self._side):
                    raise ValueError("size differs from the other tiles")
                picture = stored.convert("RGBA")
        except UNREADABLE:
            self.bad.add(tile)
            return None
        # Pillow weights colours by their alpha, so those of transparent pixels do not show.
        return picture.reduce(shrink) if shrink > 1 else picture

    def look(self, places: Iterable[TileId], tries: int) -> tuple[int, int] | None:
        """The side in pixels and the number of bands of the first tile that can be read; None if none can."""
        for tile in places:
            try:
                stored = self.load(tile)
                if stored is None:
                    continue
                with stored:
                    stored.load()
                    if stored.width == stored.height:
                        bands = 4 if stored.has_transparency_data else 1 if stored.mode == "L" else 3
                        return stored.width, bands
            except UNREADABLE:
                self.bad.add(tile)
            tries -= 1
            if tries <= 0:
                break
        return None


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
