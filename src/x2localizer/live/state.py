"""Cameras as a browser takes them: fixes as short rows, beliefs and similarities as small transparent pictures."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from typing import Any

import numpy as np
from PIL import Image as Pillow

from x2localizer import geo
from x2localizer.serve.heat import HeatGrid
from x2localizer.serve.session import Session
from x2localizer.serve.settings import Box, Near
from x2localizer.show.report import heatmap
from x2localizer.types import Fix, Floats, Image, Region, View

STATUS = {"tracking": "t", "locating": "l", "lost": "x"}
OFF_MAP = 0.5
"""Below this probability of being on the map, "not on this map" is shown."""
LEAST_SHARE, AROUND_M = 0.04, 80.0
"""Of the belief, what a place must hold to be shown as a candidate; and the distance within which it is one place."""
BELIEF = ((60, 20, 140), (225, 40, 120), (255, 170, 40), (255, 250, 200))
"""Colours of a belief, from little to much."""


def fix_row(fix: Fix) -> list[Any]:
    """A fix: time, latitude, longitude, status, confidence, heading, speed, on map, ellipse (3), searched, index."""
    place, ellipse = fix.guess, fix.ellipse
    return [
        round(fix.time_s, 2), *((None, None) if place is None else (round(place.lat_deg, 7), round(place.lon_deg, 7))),
        STATUS[fix.status], round(fix.confidence, 3), _rounded(fix.heading_deg), _rounded(fix.speed_m_s, 2),
        _rounded(fix.on_map, 3),
        *(
            (None, None, None)
            if ellipse is None
            else (round(ellipse.major_m, 1), round(ellipse.minor_m, 1), round(ellipse.angle_deg, 1))
        ),
        int(fix.refreshed), fix.index,
    ]  # fmt: skip


def camera_row(session: Session, fixes: Iterable[Fix]) -> dict[str, Any]:
    """A session and its newest fixes."""
    prior = session.options.prior
    return {
        "id": session.id, "name": session.name, "open": session.is_open, "dropped": session.counts.dropped,
        "idle": round(session.idle_s), "source": session.source_state, "fixes": [fix_row(fix) for fix in fixes],
        "prior": None if prior is None else prior_row(prior),
    }  # fmt: skip


def prior_row(prior: Near | Box) -> dict[str, Any]:
    """A prior as a circle or a box; the east of a box exceeds 180 across the antimeridian."""
    if isinstance(prior, Near):
        return {"kind": "near", "place": [prior.lat_deg, prior.lon_deg], "radius": prior.radius_m}
    east = prior.east + (360.0 if prior.west > prior.east else 0.0)
    return {"kind": "box", "corners": [[prior.south, prior.west], [prior.north, east]]}


def belief_row(grid: HeatGrid) -> dict[str, Any]:
    """A belief as a picture with its corners, and the places that hold most of it."""
    east = grid.east + (360.0 if grid.west > grid.east else 0.0)
    return {
        "corners": [[grid.south, grid.west], [grid.north, east]], "picture": _png(_belief_picture(grid.values)),
        "candidates": candidates(grid),
    }  # fmt: skip


def candidates(grid: HeatGrid, most: int = 5) -> list[tuple[float, float, float]]:
    """Latitude, longitude and share of the places that hold most of a belief, the best first."""
    left = grid.values.copy()
    rows, columns = left.shape
    cell_m = float(geo.distance_m(grid.south, grid.west, grid.north, grid.west)) / rows
    reach = max(2, round(AROUND_M / max(cell_m, 1e-6)))
    out: list[tuple[float, float, float]] = []
    for _ in range(most):
        row, column = np.unravel_index(int(left.argmax()), left.shape)
        around = np.s_[max(0, row - reach) : row + reach + 1, max(0, column - reach) : column + reach + 1]
        share = float(left[around].sum())
        if share < LEAST_SHARE:
            break
        left[around] = 0.0
        width = (grid.east - grid.west) % 360.0
        x, north = geo.tile_coordinates(grid.north, grid.west, 0)
        _, south = geo.tile_coordinates(grid.south, grid.west, 0)
        y = float(north) + (row + 0.5) / rows * (float(south) - float(north))
        lat, _ = geo.from_tile_coordinates(x, y, 0)
        out.append((round(float(lat), 6), round(grid.west + (column + 0.5) / columns * width, 6), round(share, 3)))
    return out


def view_row(view: View) -> dict[str, Any]:
    """How well the tiles around a guess fit the frame, as a picture with its corners."""
    corners = _edges(view.region, 0.25)  # tiles at half stride are drawn half as wide, each around its middle
    return {"corners": corners, "picture": _png(heatmap(view.similarities, view.valid, scale=6))}


def _edges(region: Region, inset: float) -> list[list[float]]:
    """South-west and north-east corner of a region in degrees, some tiles inside it."""
    x = np.array([region.x + inset, region.x + inset])
    lats, lons = geo.from_tile_coordinates(x, np.array([region.y + region.n - inset, region.y + inset]), region.z)
    west, wide = float(lons[0]), (region.n - 2 * inset) * 360.0 / (1 << region.z)
    return [[float(lats[0]), west], [float(lats[1]), west + wide]]


def _belief_picture(values: Floats) -> Image:
    """RGBA pixels of a belief; the less there is, the more transparent. Roots, as few cells hold most of it."""
    share = np.sqrt(values / max(float(values.max()), 1e-12))
    stops = np.array(BELIEF, np.float64)
    at = share * (len(stops) - 1)
    first = np.minimum(at.astype(int), len(stops) - 2)
    colours = stops[first] + (at - first)[..., None] * (stops[first + 1] - stops[first])
    alpha = np.where(share < 0.02, 0.0, 60.0 + 170.0 * share)
    return np.concatenate([colours, alpha[..., None]], 2).astype(np.uint8)


def _png(pixels: Image) -> str:
    out = io.BytesIO()
    Pillow.fromarray(np.ascontiguousarray(pixels)).save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def jpeg_address(data: bytes) -> str:
    """A JPEG as the source of an image element."""
    return "data:image/jpeg;base64," + base64.b64encode(data).decode()


def _rounded(value: float | None, digits: int = 1) -> float | None:
    return None if value is None else round(value, digits)
