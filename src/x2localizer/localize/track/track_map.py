"""A gallery made ready for tracking."""

from __future__ import annotations

from dataclasses import dataclass

from x2localizer.errors import GalleryError
from x2localizer.gallery.store import Gallery
from x2localizer.localize.track.fields import RoadField, TileField, patches_of
from x2localizer.localize.track.patches import Patches
from x2localizer.search.prior import Prior
from x2localizer.sources.roads import Roads

MOST_TILES = 2_000_000
"""Tiles at half stride that fit into memory at once: about 1,600 square kilometres."""


@dataclass(frozen=True, slots=True, eq=False)
class TrackMap:
    """A gallery made ready for tracking; several trackers can share one."""

    gallery: Gallery
    patches: Patches
    roads: RoadField | None
    tiles: TileField | None
    prior: Prior | None = None

    @property
    def km2(self) -> float:
        """Square kilometres that it covers."""
        _, rows, columns, height = self.patches.corners.T
        side_m = self.patches.tile_m(rows + height / 2)
        return float((columns * height * side_m**2).sum() / 1e6)

    @staticmethod
    def of(gallery: Gallery, prior: Prior | None = None, *, roads: bool = True, tiles: bool = True) -> TrackMap:
        """All roads and tiles of a gallery, or those that a prior allows."""
        lines = gallery.roads() if roads else Roads.join([])
        patches = patches_of(gallery, lines, prior)
        if int(patches.offsets(2)[-1]) > MOST_TILES:
            raise GalleryError(
                f"The gallery {gallery.address} is too large to be followed as a whole.",
                "Say roughly where the camera is, with --near LAT,LON,KM.",
            )
        road_field = RoadField.of(lines, patches) if len(lines) else None
        tile_field = TileField.of(gallery.tile_blocks(), patches, prior) if tiles and gallery.has_tiles else None
        if road_field is None and tile_field is None:
            raise GalleryError(
                f"The gallery {gallery.address} holds nothing to track on there.", "Add roads or imagery: x2l index"
            )
        return TrackMap(gallery, patches, road_field, tile_field, prior)
