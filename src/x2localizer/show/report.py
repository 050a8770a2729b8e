"""A track as one HTML page that opens without a network.

The map is made of the gallery's own pictures and roads, with the track, its error ellipses, the truth, and of searches
the candidates on it; then the error over time, and frames beside the heatmaps of their similarity over the region.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image as Pillow

from x2localizer import geo
from x2localizer.gallery.store import Gallery
from x2localizer.localize.summary import Summary, errors_m
from x2localizer.show.gallery_map import GalleryMap
from x2localizer.show.track_map import Points, ellipses, lines, map_of_track, sure_lines, true_places
from x2localizer.sources.tracks import Track
from x2localizer.types import Bools, Codes, Fix, Floats, Image, View

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1100px; padding: 0 1em; color: #222; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; } td { padding: .15em 1.2em .15em 0; }
.map { position: relative; } .map img, .map svg { width: 100%; display: block; }
.map svg { position: absolute; inset: 0; }
.views { display: flex; flex-wrap: wrap; gap: 14px; } .views figure { margin: 0; width: 250px; }
.views img { width: 100%; image-rendering: pixelated; display: block; } figcaption { font-size: .85em; color: #555; }
.key span { margin-right: 1.4em; } .key i { display: inline-block; width: 1.4em; height: .35em; margin-right: .4em;
vertical-align: middle; }
"""
SURE, UNSURE, TRUTH, CANDIDATE = "#e6007e", "#ff9d00", "#ffffff", "#00c8ff"


def report_page(
    fixes: Sequence[Fix],
    views: Sequence[View],
    gallery: Gallery,
    summary: Summary,
    truth: Track | None = None,
    title: str = "Where was the camera?",
) -> str:
    """The page as HTML."""
    drawn = map_of_track(gallery, fixes, truth)
    parts = [f"<h1>{html.escape(title)}</h1>", _numbers(summary)]
    if drawn is not None:
        parts += ["<h2>Map</h2>", _map(drawn, fixes, truth)]
    if truth is not None:
        parts += ["<h2>Error over time</h2>", _curve(fixes, errors_m(fixes, truth))]
    if views:
        parts += ["<h2>Frames, and where they fit</h2>", _views(views)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width"><title>{html.escape(title)}</title><style>{STYLE}</style></head><body>\n'
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _numbers(summary: Summary) -> str:
    rows = "".join(f"<tr><td>{name}</td><td><b>{value}</b></td></tr>" for name, value in summary.to_rows())
    return f"<table>{rows}</table>"


def _map(drawn: GalleryMap, fixes: Sequence[Fix], truth: Track | None) -> str:
    height, width = drawn.image.shape[:2]
    unit = max(height, width) / 900
    true = lines(drawn, true_places(fixes, truth))
    sure = sure_lines(drawn, fixes)
    rings = ellipses(drawn, fixes)
    shapes = [
        *_candidates(drawn, fixes, unit),
        *(_dot(drawn, fix, unit) for fix in fixes if fix.guess is not None and fix.position is None),
        *(_polyline(line, TRUTH, 8 * unit) for line in true), *(_polyline(line, "#111", 5.5 * unit) for line in true),
        *(_polyline(ring, SURE, 0.8 * unit, fill=SURE) for ring in rings),
        *(_polyline(line, SURE, 2.6 * unit) for line in sure),
        *(_dot(drawn, fix, unit) for fix in fixes if fix.position is not None),
    ]  # fmt: skip
    key = [(SURE, "sure"), (UNSURE, "guess, not sure")]
    if any(fix.refreshed for fix in fixes):
        found = any(fix.candidates for fix in fixes)
        key.append((CANDIDATE, "searched again; candidate regions" if found else "whole map searched again"))
    if truth is not None:
        key.append(("#111", "truth"))
    legend = "".join(f'<span><i style="background:{colour}"></i>{name}</span>' for colour, name in key)
    note = " Pink shapes hold the camera with 95% probability, if the position is right at all." if rings else ""
    return (
        f'<p class="key">{legend}{note}</p><div class="map"><img alt="map" src="{_data(drawn.image)}">'
        f'<svg viewBox="0 0 {width} {height}">{"".join(shapes)}</svg></div>'
    )


def _candidates(drawn: GalleryMap, fixes: Sequence[Fix], unit: float) -> list[str]:
    """The regions that searches found, and where the camera was taken to be then."""
    height, width = drawn.image.shape[:2]
    shapes: list[str] = []
    for region in sorted({c.region for fix in fixes if fix.refreshed for c in fix.candidates[:3]}):
        x, y, side = drawn.box(region)
        if -side < x < width and -side < y < height:
            shapes.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{side:.1f}" height="{side:.1f}" fill="none" '
                f'stroke="{CANDIDATE}" stroke-opacity=".35" stroke-width="{unit:.1f}"/>'
            )
    for fix in fixes:
        if fix.refreshed and fix.guess is not None:
            x, y = drawn.pixel(fix.guess)
            shapes.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{6 * unit:.1f}" fill="none" stroke="{CANDIDATE}" '
                f'stroke-width="{1.4 * unit:.1f}"/>'
            )
    return shapes


def _dot(drawn: GalleryMap, fix: Fix, unit: float) -> str:
    """A guess as a dot that tells more when pointed at."""
    assert fix.guess is not None
    x, y = drawn.pixel(fix.guess)
    sure = fix.position is not None
    words = [f"{fix.time_s:.0f} s", fix.status, f"confidence {fix.confidence:.2f}"]
    if fix.speed_m_s is not None and fix.heading_deg is not None:
        words.append(f"{fix.speed_m_s:.0f} m/s toward {fix.heading_deg:.0f}°")
    if fix.ellipse is not None:
        words.append(f"± {fix.ellipse.major_m:.0f} m")
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{(2.4 if sure else 1.8) * unit:.1f}" fill="{SURE if sure else UNSURE}" '
        f'fill-opacity="{0.35 + 0.65 * fix.confidence:.2f}"><title>{", ".join(words)}</title></circle>'
    )


def _polyline(points: Points, colour: str, width: float, fill: str = "none") -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline points="{places}" fill="{fill}" fill-opacity=".25" stroke="{colour}" stroke-width="{width:.1f}" '
        'stroke-linejoin="round" stroke-linecap="round"/>'
    )


def _curve(fixes: Sequence[Fix], errors: Floats) -> str:
    """Distance from the truth over time on a logarithmic scale, with the line of 80 m."""
    width, height, left, bottom = 1000, 260, 60, 30
    times = np.array([fix.time_s for fix in fixes])
    span = max(1e-6, float(times[-1] - times[0]))

    def at(time_s: float, metres: float) -> tuple[float, float]:
        level = (np.log10(min(max(metres, 1.0), 10_000.0))) / 4.0
        return left + (time_s - times[0]) / span * (width - left - 10), (height - bottom) * (1 - level) + 8

    shapes = []
    for metres in (1, 10, geo.RIGHT_WITHIN_M, 1000, 10_000):
        y = at(float(times[0]), metres)[1]
        dash = ' stroke-dasharray="6 4" stroke="#c00"' if metres == geo.RIGHT_WITHIN_M else ' stroke="#ddd"'
        shapes.append(f'<line x1="{left}" x2="{width}" y1="{y:.1f}" y2="{y:.1f}"{dash}/>')
        shapes.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{metres:.0f} m</text>')
    for fix, error in zip(fixes, errors, strict=True):
        if not np.isnan(error):
            x, y = at(fix.time_s, float(error))
            colour = SURE if fix.position is not None else UNSURE
            shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        if fix.refreshed:
            x = at(fix.time_s, 1.0)[0]
            shapes.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{height - 22}" y2="{height - 12}" stroke="{CANDIDATE}"/>'
            )
    shapes += [
        f'<text x="{left}" y="{height + 4}">{times[0]:.0f} s</text>',
        f'<text x="{width - 4}" y="{height + 4}" text-anchor="end">{times[-1]:.0f} s</text>',
    ]
    return f'<svg viewBox="0 0 {width} {height + 10}" font-size="12" fill="#555">{"".join(shapes)}</svg>'


def _views(views: Sequence[View]) -> str:
    figures = []
    for view in views:
        heat = heatmap(view.similarities, view.valid)
        figures.append(
            f'<figure><img alt="frame" src="{_data(view.frame.image)}"><img alt="heatmap" src="{_data(heat)}">'
            f"<figcaption>{view.frame.time_s:.0f} s, region {view.region}, best similarity "
            f"{_best(view):.2f}</figcaption></figure>"
        )
    same = [view for view in views if view.region == views[-1].region]
    if len(same) > 1:
        mean = np.mean([view.similarities for view in same], axis=0)
        figures.append(
            f'<figure><img alt="mean heatmap" src="{_data(heatmap(mean, same[0].valid))}"><figcaption>mean of the '
            f"{len(same)} keyframes matched with region {views[-1].region}</figcaption></figure>"
        )
    return f'<div class="views">{"".join(figures)}</div>'


def _best(view: View) -> float:
    return float(view.similarities[view.valid].max()) if view.valid.any() else 0.0


def heatmap(similarities: Codes, valid: Bools, scale: int = 18) -> Image:
    """Similarities (m, m) in colours from dark blue to yellow, north up; grey where there is no imagery."""
    low, high = (float(f(similarities[valid])) for f in (np.min, np.max)) if valid.any() else (0.0, 1.0)
    share = np.clip((similarities - low) / max(1e-9, high - low), 0, 1)[..., None]
    stops = np.array([(20, 18, 70), (110, 30, 130), (215, 75, 90), (250, 165, 60), (250, 245, 150)], np.float64)
    place = share * (len(stops) - 1)
    i = np.minimum(place.astype(int), len(stops) - 2)
    colours = stops[i[..., 0]] + (place - i) * (stops[i[..., 0] + 1] - stops[i[..., 0]])
    colours[~valid] = 160
    return np.asarray(colours, np.uint8).repeat(scale, 0).repeat(scale, 1)


def _data(image: Image) -> str:
    out = io.BytesIO()
    Pillow.fromarray(np.ascontiguousarray(image)).save(out, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode()
