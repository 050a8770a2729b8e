"""A gallery as a map to pan and zoom: tiles by zoom, column and row (XYZ), its bounds, and its roads.

A gallery keeps a picture of 256 x 256 pixels of each block of 8 x 8 tiles: the XYZ tile three levels above its own
zoom. Coarser tiles are made of four finer ones. Finer ones are cut from the imagery itself if it can still be read, and
from those pictures if not.
"""

from __future__ import annotations

import io
import logging
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from PIL import Image as Pillow

from x2localizer.errors import UserError
from x2localizer.gallery.grid import BLOCK
from x2localizer.gallery.store import Gallery
from x2localizer.show.gallery_map import tiles_with_data
from x2localizer.show.viewer import thinned
from x2localizer.sources.imagery import Imagery, open_imagery
from x2localizer.sources.roads import RoadKind, Roads
from x2localizer.types import Image, TileId

SIDE = 256
"""Pixels of a tile."""
COARSER, FINEST = 5, 22
"""Levels above the pictures: a tile there is made of 1,024 of them. And the finest level."""
MOST_KEPT = 1024
"""Tiles kept in memory."""
Bounds = tuple[float, float, float, float]
_log = logging.getLogger("x2localizer.live")


@dataclass(frozen=True, slots=True)
class MapTile:
    """A picture file and its kind."""

    data: bytes
    media_type: str


class MapTiles:
    """Tiles of one gallery. Not thread-safe: call it from one thread."""

    def __init__(self, gallery: Gallery) -> None:
        self._gallery = gallery
        self.picture_zoom = gallery.manifest.zoom - (BLOCK.bit_length() - 1)
        self._imagery = _opened(gallery)
        self._kept: OrderedDict[TileId, Image] = OrderedDict()

    @property
    def zooms(self) -> tuple[int, int]:
        """The coarsest and the finest level that there are tiles of."""
        finest = max([self.picture_zoom, *(imagery.info.zoom for imagery in self._imagery)])
        return max(0, self.picture_zoom - COARSER), min(FINEST, finest)

    def tile(self, z: int, x: int, y: int) -> MapTile:
        """A tile as a file; transparent where there is no imagery, and where there is no such tile."""
        pixels = self._pixels(TileId(z, x % (1 << z), y)) if 0 <= z <= FINEST and 0 <= y < 1 << z else _empty()
        out = io.BytesIO()
        if pixels[..., 3].all():  # JPEG is written ten times as fast
            Pillow.fromarray(pixels[..., :3]).save(out, "JPEG", quality=87)
            return MapTile(out.getvalue(), "image/jpeg")
        Pillow.fromarray(pixels).save(out, "WEBP", quality=82)
        return MapTile(out.getvalue(), "image/webp")

    def close(self) -> None:
        """Close the imagery."""
        for imagery in self._imagery:
            imagery.close()

    def _pixels(self, tile: TileId) -> Image:
        """RGBA pixels of a tile."""
        if not self._gallery.has_tiles or tile.z < self.zooms[0]:
            return _empty()
        pixels = self._kept.pop(tile, None)
        if pixels is None:
            if tile.z > self.picture_zoom:
                pixels = self._sharp(tile)
            elif tile.z == self.picture_zoom:
                pixels = self._picture(tile)
            else:
                pixels = self._joined(tile)
        self._kept[tile] = pixels
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return pixels

    def _picture(self, tile: TileId) -> Image:
        corner = (tile.x * BLOCK, tile.y * BLOCK)
        picture = self._gallery.pictures([corner]).get(corner)
        return _empty() if picture is None else _with_holes(picture)

    def _joined(self, tile: TileId) -> Image:
        """Four tiles of the next level at half their size."""
        whole = np.zeros((2 * SIDE, 2 * SIDE, 4), np.uint8)
        for down in (0, 1):
            for right in (0, 1):
                part = self._pixels(TileId(tile.z + 1, 2 * tile.x + right, 2 * tile.y + down))
                whole[down * SIDE : (down + 1) * SIDE, right * SIDE : (right + 1) * SIDE] = part
        return np.asarray(Pillow.fromarray(whole).reduce(2))

    def _sharp(self, tile: TileId) -> Image:
        """A tile cut from the imagery; later imagery lies over earlier. What it lacks is taken from the next level."""
        parent = self._pixels(TileId(tile.z - 1, tile.x // 2, tile.y // 2))
        half = SIDE // 2
        top, left = tile.y % 2 * half, tile.x % 2 * half
        quarter = Pillow.fromarray(parent[top : top + half, left : left + half])
        pixels = np.array(quarter.resize((SIDE, SIDE), Pillow.Resampling.BICUBIC))
        for imagery in self._imagery:
            try:
                cut = imagery.tile(tile, SIDE)
            except UserError as problem:
                _log.warning("imagery cannot be read", extra={"reason": problem.what})
                continue
            pixels[cut.valid, :3] = cut.image[cut.valid]
            pixels[cut.valid, 3] = 255
        return pixels


def map_bounds(gallery: Gallery) -> Bounds | None:
    """West, south, east and north of a gallery in degrees; east exceeds 180 across the antimeridian."""
    boxes = [source.bounds for source in gallery.manifest.sources if gallery.has_tiles]
    boxes += [source.bounds for source in gallery.manifest.roads]
    if not boxes:
        return None
    first = boxes[0][0]
    wests = [(west - first + 180.0) % 360.0 - 180.0 + first for west, _, _, _ in boxes]
    easts = [west + (box[2] - box[0]) % 360.0 for west, box in zip(wests, boxes, strict=True)]
    return min(wests), min(box[1] for box in boxes), max(easts), max(box[3] for box in boxes)


def road_lines(roads: Roads, west: float) -> list[list[list[list[float]]]]:
    """Lines of latitude and longitude by kind of road, for a browser; longitudes go on east of the map's west edge."""
    degrees = np.array(roads.points_deg)
    degrees[:, 1] = (degrees[:, 1] - west + 1.0) % 360.0 + west - 1.0
    out = []
    for kind in RoadKind:
        lines = [degrees[roads.starts[i] : roads.starts[i + 1]] for i in np.flatnonzero(roads.kinds == kind)]
        out.append([np.round(line, 6).tolist() for line in thinned(lines, 1e-5)])
    return out


def _opened(gallery: Gallery) -> list[Imagery]:
    """The imagery that a gallery was made of, as far as it can still be read."""
    opened = []
    for source in gallery.manifest.sources:
        try:
            opened.append(open_imagery(source.imagery))
        except UserError as problem:
            _log.info("the map shows the gallery's own pictures", extra={"reason": problem.what})
    return opened


def _with_holes(picture: Image) -> Image:
    """The picture of a block as RGBA; tiles without data are transparent."""
    side = len(picture) // BLOCK
    alpha = np.where(tiles_with_data(picture).repeat(side, 0).repeat(side, 1), 255, 0).astype(np.uint8)
    return np.concatenate([picture, alpha[..., None]], 2)


def _empty() -> Image:
    return np.zeros((SIDE, SIDE, 4), np.uint8)
