"""Maps and contact sheets as plain pictures, from any imagery, track and video."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from x2localizer import geo
from x2localizer.errors import ConfigError
from x2localizer.files import atomic_path
from x2localizer.sources.tracks import Track
from x2localizer.types import Image, Position, Region

if TYPE_CHECKING:  # reading imagery is heavy, and a report draws the gallery's own pictures
    from x2localizer.sources.imagery import Imagery

INK, PAPER, DOT = (24, 26, 30), (250, 250, 248), (255, 214, 10)
TRACKS = ((226, 40, 34), (30, 110, 230), (240, 140, 20), (150, 60, 200), (20, 160, 130))


def save_picture(path: Path, image: Image) -> None:
    """Write a PNG or JPEG, by the name's ending, atomically."""
    if path.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise ConfigError(f"Cannot tell the kind of picture from '{path}'.", "Let its name end in .png or .jpg.")
    with atomic_path(path) as target:
        Pillow.fromarray(image).save(target, quality=88)


def label_font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own font, so that pictures look alike everywhere."""
    return ImageFont.load_default(size)


def contact_sheet(
    images: Sequence[Image], labels: Sequence[str], columns: int = 4, width: int = 320, title: str = ""
) -> Image:
    """Pictures in rows with a line of text under each; all are shown ``width`` pixels wide."""
    font, small = label_font(18), label_font(13)
    top = 40 if title else 8
    pictures = [Pillow.fromarray(image) for image in images]
    heights = [max(1, round(width * p.height / p.width)) for p in pictures]
    tall = max(heights, default=1) + 24
    rows = -(-len(pictures) // columns) if pictures else 0
    sheet = Pillow.new("RGB", (columns * (width + 8) + 8, top + rows * tall), PAPER)
    draw = ImageDraw.Draw(sheet)
    if title:
        draw.text((10, 9), title, INK, font)
    for i, (picture, label) in enumerate(zip(pictures, labels, strict=True)):
        x, y = 8 + (i % columns) * (width + 8), top + (i // columns) * tall
        sheet.paste(picture.resize((width, heights[i]), Pillow.Resampling.LANCZOS), (x, y))
        draw.text((x + 2, y + heights[i] + 3), label, INK, small)
    return np.asarray(sheet)


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """A square map picture and the region of tiles it shows."""

    image: Image
    region: Region

    def pixels(self, lats_deg: Sequence[float], lons_deg: Sequence[float]) -> list[tuple[float, float]]:
        """Column and row of positions; those beside the map lie on the side from which it is nearer."""
        x, y = geo.tile_coordinates(np.asarray(lats_deg, float), np.asarray(lons_deg, float), self.region.z)
        scale = self.image.shape[1] / self.region.n
        world, middle = 1 << self.region.z, self.region.n / 2
        columns = (x - self.region.x - middle + world / 2) % world - world / 2 + middle
        return [(float(c * scale), float(r * scale)) for c, r in zip(columns, y - self.region.y, strict=True)]


def overview(imagery: Imagery, pixels: int = 1200) -> Map:
    """All of some imagery as one square map of at most ``pixels``."""
    west, south, east, north = imagery.info.bounds
    for z in range(22, -1, -1):
        x0, y0 = (float(v) for v in geo.tile_coordinates(min(north, geo.MAX_LATITUDE_DEG), west, z))
        x1, y1 = (float(v) for v in geo.tile_coordinates(max(south, -geo.MAX_LATITUDE_DEG), east, z))
        across = (x1 - x0) % (1 << z) if east - west < 359 else float(1 << z)
        count = int(np.ceil(max(across + x0 % 1, y1 - y0 + y0 % 1) - 1e-6)) or 1
        if count <= 40:
            break
    region = Region(z, int(x0), int(y0), max(1, count))
    return Map(imagery.region(region, max(1, pixels // region.n)).image, region)


def around(imagery: Imagery, centre: Position, z: int = 19, n: int = 7, pixels: int = 896) -> Map:
    """The region of imagery around a place as a map."""
    region = geo.region_around(centre, z, n)
    return Map(imagery.region(region, pixels // n).image, region)


def draw_tracks(
    base: Map, tracks: Sequence[tuple[str, Track]], regions: Sequence[Region] = (), dot_spacing_s: float = 5.0
) -> Image:
    """A map with tracks drawn on it, a numbered dot every ``dot_spacing_s`` seconds, and the outlines of regions."""
    canvas = Pillow.fromarray(base.image)
    draw = ImageDraw.Draw(canvas, "RGBA")
    for region in regions:
        lats, lons = geo.from_tile_coordinates(
            np.array([region.x, region.x + region.n], float), np.array([region.y, region.y + region.n], float), region.z
        )
        (x0, y0), (x1, y1) = base.pixels(lats.tolist(), lons.tolist())
        draw.rectangle((x0, y0, x1, y1), outline=(255, 255, 255, 150))
    thick = max(2, canvas.width // 300)
    for k, (name, track) in enumerate(tracks):
        colour = TRACKS[k % len(TRACKS)]
        line = base.pixels(track.lats_deg.tolist(), track.lons_deg.tolist())
        draw.line(line, fill=(255, 255, 255, 220), width=thick + 3, joint="curve")
        draw.line(line, fill=colour, width=thick, joint="curve")
        _dots(draw, base, track, dot_spacing_s, thick)
        x, y = line[0]
        draw.text((x + 8, y + 8), name, colour, label_font(15), stroke_width=2, stroke_fill=(255, 255, 255))
    return np.asarray(canvas)


def _dots(draw: ImageDraw.ImageDraw, base: Map, track: Track, spacing_s: float, thick: int) -> None:
    """A dot every ``spacing_s`` seconds; numbered if there are few."""
    times = np.arange(float(track.times_s[0]), float(track.times_s[-1]) + 1e-6, spacing_s)
    lats, lons = track.positions(times)
    known = np.isfinite(lats)
    spots = base.pixels(lats[known].tolist(), lons[known].tolist())
    numbered = len(spots) <= 12
    size = thick * (2.6 if numbered else 1.2)
    for number, (x, y) in enumerate(spots, 1):
        draw.ellipse((x - size, y - size, x + size, y + size), fill=DOT, outline=INK)
        if numbered:
            draw.text((x, y), str(number), INK, label_font(int(size * 1.5)), anchor="mm")
