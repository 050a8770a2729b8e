"""A track as one HTML page that opens without a network.

The map is made of the gallery's own pictures, with the track, the truth, the candidates and the searches on it; then
the error over time, and frames beside the heatmaps of their similarity over the region.
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
from x2localizer.show.gallery_map import GalleryMap, draw_gallery
from x2localizer.sources.tracks import Track
from x2localizer.types import Bools, Codes, Fix, Floats, Image, Position, View

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
    regions = [fix.region for fix in fixes if fix.region is not None]
    parts = [f"<h1>{html.escape(title)}</h1>", _numbers(summary)]
    if regions:
        parts += ["<h2>Map</h2>", _map(draw_gallery(gallery, regions), fixes, truth)]
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
    shapes: list[str] = []
    seen = {c.region for fix in fixes if fix.refreshed for c in fix.candidates[:3]}
    for region in sorted(seen):
        x, y, side = drawn.box(region)
        if -side < x < width and -side < y < height:
            shapes.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{side:.1f}" height="{side:.1f}" fill="none" '
                f'stroke="{CANDIDATE}" stroke-opacity=".35" stroke-width="{unit:.1f}"/>'
            )
    if truth is not None:
        places = [truth.at(fix.time_s) for fix in fixes]
        shapes += _line(drawn, places, TRUTH, 5 * unit) + _line(drawn, places, "#111", 1.6 * unit)
    for fix in fixes:
        if fix.guess is not None:
            x, y = drawn.pixel(fix.guess)
            colour = SURE if fix.position is not None else UNSURE
            size = (3.4 if fix.position is not None else 2.2) * unit
            shapes.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" fill="{colour}" '
                f'fill-opacity="{0.35 + 0.65 * fix.confidence:.2f}"><title>{fix.time_s:.0f} s, {fix.status}, '
                f"confidence {fix.confidence:.2f}</title></circle>"
            )
            if fix.refreshed:
                shapes.append(
                    f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{6 * unit:.1f}" fill="none" stroke="{CANDIDATE}" '
                    f'stroke-width="{1.4 * unit:.1f}"/>'
                )
    key = [(SURE, "sure"), (UNSURE, "guess, not sure"), (CANDIDATE, "searched again; candidate regions")]
    if truth is not None:
        key.append(("#111", "truth"))
    legend = "".join(f'<span><i style="background:{colour}"></i>{name}</span>' for colour, name in key)
    return (
        f'<p class="key">{legend}</p><div class="map"><img alt="aerial map" src="{_data(drawn.image)}">'
        f'<svg viewBox="0 0 {width} {height}">{"".join(shapes)}</svg></div>'
    )


def _line(drawn: GalleryMap, places: Sequence[Position | None], colour: str, width: float) -> list[str]:
    """A line through places, broken where there is none."""
    out, points = [], []
    for place in [*places, None]:
        if place is not None:
            points.append("{:.1f},{:.1f}".format(*drawn.pixel(place)))
        elif points:
            out.append(
                f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="{width:.1f}"/>'
            )
            points = []
    return out


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
            f"{float(view.similarities[view.valid].max()):.2f}</figcaption></figure>"
        )
    same = [view for view in views if view.region == views[-1].region]
    mean = np.mean([view.similarities for view in same], axis=0)
    figures.append(
        f'<figure><img alt="mean heatmap" src="{_data(heatmap(mean, same[0].valid))}"><figcaption>mean of the '
        f"{len(same)} keyframes matched with region {views[-1].region}</figcaption></figure>"
    )
    return f'<div class="views">{"".join(figures)}</div>'


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
