"""Lines on their way from a file to :class:`Roads`: transformed, checked, and freed of repeated points."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from pyproj import Transformer

from x2localizer import geo
from x2localizer.sources.roads.roads import RoadKind, Roads
from x2localizer.types import Bools, Floats

LONGEST_STEP_M = 200_000.0
"""Between two points of a road. No road is straight for so long: such a line has a point that is wrong."""


@dataclass(slots=True)
class Lines:
    """Lines of a batch, in the coordinates of their file: x and y, (n, 2) each."""

    shapes: list[Floats] = field(default_factory=list)
    kinds: list[RoadKind] = field(default_factory=list)
    oneway: list[bool] = field(default_factory=list)

    def add(self, shapes: list[Floats], kind: RoadKind, direction: int) -> None:
        """Add the lines of a feature; one that is driven against its points is turned round."""
        for shape in shapes:
            self.shapes.append(shape[::-1] if direction < 0 else shape)
            self.kinds.append(kind)
            self.oneway.append(direction != 0)

    def to_roads(self, to_degrees: Transformer | None) -> Roads:
        """As roads in WGS84. Lines with impossible coordinates are counted; those without length are left out."""
        if not self.shapes:
            return Roads.join([])
        points = np.concatenate(self.shapes)
        sizes = np.array([len(shape) for shape in self.shapes])
        x, y = points.T if to_degrees is None else to_degrees.transform(points[:, 0], points[:, 1])
        lats, lons = np.asarray(y, np.float64), np.asarray(x, np.float64)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        bad = _impossible(lats, lons, owner, len(sizes))
        first = np.append(True, owner[1:] != owner[:-1])
        moved = np.append(True, (np.diff(lats) != 0) | (np.diff(lons) != 0))
        kept = (first | moved) & ~bad[owner]
        counts = np.bincount(owner[kept], minlength=len(sizes))
        kept &= counts[owner] >= 2
        good = counts >= 2
        starts = np.concatenate([[0], np.cumsum(counts[good])])
        roads = np.stack([lats[kept], lons[kept]], 1)
        return Roads(roads, starts, np.array(self.kinds)[good], np.array(self.oneway)[good], int(bad.sum()))


def _impossible(lats: Floats, lons: Floats, owner: np.ndarray, count: int) -> Bools:
    """Which lines have a point off the map, or a step that no road has, (count,)."""
    off = ~((np.abs(lats) <= geo.MAX_LATITUDE_DEG) & (np.abs(lons) <= 180.0))  # also NaN and infinity
    bad = np.zeros(count, np.bool_)
    bad[owner[off]] = True
    # Only steps of half a degree or more can be too long; most files have none to measure.
    with np.errstate(invalid="ignore"):
        far = (np.abs(np.diff(lats)) > 0.5) | (np.abs(np.diff(lons)) > 0.5)
    at = np.flatnonzero(far & (owner[1:] == owner[:-1]) & ~bad[owner[1:]])
    if len(at):
        steps = geo.distance_m(lats[at], lons[at], lats[at + 1], lons[at + 1])
        bad[owner[at[steps > LONGEST_STEP_M]]] = True
    return bad
