"""The position of a georeferenced raster on the Web-Mercator world."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from affine import Affine
from pyproj import CRS, Transformer
from pyproj.exceptions import ProjError

from x2localizer import geo
from x2localizer.errors import ImageryError
from x2localizer.sources.imagery.pixel_source import Extent, around_the_globe, shares_of
from x2localizer.types import Floats

_SAMPLES = 33
"""Points along each side of the raster that are projected to find its extent."""
_ROUNDING = 1e-9
"""Share of a turn of the globe, 4 cm, so that an edge on the antimeridian is not taken for the previous turn."""


@dataclass(frozen=True)
class Footprint:
    """The geometry of a raster: its coordinate system, the transform from pixel corners to coordinates, its size."""

    crs: CRS
    transform: Affine
    width: int
    height: int
    _to_degrees: Transformer = field(init=False, repr=False)
    _from_mercator: Transformer = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            to_degrees = Transformer.from_crs(self.crs, "EPSG:4326", always_xy=True)
            from_mercator = Transformer.from_crs("EPSG:3857", self.crs, always_xy=True)
        except ProjError as problem:
            raise ImageryError(
                f"The coordinate system '{self.crs.name}' of the imagery is not tied to the globe.",
                "Set the right one: gdal_edit.py -a_srs EPSG:<code> <file>.",
            ) from problem
        object.__setattr__(self, "_to_degrees", to_degrees)
        object.__setattr__(self, "_from_mercator", from_mercator)

    def degrees(self, column: Floats, row: Floats) -> tuple[Floats, Floats]:
        """Latitude and longitude of pixel coordinates (0, 0 is the corner); infinite if undefined."""
        x, y = _apply(self.transform, column, row)
        lon, lat = self._to_degrees.transform(x, y)
        return np.asarray(lat, np.float64), np.asarray(lon, np.float64)

    def metres_per_pixel(self) -> float:
        """The side of a pixel on the ground in the middle of the raster, in metres."""
        middle_x, middle_y = self.width / 2, self.height / 2
        lat, lon = self.degrees(middle_x + np.array([-0.5, 0.5, 0.0, 0.0]), middle_y + np.array([0.0, 0.0, -0.5, 0.5]))
        if not np.isfinite(lat).all() or not np.isfinite(lon).all():
            raise _nowhere(self.crs)
        across, down = geo.distance_m(lat[::2], lon[::2], lat[1::2], lon[1::2])
        return math.sqrt(float(across) * float(down))

    def pixels_per_step(self, x_m: float, y_m: float, step_m: float) -> tuple[float, float]:
        """Columns and rows of the raster per step on the map, at a Web-Mercator position."""
        aside = math.copysign(step_m, -x_m)  # towards Greenwich, never across the antimeridian
        x, y = self._from_mercator.transform(np.array([x_m, x_m + aside, x_m]), np.array([y_m, y_m, y_m - step_m]))
        column, row = _apply(~self.transform, np.asarray(x), np.asarray(y))
        # Combines a step sideways and a step south, so that the rotation of the raster does not matter.
        columns, rows = np.hypot(*(column[1:] - column[0])), np.hypot(*(row[1:] - row[0]))
        return (float(columns), float(rows)) if np.isfinite(columns + rows) else (1.0, 1.0)

    def turn(self) -> tuple[float, int]:
        """The length of one turn of the globe along x, and the turn in which the western edge lies.

        Only longitudes and Web Mercator continue past the antimeridian (a raster from 179.9 to 180.1 degrees). In every
        other system a place has one coordinate; the length of a turn is 0.
        """
        length, zero = self._turn()
        if not length:
            return 0.0, 0
        return length, math.floor((self._sides()[0] + zero) / length + 0.5 + _ROUNDING)

    def extent(self) -> Extent:
        """The extent of the raster."""
        column, row = np.meshgrid(np.linspace(0.0, self.width, _SAMPLES), np.linspace(0.0, self.height, _SAMPLES))
        lat, lon = self.degrees(column.ravel(), row.ravel())
        known = np.isfinite(lat) & np.isfinite(lon)
        if not known.any():
            raise _nowhere(self.crs)
        x, y = shares_of(lat[known], lon[known])
        north, south = float(y.min()), float(y.max())
        length, zero = self._turn()
        if length:
            left, right = self._sides()
            west = ((left + zero) / length + 0.5 + _ROUNDING) % 1.0 - _ROUNDING
            return Extent(west, north, west + min((right - left) / length, 1.0), south)
        west, east = around_the_globe(x)
        north_pole, south_pole = self._holds(90.0), self._holds(-90.0)
        if north_pole or south_pole:
            west, east = 0.0, 1.0
        return Extent(west, 0.0 if north_pole else north, east, 1.0 if south_pole else south)

    def _turn(self) -> tuple[float, float]:
        """The length of a turn, and the offset of the prime meridian from Greenwich, both in units of x."""
        if self.crs.is_geographic:
            length = 2 * math.pi / self.crs.axis_info[0].unit_conversion_factor
            meridian = self.crs.prime_meridian
            if meridian is None:
                return length, 0.0
            zero_rad = float(meridian.longitude) * float(meridian.unit_conversion_factor)
            return length, zero_rad / (2 * math.pi) * length
        return (2 * geo.WEB_MERCATOR_HALF_M, 0.0) if self.crs.to_epsg() == 3857 else (0.0, 0.0)

    def _sides(self) -> tuple[float, float]:
        """The smallest and the largest x of the corners."""
        x, _ = _apply(self.transform, np.array([0.0, self.width] * 2), np.array([0.0, 0.0, self.height, self.height]))
        return float(x.min()), float(x.max())

    def _holds(self, pole_deg: float) -> bool:
        """Whether a pole lies inside the raster, so that it covers all longitudes."""
        x, y = self._to_degrees.transform(0.0, pole_deg, direction="INVERSE")
        if not (math.isfinite(x) and math.isfinite(y)):
            return False
        column, row = _apply(~self.transform, np.asarray(x), np.asarray(y))
        return bool(0 < column < self.width and 0 < row < self.height)


def _apply(transform: Affine, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Apply an affine transform; written out, as the operator differs between affine 2 and 3."""
    return (
        np.asarray(transform.a * x + transform.b * y + transform.c, np.float64),
        np.asarray(transform.d * x + transform.e * y + transform.f, np.float64),
    )


def _nowhere(crs: CRS) -> ImageryError:
    return ImageryError(
        f"The georeference lies outside the area of its coordinate system ({crs.name}).",
        "Check the coordinate system; gdal_edit.py -a_srs EPSG:<code> <file> sets another.",
    )
