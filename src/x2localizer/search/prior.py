"""What is known beforehand of where the camera is: a box, a circle, or the last fix with a speed limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from x2localizer import geo
from x2localizer.gallery.store import RegionTable
from x2localizer.types import Position


class Prior(Protocol):
    """Restricts a search to regions that may hold the camera."""

    def allowed(self, regions: RegionTable) -> npt.NDArray[np.bool_]:
        """Which regions are searched, (r,)."""


@dataclass(frozen=True, slots=True)
class Box:
    """Degrees; a west greater than the east crosses the antimeridian."""

    west: float
    south: float
    east: float
    north: float

    def allowed(self, regions: RegionTable) -> npt.NDArray[np.bool_]:
        """Regions whose middle lies in the box."""
        lat, lon = region_centres(regions)
        across = lon - self.west if self.west <= self.east else (lon - self.west) % 360.0
        width = (self.east - self.west) % 360.0 if self.west > self.east else self.east - self.west
        inside: npt.NDArray[np.bool_] = (across >= 0) & (across <= width) & (lat >= self.south) & (lat <= self.north)
        return inside


@dataclass(frozen=True, slots=True)
class Circle:
    """A place and a radius."""

    centre: Position
    radius_m: float

    def allowed(self, regions: RegionTable) -> npt.NDArray[np.bool_]:
        """Regions whose middle lies in the circle, or that hold its middle."""
        lat, lon = region_centres(regions)
        away = geo.distance_m(self.centre.lat_deg, self.centre.lon_deg, lat, lon)
        own = geo.tile_size_m(self.centre.lat_deg, regions.zoom) * regions.n / 2**0.5  # half the diagonal
        near: npt.NDArray[np.bool_] = away <= max(self.radius_m, own)
        return near


@dataclass(frozen=True, slots=True)
class Reach:
    """The last fix, and how far a vehicle may have come since."""

    last: Position
    seconds: float
    speed_m_per_s: float = 45.0
    slack_m: float = 200.0

    def allowed(self, regions: RegionTable) -> npt.NDArray[np.bool_]:
        """Regions within reach."""
        return Circle(self.last, self.slack_m + self.seconds * self.speed_m_per_s).allowed(regions)


def region_centres(regions: RegionTable) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Latitudes and longitudes of the middles of all regions."""
    half = regions.n / 2
    x, y = regions.x.astype(np.float64) + half, regions.y.astype(np.float64) + half
    lat, lon = geo.from_tile_coordinates(x, y, regions.zoom)
    return lat, geo.wrap_longitude(lon)


def nearest_region(regions: RegionTable, place: Position, allowed: npt.NDArray[np.bool_] | None = None) -> int | None:
    """The row of the region around a place: of all that hold it, the one whose middle is nearest."""
    x, y = geo.tile_coordinates(place.lat_deg, place.lon_deg, regions.zoom)
    world = 1 << regions.zoom
    half = regions.n / 2
    east = np.abs((regions.x + half - float(x) + world / 2) % world - world / 2)
    off = np.maximum(east, np.abs(regions.y + half - float(y)))
    if allowed is not None:
        off = np.where(allowed, off, np.inf)
    row = int(off.argmin())
    return row if off[row] <= half else None
