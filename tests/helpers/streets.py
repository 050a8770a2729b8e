"""A small net of streets without a town, and drives along it: enough for the tracker."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from x2localizer import geo
from x2localizer.sources.motion import MotionRecord
from x2localizer.types import Floats

ORIGIN = (48.0, 11.0)
"""Latitude and longitude of the south-west corner."""
COLUMNS = np.array([0.0, 140.0, 330.0, 420.0, 640.0, 790.0, 1010.0])
ROWS = np.array([0.0, 110.0, 290.0, 480.0, 560.0, 770.0, 1000.0])
"""Streets run along these lines: no two blocks have the same sides."""
METRES_PER_DEGREE = 40_075_016.7 / 360.0  # of the sphere of Web Mercator, as the tracker measures
Corner = tuple[int, int]


def to_degrees(east_m: Floats, north_m: Floats, mirrored: bool = False) -> tuple[Floats, Floats]:
    """Latitudes and longitudes of metres from the origin."""
    east = -east_m if mirrored else east_m
    lats = ORIGIN[0] + north_m / (METRES_PER_DEGREE * np.cos(np.radians(ORIGIN[0]))) * np.cos(np.radians(ORIGIN[0]))
    return lats, ORIGIN[1] + east / (METRES_PER_DEGREE * np.cos(np.radians(ORIGIN[0])))


def street_lines(missing: frozenset[tuple[str, int]] = frozenset()) -> list[Floats]:
    """Polylines of the streets in metres, (n, 2) each."""
    lines = [np.array([[x, ROWS[0]], [x, ROWS[-1]]]) for k, x in enumerate(COLUMNS) if ("column", k) not in missing]
    return lines + [
        np.array([[COLUMNS[0], y], [COLUMNS[-1], y]]) for k, y in enumerate(ROWS) if ("row", k) not in missing
    ]


def write_streets(path: Path, lines: list[Floats] | None = None, mirrored: bool = False) -> Path:
    """Write streets as GeoJSON."""
    features = []
    for line in street_lines() if lines is None else lines:
        lats, lons = to_degrees(line[:, 0], line[:, 1], mirrored)
        points = [[float(lon), float(lat)] for lat, lon in zip(lats, lons, strict=True)]
        features.append(
            {"type": "Feature", "properties": {}, "geometry": {"type": "LineString", "coordinates": points}}
        )
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


@dataclass(frozen=True)
class StreetDrive:
    """A drive: times, true metres and headings (degrees clockwise from north), ten a second."""

    times_s: Floats
    east_m: Floats
    north_m: Floats
    headings_deg: Floats

    def record(self, scale: float = 1.0, scale_sd: float = 0.03) -> MotionRecord:
        """What odometry says of it."""
        steps = np.hypot(np.diff(self.east_m), np.diff(self.north_m))
        distance = np.concatenate([[0.0], np.cumsum(steps)]) * scale
        since = self.times_s - self.times_s[0]
        return MotionRecord(
            self.times_s,
            distance,
            self.headings_deg - self.headings_deg[0],
            0.05**2 * since,
            0.1**2 * since,
            scale_sd,
            0.05,
        )

    def error_m(self, time_s: float, lat_deg: float, lon_deg: float, mirrored: bool = False) -> float:
        """Distance of a position from where the car is."""
        east, north = np.interp(time_s, self.times_s, self.east_m), np.interp(time_s, self.times_s, self.north_m)
        lats, lons = to_degrees(np.array([east]), np.array([north]), mirrored)
        return float(geo.distance_m(lat_deg, lon_deg, lats[0], lons[0]))


def drive_along(corners: list[Corner], speed_m_s: float = 8.0, radius_m: float = 8.0) -> StreetDrive:
    """A drive through some corners of the net, (column, row), with rounded turns."""
    return drive_through(np.array([[COLUMNS[c], ROWS[r]] for c, r in corners]), speed_m_s, radius_m)


def drive_through(points: Floats, speed_m_s: float, radius_m: float) -> StreetDrive:
    """A drive along a line in metres, (n, 2), with rounded turns."""
    dense = [
        a + (b - a) * np.linspace(0, 1, max(2, int(np.hypot(*(b - a)) / 0.1)), endpoint=False)[:, None]
        for a, b in pairwise(points)
    ]
    line = np.concatenate([*dense, points[-1:]])
    window = int(2 * radius_m / 0.1) | 1
    padded = np.pad(line, ((window // 2, window // 2), (0, 0)), mode="edge")
    smooth = np.stack([np.convolve(padded[:, k], np.ones(window) / window, "valid") for k in (0, 1)], 1)
    length = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(smooth, axis=0).T))])
    times = np.arange(0.0, length[-1] / speed_m_s, 0.1)
    east, north = (np.interp(times * speed_m_s, length, smooth[:, k]) for k in (0, 1))
    heading = np.degrees(np.unwrap(np.arctan2(np.gradient(east), np.gradient(north))))
    return StreetDrive(times, east, north, heading)


ROUTE: list[Corner] = [(1, 0), (1, 2), (3, 2), (3, 4), (5, 4), (5, 1), (2, 1), (2, 5), (4, 5), (4, 3)]
"""Turns in both directions; no other way through the net is like it."""


def motorway() -> tuple[list[Floats], Floats]:
    """Lines of a motorway in wide bends, of its other carriageway and of two roads that cross; and the way of a car.

    The car comes along the first road, turns onto the motorway, and follows it for four kilometres.
    """
    along = np.arange(0.0, 4500.0, 10.0)
    heading = np.radians(60.0 + 15.0 * np.sin(along / 450.0))
    bends = np.cumsum(10.0 * np.stack([np.sin(heading), np.cos(heading)], 1), 0)
    aside = 16.0 * np.stack([np.cos(heading), -np.sin(heading)], 1)
    access = np.array([[-250.0, 150.0], bends[0]])
    crossing = bends[400] + np.array([[-300.0, 500.0], [300.0, -500.0]])
    return [bends, bends + aside, access, crossing], np.concatenate([access, bends[1:400]])
