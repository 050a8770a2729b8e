"""Road centre lines as polylines in WGS84."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from x2localizer import geo
from x2localizer.types import Bools, Floats, Ints

Bounds = tuple[float, float, float, float]
"""West, south, east, north in degrees. West is in [-180, 180); east exceeds 180 for an area across the antimeridian."""


class RoadKind(IntEnum):
    """How important a road is: the smaller, the more traffic."""

    MAIN = 0
    """Motorways to tertiary roads, and their ramps."""
    STREET = 1
    """Residential streets, living streets, and roads that are not classified."""
    SERVICE = 2
    """Driveways, parking aisles, farm and forest tracks."""


@dataclass(frozen=True, slots=True, eq=False)
class Roads:
    """Polylines of roads, one after the other.

    points_deg: latitude and longitude of all points, (p, 2).
    starts: where each road begins among the points, and the end of the last one, (r + 1,).
    kinds: a :class:`RoadKind` for each road, (r,).
    oneway: which roads may be driven only in the order of their points, (r,).
    dropped: lines of the file that were left out, as their coordinates are impossible.
    """

    points_deg: Floats
    starts: Ints
    kinds: npt.NDArray[np.int8]
    oneway: Bools
    dropped: int = 0

    def __post_init__(self) -> None:
        points = np.array(self.points_deg, np.float64).reshape(-1, 2)
        starts, kinds = np.array(self.starts, np.int64), np.array(self.kinds, np.int8)
        oneway = np.array(self.oneway, np.bool_)
        if starts.ndim != 1 or not len(starts) or kinds.shape != (len(starts) - 1,) or oneway.shape != kinds.shape:
            raise ValueError("roads need a start, a kind and a direction for each road, and the end of the last")
        if starts[0] != 0 or starts[-1] != len(points) or np.any(np.diff(starts) < 2):
            raise ValueError("each road needs two points or more")
        if not np.isfinite(points).all() or np.any(np.abs(points) > (90.0, 180.0)):
            raise ValueError("points of roads must be latitudes and longitudes in degrees")
        if len(kinds) and not 0 <= kinds.min() <= kinds.max() <= max(RoadKind):
            raise ValueError("unknown kind of road")
        for name, values in (("points_deg", points), ("starts", starts), ("kinds", kinds), ("oneway", oneway)):
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    def __len__(self) -> int:
        return len(self.kinds)

    def line(self, road: int) -> Floats:
        """The points of a road, (n, 2): latitude and longitude."""
        return self.points_deg[self.starts[road] : self.starts[road + 1]]

    def lengths_m(self) -> Floats:
        """Length of each road, (r,)."""
        if not len(self):
            return np.zeros(0)
        lats, lons = self.points_deg.T
        steps = geo.distance_m(lats[:-1], lons[:-1], lats[1:], lons[1:])
        steps[self.starts[1:-1] - 1] = 0.0  # from the end of one road to the start of the next
        return np.add.reduceat(np.append(steps, 0.0), self.starts[:-1])

    def lengths_by_kind_m(self) -> dict[RoadKind, float]:
        """Total length of the roads of each kind."""
        totals = np.bincount(self.kinds, self.lengths_m(), len(RoadKind))
        return {kind: float(totals[kind]) for kind in RoadKind}

    @property
    def bounds(self) -> Bounds | None:
        """The smallest box around all points, also across the antimeridian; None without roads."""
        return bounds_of(self.points_deg)

    def take(self, which: Ints | Bools) -> Roads:
        """Some of the roads, by number or by mask, in that order."""
        numbers = np.arange(len(self))[which]
        sizes = np.diff(self.starts)[numbers]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        index = np.arange(starts[-1]) + np.repeat(self.starts[numbers] - starts[:-1], sizes)
        return Roads(self.points_deg[index], starts, self.kinds[numbers], self.oneway[numbers], self.dropped)

    @staticmethod
    def join(parts: Sequence[Roads]) -> Roads:
        """All roads of several sets, in their order."""
        if not parts:
            return Roads(np.zeros((0, 2)), np.zeros(1, np.int64), np.zeros(0, np.int8), np.zeros(0, np.bool_))
        sizes = np.concatenate([np.diff(part.starts) for part in parts])
        return Roads(
            np.concatenate([part.points_deg for part in parts]), np.concatenate([[0], np.cumsum(sizes)]),
            np.concatenate([part.kinds for part in parts]), np.concatenate([part.oneway for part in parts]),
            sum(part.dropped for part in parts),
        )  # fmt: skip


def bounds_of(points_deg: Floats) -> Bounds | None:
    """The smallest box around points (p, 2), which leaves out the widest gap of longitudes; None without points."""
    if not len(points_deg):
        return None
    south, north = float(points_deg[:, 0].min()), float(points_deg[:, 0].max())
    lons = np.unique(np.where(points_deg[:, 1] == 180.0, -180.0, points_deg[:, 1]))
    gaps = np.append(np.diff(lons), lons[0] + 360.0 - lons[-1])
    widest = int(gaps.argmax())
    west, east = float(lons[(widest + 1) % len(lons)]), float(lons[widest])
    return west, south, east if east >= west else east + 360.0, north
