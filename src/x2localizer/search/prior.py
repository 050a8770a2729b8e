"""What is known in advance of where the camera is: a box, a circle, or the last fix and the time since."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from x2localizer import geo
from x2localizer.config import MotionSettings
from x2localizer.gallery.regions import RegionTable
from x2localizer.motion import furthest_m
from x2localizer.types import Bools, Floats, Position


class Prior(Protocol):
    """Restricts a search to regions that may hold the camera."""

    def allowed(self, regions: RegionTable) -> Bools:
        """Which regions are searched, (r,)."""

    def contains(self, lats_deg: Floats, lons_deg: Floats) -> Bools:
        """At which places the camera may be."""


@dataclass(frozen=True, slots=True)
class BoxPrior:
    """The camera is in a box, in degrees; a west greater than the east crosses the antimeridian."""

    west: float
    south: float
    east: float
    north: float

    def allowed(self, regions: RegionTable) -> Bools:
        """Regions whose middle lies in the box."""
        return self.contains(*regions.centres())

    def contains(self, lats_deg: Floats, lons_deg: Floats) -> Bools:
        """Places in the box."""
        lat, lon = lats_deg, lons_deg
        across = lon - self.west if self.west <= self.east else (lon - self.west) % 360.0
        width = (self.east - self.west) % 360.0 if self.west > self.east else self.east - self.west
        inside: Bools = (across >= 0) & (across <= width) & (lat >= self.south) & (lat <= self.north)
        return inside


@dataclass(frozen=True, slots=True)
class CirclePrior:
    """The camera is within a radius of a place."""

    centre: Position
    radius_m: float

    def allowed(self, regions: RegionTable) -> Bools:
        """Regions whose middle lies in the circle, or that hold its middle."""
        lat, lon = regions.centres()
        away = geo.distance_m(self.centre.lat_deg, self.centre.lon_deg, lat, lon)
        half_diagonal = geo.tile_size_m(self.centre.lat_deg, regions.zoom) * regions.n / 2**0.5
        near: Bools = np.asarray(away <= max(self.radius_m, half_diagonal), np.bool_)
        return near

    def contains(self, lats_deg: Floats, lons_deg: Floats) -> Bools:
        """Places in the circle."""
        away = geo.distance_m(self.centre.lat_deg, self.centre.lon_deg, lats_deg, lons_deg)
        return np.asarray(away <= self.radius_m, np.bool_)


@dataclass(frozen=True, slots=True)
class ReachPrior:
    """The camera was at a place some seconds ago, and has moved since as it may."""

    last: Position
    seconds: float
    motion: MotionSettings = field(default_factory=MotionSettings)

    def allowed(self, regions: RegionTable) -> Bools:
        """Regions within reach."""
        return self._circle.allowed(regions)

    def contains(self, lats_deg: Floats, lons_deg: Floats) -> Bools:
        """Places within reach."""
        return self._circle.contains(lats_deg, lons_deg)

    @property
    def _circle(self) -> CirclePrior:
        return CirclePrior(self.last, furthest_m(self.motion, self.seconds))
