"""Where a belief that knows nothing may start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from x2localizer import geo
from x2localizer.localize.track.fields import RoadField, TileField
from x2localizer.localize.track.patches import Patches
from x2localizer.search.prior import Prior
from x2localizer.types import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Starts:
    """Where poses may start: places in tiles, directions of roads in radians, patches, (n,) each."""

    x: Floats
    y: Floats
    headings: Floats
    patch: Ints

    def __len__(self) -> int:
        return len(self.x)

    def evenly(self, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """So many of them, evenly spaced over all of them in two directions: their numbers, and 0 or 1 for each."""
        both = 2 * len(self)
        at = ((np.arange(count) + rng.uniform(size=count)) * (both / count)).astype(np.int64)
        direction, number = np.divmod(np.minimum(at, both - 1), len(self))
        return number, direction

    @staticmethod
    def on(patches: Patches, roads: RoadField | None, tiles: TileField | None, prior: Prior | None = None) -> Starts:
        """Points on roads; without roads, the middles of tiles. With a prior those that it allows, if there are any."""
        if roads is not None:
            starts = Starts(roads.x, roads.y, roads.headings, roads.patch)
        elif tiles is not None:
            x, y = tiles.places()
            starts = Starts(x, y, np.zeros(len(x)), patches.holding(x, y).astype(np.int64))
        else:
            raise ValueError("a belief needs roads or tiles")
        if prior is None:
            return starts
        lats, lons = geo.from_tile_coordinates(starts.x, starts.y, patches.zoom)
        inside = prior.contains(lats, geo.wrap_longitude(lons))
        if not inside.any():
            return starts
        return Starts(starts.x[inside], starts.y[inside], starts.headings[inside], starts.patch[inside])
