"""A track on a map to pan, zoom and replay: a piece of HTML with everything in it, for pages without a network.

The data goes into the page as JSON, in map units: a 256th of a tile of the gallery's zoom, east and south of the
north-west corner of the map. ``assets/map.js`` draws it; it is plain JavaScript without any library.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from PIL import Image as Pillow

from x2localizer import geo
from x2localizer.gallery.grid import TileSpan
from x2localizer.gallery.store import Gallery
from x2localizer.show.gallery_map import PAPER, GalleryMap, paint_imagery, span_around
from x2localizer.show.track_map import regions_of_track, true_places
from x2localizer.sources.roads import RoadKind
from x2localizer.sources.tracks import Track
from x2localizer.types import Fix, Floats, Image, Position, Region, View

UNITS = 256
"""Map units along the side of a tile: 0.2 m each in a gallery of zoom 19."""
MARGIN_TILES = 4
MOST_PICTURE_BYTES = 5_000_000
"""Of the picture of the imagery; larger ones are saved smaller, so that a report stays below 10 MB."""
MOST_ROAD_POINTS = 60_000
MOST_FIXES = 20_000
"""Of longer tracks every second fix is shown, every third, ..."""
_STATUS = {"tracking": "t", "locating": "l", "lost": "x"}


def asset(name: str) -> str:
    """The text of a file of ``show/assets``."""
    return (resources.files("x2localizer.show") / "assets" / name).read_text(encoding="utf-8")


def viewer(gallery: Gallery, fixes: Sequence[Fix], views: Sequence[View], truth: Track | None = None) -> str | None:
    """The map as HTML, to go into a page once; None without any guess.

    The pictures of the views are taken from the page: its elements ``#view-0``, ``#view-1``, ... hold an image of the
    frame and one of the heat map.
    """
    regions = regions_of_track(gallery, fixes, truth)
    if not regions:
        return None
    frame = _MapFrame(_roomy(span_around(gallery, regions)))
    candidates = sorted({c.region for fix in fixes if fix.refreshed for c in fix.candidates[:3]})
    data = {
        "map": frame.to_json(), "picture": _picture(gallery, frame.span), "roads": _roads(gallery, frame),
        **_track(frame, fixes, truth), "views": [_view(frame, view) for view in views],
        "candidates": [frame.box(region) for region in candidates],
    }  # fmt: skip
    # "<" cannot end the script element early this way.
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        f"<style>{asset('map.css')}</style>\n{asset('map.html')}\n"
        f'<script type="application/json" id="map-data">{text}</script>\n<script>{asset("map.js")}</script>'
    )


def _roomy(span: TileSpan) -> TileSpan:
    """The span with some surroundings, and about square: people look around, also on a phone held upright."""
    side = max(span.columns, span.rows) + 2 * MARGIN_TILES
    columns, rows = min(max(span.columns, side), 1 << span.z), max(span.rows, side)
    west = span.west - (columns - span.columns) // 2
    return TileSpan(span.z, west, span.north - (rows - span.rows) // 2, columns, rows)


@dataclass(frozen=True, slots=True)
class _MapFrame:
    """Where the map lies, and places on it in map units."""

    span: TileSpan

    def to_json(self) -> dict[str, float]:
        s = self.span
        metres = geo.tile_size_m(self._middle_lat_deg(), s.z) / UNITS
        return {
            "z": s.z, "west": s.west, "north": s.north, "units": UNITS, "width": s.columns * UNITS,
            "height": s.rows * UNITS, "metres": round(metres, 6),
        }  # fmt: skip

    def _middle_lat_deg(self) -> float:
        s = self.span
        lat, _ = geo.from_tile_coordinates(float(s.west), min(max(s.north + s.rows / 2, 0.0), float(1 << s.z)), s.z)
        return float(lat)

    def point(self, place: Position | None) -> tuple[float | None, float | None]:
        """Map units of a place."""
        if place is None:
            return None, None
        x, y = self._units(np.array([[place.lat_deg, place.lon_deg]]))[0]
        return round(float(x), 1), round(float(y), 1)

    def box(self, region: Region) -> list[float]:
        """The north-west corner and the side of a region."""
        world = 1 << region.z
        east = (region.x - self.span.west + world // 2) % world - world // 2
        return [east * UNITS, (region.y - self.span.north) * UNITS, region.n * UNITS]

    def points(self, points_deg: Floats) -> Floats:
        """Map units of points, (p, 2)."""
        return np.round(self._units(points_deg), 1)

    def _units(self, points_deg: Floats) -> Floats:
        s = self.span
        x, y = geo.tile_coordinates(points_deg[:, 0], points_deg[:, 1], s.z)
        world, middle = 1 << s.z, s.columns / 2
        east = (x - s.west - middle + world / 2) % world - world / 2 + middle
        return np.stack([east * UNITS, (y - s.north) * UNITS], 1)


def _track(frame: _MapFrame, fixes: Sequence[Fix], truth: Track | None) -> dict[str, Any]:
    """Fixes and the truth beside them as columns."""
    shown = fixes[:: -(-len(fixes) // MOST_FIXES)]
    places = [frame.point(fix.guess) for fix in shown]
    true = [frame.point(place) for place in true_places(shown, truth)]
    return {
        "fixes": {
            "time": [round(fix.time_s, 2) for fix in shown],
            "status": "".join(_STATUS[fix.status] for fix in shown),
            "x": [x for x, _ in places], "y": [y for _, y in places],
            "lat": [None if fix.guess is None else round(fix.guess.lat_deg, 6) for fix in shown],
            "lon": [None if fix.guess is None else round(fix.guess.lon_deg, 6) for fix in shown],
            "confidence": [round(fix.confidence, 3) for fix in shown],
            "heading": [_rounded(fix.heading_deg) for fix in shown],
            "speed": [_rounded(fix.speed_m_s) for fix in shown],
            "on_map": [_rounded(fix.on_map, 3) for fix in shown],
            "ellipse": [
                None if (e := fix.ellipse) is None else [round(v, 1) for v in (e.major_m, e.minor_m, e.angle_deg)]
                for fix in shown
            ],
            "searched": [k for k, fix in enumerate(shown) if fix.refreshed],
        },
        "truth": None if truth is None else {"x": [x for x, _ in true], "y": [y for _, y in true]},
    }  # fmt: skip


def _view(frame: _MapFrame, view: View) -> dict[str, Any]:
    x, y, side = frame.box(view.region)
    edge = UNITS / 4  # tiles at half stride are drawn half as wide, each around its middle
    return {"time": round(view.frame.time_s, 2), "box": [x + edge, y + edge, side - 2 * edge]}


def _rounded(value: float | None, digits: int = 1) -> float | None:
    return None if value is None else round(value, digits)


def _picture(gallery: Gallery, span: TileSpan) -> str | None:
    """The imagery as a data address, transparent where there is none; None if there is none at all."""
    if not gallery.has_tiles:
        return None
    drawn = paint_imagery(gallery, span)
    px = len(drawn.image) // span.rows
    tiles = drawn.image.reshape(span.rows, px, span.columns, px, 3)
    held = (tiles != PAPER).any((1, 3, 4))
    if not held.any():
        return None
    alpha = np.where(held.repeat(px, 0).repeat(px, 1), 255, 0).astype(np.uint8)
    picture = np.concatenate([drawn.image, alpha[..., None]], 2)
    return "data:image/webp;base64," + base64.b64encode(bounded_webp(picture)).decode()


def bounded_webp(picture: Image, most_bytes: int = MOST_PICTURE_BYTES) -> bytes:
    """A picture as a WebP file: at half its size, a quarter, ... until it is small enough."""
    shown = Pillow.fromarray(np.ascontiguousarray(picture))
    while True:
        out = io.BytesIO()
        shown.save(out, "WEBP", quality=82)
        if out.tell() <= most_bytes or min(shown.size) <= 1:
            return out.getvalue()
        shown = shown.resize((max(1, shown.width // 2), max(1, shown.height // 2)), Pillow.Resampling.BOX)


def _roads(gallery: Gallery, frame: _MapFrame) -> list[list[list[int]]]:
    """Lines of roads by kind: the first point, then steps, in tenths of map units."""
    if not gallery.manifest.roads:
        return []
    s = frame.span
    empty = np.zeros((s.rows, s.columns, 3), np.uint8)
    roads = gallery.roads(GalleryMap(empty, s.z, s.west, s.north, 1.0).bounds)
    points = frame.points(roads.points_deg)
    out: list[list[list[int]]] = []
    for kind in RoadKind:
        lines = [points[roads.starts[i] : roads.starts[i + 1]] for i in np.flatnonzero(roads.kinds == kind)]
        out.append([_steps(line) for line in thinned(lines, 4.0)])
    return out


def thinned(lines: list[Floats], least: float) -> list[Floats]:
    """Lines, (n, 2) each; if they have very many points together, only the ends and points some way apart.

    least: how far apart, along the longer axis, in the units of the points; doubled until there are few enough.
    """
    for _ in range(40):
        if sum(len(line) for line in lines) <= MOST_ROAD_POINTS:
            break
        lines = [_apart(line, least) for line in lines]
        lines = [line for line in lines if len(line) > 2 or np.abs(line[-1] - line[0]).max() >= least]
        least *= 2
    return lines


def _apart(line: Floats, least: float) -> Floats:
    kept = [0]
    for k in range(1, len(line) - 1):
        if np.abs(line[k] - line[kept[-1]]).max() >= least:
            kept.append(k)
    return line[[*kept, len(line) - 1]]


def _steps(line: Floats) -> list[int]:
    tenths = np.round(line * 10).astype(np.int64)
    steps: list[int] = np.concatenate([tenths[:1], np.diff(tenths, axis=0)]).ravel().tolist()
    return steps
