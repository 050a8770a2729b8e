"""A track on the map of its gallery: which part of it to show, and what to draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw

from x2localizer import geo
from x2localizer.gallery.store import Gallery
from x2localizer.localize.stretches import stretches
from x2localizer.show.gallery_map import PAPER, GalleryMap, draw_gallery
from x2localizer.sources.tracks import Track
from x2localizer.types import Fix, Image, Position, Region

LEAST_PX = 1200
FURTHEST_GUESS_M, FURTHEST_SURE_M, FURTHEST_TRUTH_M = 10_000.0, 200_000.0, 3_000.0
"""How far from the best fix a map reaches: for guesses, for positions, and beyond these for the truth."""
ELLIPSE_EVERY_S = 10.0
"""Seconds between the error ellipses that are drawn."""
Points = list[tuple[float, float]]
"""Pixels of a map."""


def map_of_track(gallery: Gallery, fixes: Sequence[Fix], truth: Track | None = None) -> GalleryMap | None:
    """The map around a track; None without any guess."""
    regions = regions_of_track(gallery, fixes, truth)
    return draw_gallery(gallery, regions, LEAST_PX) if regions else None


def regions_of_track(gallery: Gallery, fixes: Sequence[Fix], truth: Track | None = None) -> list[Region]:
    """Regions around the places that a map of the track shows; none without any guess.

    These are the positions and the truth near them. If no fix is sure, they are the guesses around the best one.
    """
    sure = [fix for fix in fixes if fix.position is not None]
    shown = sure or [fix for fix in fixes if fix.guess is not None]
    if not shown:
        return []
    best = max(shown, key=lambda fix: fix.confidence).guess
    assert best is not None
    places = [fix.guess for fix in shown if fix.guess is not None]
    away_m = _distances_m(best, places)
    furthest_m = min(max(away_m), FURTHEST_SURE_M if sure else FURTHEST_GUESS_M)
    kept = [place for place, metres in zip(places, away_m, strict=True) if metres <= furthest_m]
    true = [place for place in true_places(fixes, truth) if place is not None]
    if true:
        reach_m = furthest_m + FURTHEST_TRUTH_M
        kept += [place for place, metres in zip(true, _distances_m(best, true), strict=True) if metres <= reach_m]
    manifest = gallery.manifest
    return [geo.region_around(place, manifest.zoom, manifest.region_tiles) for place in kept]


def _distances_m(start: Position, places: Sequence[Position]) -> list[float]:
    lats, lons = np.array([(place.lat_deg, place.lon_deg) for place in places]).T
    return [float(metres) for metres in geo.distance_m(start.lat_deg, start.lon_deg, lats, lons)]


def true_places(fixes: Sequence[Fix], truth: Track | None) -> list[Position | None]:
    """Where the camera was at each fix; None where that is not known."""
    return [None if truth is None else truth.at(fix.time_s) for fix in fixes]


def lines(drawn: GalleryMap, places: Sequence[Position | None]) -> list[Points]:
    """Lines through places, broken where there is none."""
    runs = (list(run) for known, run in groupby(places, lambda place: place is not None) if known)
    return [[drawn.pixel(place) for place in run if place is not None] for run in runs]


def sure_lines(drawn: GalleryMap, fixes: Sequence[Fix]) -> list[Points]:
    """Lines through the positions, broken where there is none and where they jump."""
    return [line for run in stretches(fixes) for line in lines(drawn, [fix.position for fix in run])]


def ellipses(drawn: GalleryMap, fixes: Sequence[Fix]) -> list[Points]:
    """Outlines of the error ellipses of some positions, ELLIPSE_EVERY_S apart."""
    out: list[Points] = []
    last_s = -math.inf
    for fix in fixes:
        if fix.position is not None and fix.ellipse is not None and fix.time_s - last_s >= ELLIPSE_EVERY_S:
            last_s = fix.time_s
            out.append(_outline(drawn, fix))
    return out


def _outline(drawn: GalleryMap, fix: Fix) -> Points:
    assert fix.guess is not None
    assert fix.ellipse is not None
    x, y = drawn.pixel(fix.guess)
    pixels_per_m = drawn.scale / geo.tile_size_m(fix.guess.lat_deg, drawn.z)
    turn = np.linspace(0.0, 2.0 * np.pi, 33)
    along, across = fix.ellipse.major_m * np.cos(turn), fix.ellipse.minor_m * np.sin(turn)
    angle = math.radians(fix.ellipse.angle_deg)
    east = along * math.sin(angle) + across * math.cos(angle)
    north = along * math.cos(angle) - across * math.sin(angle)
    return [(x + float(a) * pixels_per_m, y - float(b) * pixels_per_m) for a, b in zip(east, north, strict=True)]


def track_picture(gallery: Gallery, fixes: Sequence[Fix], truth: Track | None = None) -> Image:
    """The map with the truth as a black line, sure positions as a line with ellipses, and other guesses as dots."""
    drawn = map_of_track(gallery, fixes, truth)
    if drawn is None:
        return np.full((64, 64, 3), PAPER, np.uint8)
    canvas = Pillow.fromarray(drawn.image)
    draw = ImageDraw.Draw(canvas, "RGBA")
    unit = max(canvas.size) / 900
    for fix in fixes:
        if fix.guess is not None and fix.position is None:
            _dot(draw, drawn.pixel(fix.guess), 2.0 * unit, (255, 157, 0, 200))
    for width, colour in ((9.0, (255, 255, 255, 235)), (6.0, (20, 20, 20, 255))):
        for line in lines(drawn, true_places(fixes, truth)):
            _line(draw, line, width * unit, colour)
    for outline in ellipses(drawn, fixes):
        draw.polygon(outline, fill=(230, 0, 126, 60), outline=(230, 0, 126, 255))
    for line in sure_lines(drawn, fixes):
        _line(draw, line, 3.0 * unit, (230, 0, 126, 255))
    return np.asarray(canvas)


def _line(draw: ImageDraw.ImageDraw, line: Points, width: float, colour: tuple[int, int, int, int]) -> None:
    if len(line) > 1:
        draw.line(line, fill=colour, width=max(1, round(width)), joint="curve")
    else:
        _dot(draw, line[0], width / 2, colour)


def _dot(draw: ImageDraw.ImageDraw, at: tuple[float, float], radius: float, colour: tuple[int, int, int, int]) -> None:
    x, y = at
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
