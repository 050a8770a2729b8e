"""A track as one HTML page that opens without a network.

The map pans, zooms and replays the track over the gallery's own pictures and roads; then the error over time, and
frames beside the heatmaps of their similarity over the region.
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
from x2localizer.show.viewer import asset, viewer
from x2localizer.sources.tracks import Track
from x2localizer.types import Bools, Codes, Fix, Floats, Image, View


def report_page(
    fixes: Sequence[Fix],
    views: Sequence[View],
    gallery: Gallery,
    summary: Summary,
    truth: Track | None = None,
    title: str = "Where was the camera?",
) -> str:
    """The page as HTML."""
    drawn = viewer(gallery, fixes, views, truth)
    parts = [f"<h1>{html.escape(title)}</h1>", _numbers(summary)]
    if drawn is not None:
        parts += ["<h2>Map</h2>", drawn]
    if truth is not None:
        parts += ["<h2>Error over time</h2>", _curve(fixes, errors_m(fixes, truth))]
    if views:
        parts += ["<h2>Frames, and where they fit</h2>", _views(views)]
    style = asset("report.css")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width"><title>{html.escape(title)}</title><style>{style}</style></head><body>\n'
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _numbers(summary: Summary) -> str:
    rows = "".join(f"<tr><td>{name}</td><td><b>{value}</b></td></tr>" for name, value in summary.to_rows())
    return f"<table>{rows}</table>"


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
        kind = ' class="right"' if metres == geo.RIGHT_WITHIN_M else ""
        shapes.append(f'<line x1="{left}" x2="{width}" y1="{y:.1f}" y2="{y:.1f}"{kind}/>')
        shapes.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{metres:.0f} m</text>')
    for fix, error in zip(fixes, errors, strict=True):
        if not np.isnan(error):
            x, y = at(fix.time_s, float(error))
            kind = "sure" if fix.position is not None else "guess"
            shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="{kind}"/>')
        if fix.refreshed:
            x = at(fix.time_s, 1.0)[0]
            shapes.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{height - 22}" y2="{height - 12}" class="search"/>')
    shapes += [
        f'<text x="{left}" y="{height + 4}">{times[0]:.0f} s</text>',
        f'<text x="{width - 4}" y="{height + 4}" text-anchor="end">{times[-1]:.0f} s</text>',
    ]
    return f'<svg class="curve" viewBox="0 0 {width} {height + 10}" font-size="12">{"".join(shapes)}</svg>'


def _views(views: Sequence[View]) -> str:
    figures = []
    for number, view in enumerate(views):
        heat = heatmap(view.similarities, view.valid)
        figures.append(
            f'<figure id="view-{number}"><img alt="frame" src="{_data(view.frame.image)}">'
            f'<img alt="heatmap" src="{_data(heat)}">'
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
