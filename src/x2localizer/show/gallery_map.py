"""A map from a gallery's own pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw

from x2localizer import geo
from x2localizer.gallery.grid import BLOCK
from x2localizer.gallery.store import PICTURE_PX, Gallery
from x2localizer.sources.tracks import Track
from x2localizer.types import Fix, Image, Position, Region

MOST_PIXELS = 4096
"""Along a side; larger areas are shown at a half, a quarter, ..."""


@dataclass(frozen=True, slots=True, eq=False)
class GalleryMap:
    """A picture, its north-west corner in tiles (columns may run past the antimeridian), and pixels per tile."""

    image: Image
    z: int
    west: int
    north: int
    scale: float

    def pixel(self, place: Position) -> tuple[float, float]:
        """Where a place is in the picture: (x, y)."""
        x, y = geo.tile_coordinates(place.lat_deg, place.lon_deg, self.z)
        world = 1 << self.z
        east = (float(x) - self.west + world / 2) % world - world / 2
        return east * self.scale, (float(y) - self.north) * self.scale

    def box(self, region: Region) -> tuple[float, float, float]:
        """The north-west corner and the side of a region in the picture."""
        world = 1 << self.z
        east = (region.x - self.west + world // 2) % world - world // 2
        return east * self.scale, (region.y - self.north) * self.scale, region.n * self.scale


def draw_gallery(gallery: Gallery, around: list[Region]) -> GalleryMap:
    """The map of the area that some regions span, with a tile of margin."""
    manifest = gallery.manifest
    n, world = manifest.region_tiles, 1 << manifest.zoom
    first = around[0].x
    # Columns relative to the first region, so that a span across the antimeridian stays whole.
    columns = [(region.x - first + world // 2) % world - world // 2 for region in around]
    west, east = first + min(columns) - 1, first + max(columns) + n + 1
    north, south = min(region.y for region in around) - 1, max(region.y for region in around) + n + 1
    shrink = 1
    while max(east - west, south - north) * PICTURE_PX // shrink > MOST_PIXELS and shrink < PICTURE_PX:
        shrink *= 2
    px = PICTURE_PX // shrink
    image = np.full(((south - north) * px, (east - west) * px, 3), 225, np.uint8)
    for by in range(north // BLOCK * BLOCK, south, BLOCK):
        row = [(bx % world, by) for bx in range(west // BLOCK * BLOCK, east, BLOCK)]
        for (x, y), picture in gallery.pictures(row).items():
            left = ((x - west + world // 2) % world - world // 2) * px
            _paste(image, picture[::shrink, ::shrink], left, (y - north) * px)
    return GalleryMap(image, manifest.zoom, west, north, px)


def track_picture(gallery: Gallery, fixes: Sequence[Fix], truth: Track | None = None) -> Image:
    """The map with the truth as a line, sure fixes as large and other guesses as small dots."""
    regions = [fix.region for fix in fixes if fix.region is not None]
    if not regions:
        return np.full((64, 64, 3), 225, np.uint8)
    drawn = draw_gallery(gallery, regions)
    canvas = Pillow.fromarray(drawn.image)
    draw = ImageDraw.Draw(canvas, "RGBA")
    unit = max(canvas.size) / 500
    if truth is not None:
        known = [drawn.pixel(place) for fix in fixes if (place := truth.at(fix.time_s)) is not None]
        if len(known) > 1:
            draw.line(known, fill=(255, 255, 255, 230), width=round(4 * unit), joint="curve")
            draw.line(known, fill=(20, 20, 20, 255), width=max(1, round(1.5 * unit)), joint="curve")
    for fix in fixes:
        if fix.guess is not None:
            x, y = drawn.pixel(fix.guess)
            sure = fix.position is not None
            r = (3.0 if sure else 1.6) * unit
            draw.ellipse((x - r, y - r, x + r, y + r), fill=(230, 0, 126, 235) if sure else (255, 157, 0, 190))
    return np.asarray(canvas)


def _paste(image: Image, picture: Image, left: int, top: int) -> None:
    height, width = image.shape[:2]
    x0, x1, y0, y1 = max(0, left), min(width, left + len(picture)), max(0, top), min(height, top + len(picture))
    if x0 < x1 and y0 < y1:
        image[y0:y1, x0:x1] = picture[y0 - top : y1 - top, x0 - left : x1 - left]
