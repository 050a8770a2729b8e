"""What imagery looks like as a whole, in bounded time.

A picture of the whole is made from the overviews that a file holds. A file without them would have to be read pixel by
pixel, which may take hours. Then it is sampled: a few hundred small reads take a second, however large the file is.
There are fewer of a file with large blocks, as each read decodes a block; and what takes long is broken off.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from itertools import product

import numpy as np

from x2localizer import geo
from x2localizer.sources.imagery.open import Imagery
from x2localizer.types import Floats, Image, Position

MOST_PIXELS = 1 << 25
"""Stored pixels that are read for a picture of the whole; a few seconds' work."""
PLACES = 576
SAMPLED_PIXELS = 1 << 29
"""Stored pixels that are decoded for a sample."""
LONGEST_S = 30.0
"""Seconds after which no more places are sampled."""
_PASSES = 4
_SIDE_PX = 8
"""Pixels along the side of the square that is read at a place."""


@dataclass(frozen=True, slots=True, eq=False)
class Glance:
    """The whole of some imagery.

    ``image`` shows its bounds, shape (height, width, 3). ``coverage`` is the share of the bounds that is neither black
    nor without data, from 0 to 1. ``places`` is the number of places that were sampled, or 0 if all pixels were read.
    """

    image: Image
    coverage: float
    places: int


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Edges on the Web-Mercator world, as shares of its side; ``east`` exceeds 1 past the antimeridian."""

    west: float
    north: float
    east: float
    south: float

    @property
    def width(self) -> float:
        return max(self.east - self.west, 1e-12)

    @property
    def height(self) -> float:
        return max(self.south - self.north, 1e-12)

    def place(self, across: float, down: float) -> Position:
        """A position by its shares of the width and the height."""
        x, y = self.west + across * self.width, self.north + down * self.height
        lat, lon = geo.from_tile_coordinates(x, y, 0)
        return Position(float(lat), float(lon))


def glance(imagery: Imagery, size: int = 512, most_pixels: int = MOST_PIXELS) -> Glance:
    """The whole of some imagery, ``size`` pixels along its longer side; sampled if it takes too many stored pixels."""
    west, south, east, north = imagery.info.bounds
    limit = geo.MAX_LATITUDE_DEG
    edges: Floats = geo.tile_coordinates(np.clip([north, south], -limit, limit), np.zeros(2), 0)[1]
    bounds = _Bounds((west + 180.0) / 360.0, float(edges[0]), (east + 180.0) / 360.0, float(edges[1]))
    across = max(bounds.width, bounds.height)
    middle = bounds.place(0.5, 0.5)
    if imagery.pixels_behind(middle, 0, size, across) > most_pixels:
        return _sampled(imagery, bounds, size)
    whole = imagery.square(middle, 0, size, across)
    rows, columns = (_inner(length / across, size) for length in (bounds.height, bounds.width))
    image = whole.image[rows, columns]
    return Glance(image, float((image.max(2) > 0).mean()), 0)


def _inner(share: float, size: int) -> slice:
    """The middle part of a side, at least a pixel."""
    length = min(max(1, round(share * size)), size)
    return slice((size - length) // 2, (size - length) // 2 + length)


def _sampled(imagery: Imagery, bounds: _Bounds, size: int) -> Glance:
    zoom, across = imagery.info.zoom, _SIDE_PX / 256
    each = max(imagery.pixels_behind(bounds.place(0.5, 0.5), zoom, _SIDE_PX, across), 1.0)
    count = min(max(1, int(SAMPLED_PIXELS / each)), PLACES)
    columns = min(max(1, round(math.sqrt(count * bounds.width / bounds.height))), count)
    rows = max(1, count // columns)
    image, covered = np.zeros((rows, columns, 3), np.uint8), []
    until_s = time.monotonic() + LONGEST_S
    # In passes from north to south, as files are stored: what is broken off after one is a sample of the whole.
    for row, column in product(sorted(range(rows), key=lambda row: (row % _PASSES, row)), range(columns)):
        here = imagery.square(bounds.place((column + 0.5) / columns, (row + 0.5) / rows), zoom, _SIDE_PX, across)
        covered.append(float((here.image.max(2) > 0).mean()))
        if here.valid.any():
            image[row, column] = here.image[here.valid].mean(0)
        if time.monotonic() > until_s:
            break
    cell = max(1, size // max(rows, columns))
    return Glance(image.repeat(cell, 0).repeat(cell, 1), sum(covered) / len(covered), len(covered))
