"""A map from a gallery's own pictures and roads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw

from x2localizer import geo
from x2localizer.gallery.blocks import PICTURE_PX
from x2localizer.gallery.grid import BLOCK, TileSpan
from x2localizer.gallery.store import Gallery
from x2localizer.show.pictures import contact_sheet
from x2localizer.sources.roads import RoadKind, Roads
from x2localizer.types import Bools, Floats, Image, Ints, Position, Region

MOST_PIXELS = 4096
"""Along a side; larger areas are shown at a half, a quarter, ..."""
PAPER = 225
"""Grey where there is no imagery."""
NO_DATA, LEAST_DATA = 8, 0.3
"""Pixels below this brightness hold no data, and neither do tiles with a smaller share of brighter ones. JPEG makes
black a little brighter, and much so beside a tile that holds data."""
APART_TILES, MOST_AREAS = 64, 24
"""Tiles along the side of a cell of :func:`areas_apart`, about 4 km; and areas drawn at the most."""
ROAD_COLOURS = {RoadKind.MAIN: (255, 176, 32), RoadKind.STREET: (255, 255, 255), RoadKind.SERVICE: (176, 190, 200)}
ROAD_WIDTHS = {RoadKind.MAIN: 2.2, RoadKind.STREET: 1.5, RoadKind.SERVICE: 1.0}
"""In thousandths of the picture's longer side."""


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

    def pixels(self, points_deg: Floats) -> Floats:
        """Where points are in the picture, (p, 2): x and y of latitude and longitude."""
        x, y = geo.tile_coordinates(points_deg[:, 0], points_deg[:, 1], self.z)
        world, middle = 1 << self.z, self.image.shape[1] / self.scale / 2
        east = (x - self.west - middle + world / 2) % world - world / 2 + middle
        return np.stack([east * self.scale, (y - self.north) * self.scale], 1)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east, north in degrees; east exceeds 180 across the antimeridian."""
        height, width = self.image.shape[:2]
        bottom = min(self.north + height / self.scale, float(1 << self.z))
        lats, _ = geo.from_tile_coordinates(np.zeros(2), np.array([bottom, max(self.north, 0)]), self.z)
        west = self.west % (1 << self.z) / (1 << self.z) * 360.0 - 180.0
        return west, float(lats[0]), west + width / self.scale / (1 << self.z) * 360.0, float(lats[1])

    def box(self, region: Region) -> tuple[float, float, float]:
        """The north-west corner and the side of a region in the picture."""
        world = 1 << self.z
        east = (region.x - self.west + world // 2) % world - world // 2
        return east * self.scale, (region.y - self.north) * self.scale, region.n * self.scale


def draw_gallery(gallery: Gallery, around: list[Region], least_px: int = 0) -> GalleryMap:
    """The map of the area that some regions span, with a tile of margin; the gallery's roads are drawn over it.

    least_px: smaller maps are enlarged to about this many pixels along their longer side.
    """
    drawn = paint_imagery(gallery, span_around(gallery, around))
    image = drawn.image
    enlarge = min(4, -(-least_px // max(image.shape)))
    if enlarge > 1:
        size = (image.shape[1] * enlarge, image.shape[0] * enlarge)
        image = np.asarray(Pillow.fromarray(image).resize(size, Pillow.Resampling.BICUBIC))
    drawn = replace(drawn, image=image, scale=drawn.scale * max(enlarge, 1))
    return draw_roads(drawn, gallery.roads(drawn.bounds)) if gallery.manifest.roads else drawn


def span_around(gallery: Gallery, around: Sequence[Region]) -> TileSpan:
    """The tiles that some regions span, with a tile of margin."""
    manifest = gallery.manifest
    n, world = manifest.region_tiles, 1 << manifest.zoom
    first = around[0].x
    # Columns relative to the first region, so that a span across the antimeridian stays whole.
    columns = [(region.x - first + world // 2) % world - world // 2 for region in around]
    rows = [region.y for region in around]
    return TileSpan(
        manifest.zoom, first + min(columns) - 1, min(rows) - 1, max(columns) - min(columns) + n + 2,
        max(rows) - min(rows) + n + 2,
    )  # fmt: skip


def paint_imagery(gallery: Gallery, span: TileSpan, most_px: int = MOST_PIXELS) -> GalleryMap:
    """The gallery's pictures of tiles, at most ``most_px`` along a side, without roads; paper where there is none."""
    world, west, north = 1 << span.z, span.west, span.north
    east, south = west + span.columns, north + span.rows
    shrink = 1
    while max(span.columns, span.rows) * PICTURE_PX // shrink > most_px and shrink < PICTURE_PX:
        shrink *= 2
    px = PICTURE_PX // shrink
    image = np.full((span.rows * px, span.columns * px, 3), PAPER, np.uint8)
    for by in range(north // BLOCK * BLOCK, south, BLOCK):
        row = [(bx % world, by) for bx in range(west // BLOCK * BLOCK, east, BLOCK)]
        for (x, y), picture in gallery.pictures(row).items():
            left = ((x - west + world // 2) % world - world // 2) * px
            _paste(image, on_paper(picture)[::shrink, ::shrink], left, (y - north) * px)
    return GalleryMap(image, span.z, west, north, px)


def gallery_picture(gallery: Gallery) -> Image:
    """The map of a whole gallery: its imagery and its roads. Areas that lie far apart are drawn beside each other."""
    table = gallery.regions
    if not len(table):
        return roads_picture(gallery.roads())
    areas = areas_apart(table.x, table.y, table.zoom)
    shown = areas[:MOST_AREAS]
    drawn = [draw_gallery(gallery, [table.region(int(row)) for row in rows]).image for rows in shown]
    if len(areas) == 1:
        return drawn[0]
    lats, lons = table.centres()
    middles = [(len(rows), rows[len(rows) // 2]) for rows in shown]
    labels = [f"{count:,} regions around {lats[row]:.4f}, {lons[row]:.4f}" for count, row in middles]
    of = f"the {MOST_AREAS} largest of " if len(shown) < len(areas) else ""
    columns = min(3, len(drawn))
    return contact_sheet(drawn, labels, columns, width=1400 // columns, title=f"{of}{len(areas):,} areas")


def areas_apart(x: Ints, y: Ints, zoom: int) -> list[Ints]:
    """Rows of regions that lie together, the largest area first: cells that touch are one area, empty ones part two."""
    world = max(1, (1 << zoom) // APART_TILES)
    cells, cell_of = np.unique(np.stack([x // APART_TILES % world, y // APART_TILES], 1), axis=0, return_inverse=True)
    number = {(int(column), int(row)): i for i, (column, row) in enumerate(cells)}
    area = np.full(len(cells), -1, np.int64)
    for first in range(len(cells)):
        found = [first] if area[first] < 0 else []
        while found:
            cell = found.pop()
            area[cell] = first
            column, row = (int(value) for value in cells[cell])
            around = [((column + dx) % world, row + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
            found += [number[place] for place in around if place in number and area[number[place]] < 0]
    of_rows = area[cell_of.reshape(-1)]
    return sorted((np.flatnonzero(of_rows == name) for name in np.unique(area)), key=len, reverse=True)


def roads_picture(roads: Roads, pixels: int = 1400, z: int = 19) -> Image:
    """Roads alone as a map, north up, at most ``pixels`` along a side."""
    if roads.bounds is None:
        return np.full((64, 64, 3), PAPER, np.uint8)
    west, south, east, north = roads.bounds
    x, y = geo.tile_coordinates(np.array([north, south]), np.array([west, east]), z)
    across = (float(x[1]) - float(x[0])) % (1 << z) + 2
    down = float(y[1]) - float(y[0]) + 2
    scale = min(pixels / max(across, down), float(PICTURE_PX))
    image = np.full((int(down * scale) + 1, int(across * scale) + 1, 3), PAPER, np.uint8)
    return draw_roads(GalleryMap(image, z, int(x[0]) - 1, int(y[0]) - 1, scale), roads).image


def draw_roads(base: GalleryMap, roads: Roads) -> GalleryMap:
    """The map with roads drawn on it: main roads over streets over service roads and tracks."""
    canvas = Pillow.fromarray(base.image)
    draw = ImageDraw.Draw(canvas, "RGBA")
    unit = max(canvas.size) / 1000
    pixels = base.pixels(roads.points_deg)
    for kind in sorted(RoadKind, reverse=True):
        lines = [
            [(float(x), float(y)) for x, y in pixels[roads.starts[i] : roads.starts[i + 1]]]
            for i in np.flatnonzero(roads.kinds == kind)
        ]
        width = max(1, round(ROAD_WIDTHS[kind] * unit))
        for colour, line_width in (((40, 44, 52, 130), width + 2), ((*ROAD_COLOURS[kind], 190), width)):
            for line in lines:
                draw.line(line, fill=colour, width=line_width, joint="curve")
    return replace(base, image=np.asarray(canvas))


def tiles_with_data(picture: Image) -> Bools:
    """Which tiles in the picture of a block hold data, (8, 8)."""
    side = len(picture) // BLOCK
    bright = picture.reshape(BLOCK, side, BLOCK, side, 3).max(4) >= NO_DATA
    held: Bools = bright.mean((1, 3)) >= LEAST_DATA
    return held


def on_paper(picture: Image) -> Image:
    """The picture of a block without the black of tiles that hold no data."""
    side = len(picture) // BLOCK
    tiles = picture.reshape(BLOCK, side, BLOCK, side, 3)
    held = tiles_with_data(picture)[:, None, :, None, None]
    return np.where(held, tiles, np.uint8(PAPER)).reshape(picture.shape)


def _paste(image: Image, picture: Image, left: int, top: int) -> None:
    height, width = image.shape[:2]
    x0, x1, y0, y1 = max(0, left), min(width, left + len(picture)), max(0, top), min(height, top + len(picture))
    if x0 < x1 and y0 < y1:
        image[y0:y1, x0:x1] = picture[y0 - top : y1 - top, x0 - left : x1 - left]
