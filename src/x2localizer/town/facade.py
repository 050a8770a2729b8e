"""The colour of what stands at the street: facades with windows, shops and doors, hedges, fences, cars."""

from __future__ import annotations

import numpy as np

from x2localizer.compiled import inlined
from x2localizer.town.boxes import BUILDING, CABIN, CAR, FENCE, HEDGE, WINDOW_STYLES
from x2localizer.town.columns import BOX
from x2localizer.town.ground import dash_cover, line_cover
from x2localizer.town.layers import Float32
from x2localizer.town.noise import hash01, smooth_noise

# Window openings by style, as shares of the bay and the storey.
LEFT, RIGHT, BOTTOM, TOP = range(4)
_OPENINGS = np.array(
    [(0.26, 0.74, 0.30, 0.82), (0.08, 0.92, 0.36, 0.82), (0.32, 0.68, 0.18, 0.88), (0.16, 0.84, 0.26, 0.86)]
)


@inlined
def _building(
    boxes: Float32, i: int, s: float, z: float, width: float, foot: float, night: float
) -> tuple[float, float, float, float]:
    """RGB of a facade at ``s`` metres along it and ``z`` above ground, and how much of it is its own light (0 to 1)."""
    seed, style = int(boxes[i, BOX.seed]), int(boxes[i, BOX.style])
    storey, bottom, top = boxes[i, BOX.storey], boxes[i, BOX.bottom], boxes[i, BOX.eaves]
    bays = max(1, int(width / boxes[i, BOX.bay] + 0.5))
    bay = width / bays
    k, p = int(s / bay), s / bay - np.floor(s / bay)
    level = int((z - bottom) / storey)
    q = (z - bottom) / storey - level
    grain = 12.0 * (smooth_noise(s / 1.5, z / 1.5, seed) - 0.5)
    if foot < 0.06:
        grain += 10.0 * (hash01(int(s * 7), int(z * 14), seed) - 0.5)
    r, g, b = boxes[i, BOX.wall_red] + grain, boxes[i, BOX.wall_green] + grain, boxes[i, BOX.wall_blue] + grain
    if z > top - 0.45:  # eaves
        return r * 0.78, g * 0.78, b * 0.78, 0.0
    if z < 0.5 and bottom == 0.0:  # plinth
        return r * 0.7, g * 0.7, b * 0.7, 0.0
    shop = style >= WINDOW_STYLES and level == 0 and bottom == 0.0
    left, right = _OPENINGS[style % WINDOW_STYLES, LEFT], _OPENINGS[style % WINDOW_STYLES, RIGHT]
    low, high = _OPENINGS[style % WINDOW_STYLES, BOTTOM], _OPENINGS[style % WINDOW_STYLES, TOP]
    if shop:
        if q > 0.78:
            tint = hash01(int(s / 7.0), seed, 3)
            sign = 60.0 + 130.0 * hash01(int(s / 7.0), seed, 4)
            if tint < 0.33:
                return sign, 50.0, 46.0, 0.3
            if tint < 0.66:
                return 44.0, 74.0, sign, 0.3
            return sign, sign * 0.9, 66.0, 0.3
        left, right, low, high = 0.06, 0.94, 0.12, 0.74
    if level == 0 and not shop and bottom == 0.0 and k == int(bays * 0.4):  # the door
        low, high, left, right = 0.05, 0.74, 0.34, 0.66
        if left < p < right and q < high:
            return boxes[i, BOX.roof_red] * 0.55, boxes[i, BOX.roof_green] * 0.5, boxes[i, BOX.roof_blue] * 0.5, 0.0
    if (level + 1) * storey + bottom > top + 0.3:
        return r, g, b, 0.0
    inside = min(min(p - left, right - p) * bay, min(q - low, high - q) * storey)
    cover = min(max(0.5 + inside / max(foot, 0.03), 0.0), 1.0)
    if foot > 0.5 * bay:
        cover = (right - left) * (high - low)
    pane = hash01(k + 31 * level, level, seed)
    glow = 0.0
    if pane < 0.34 * night or (shop and night > 0.5):
        wr, wg, wb, glow = 255.0, 214.0, 140.0, 0.9 * cover
    else:
        tone = 34.0 + 46.0 * pane + 26.0 * q
        wr, wg, wb = tone * 0.86, tone * 0.98, tone * 1.12
    if foot < 0.12 and cover >= 1.0:  # frame and cross bar
        bar = max(line_cover(inside - 0.04, 0.08, foot), line_cover((p - 0.5) * bay, 0.07, foot))
        wr, wg, wb = wr + bar * (214 - wr), wg + bar * (212 - wg), wb + bar * (206 - wb)
    return r + cover * (wr - r), g + cover * (wg - g), b + cover * (wb - b), glow


@inlined
def _car(
    boxes: Float32, i: int, s: float, z: float, width: float, end: int, night: float
) -> tuple[float, float, float, float]:
    """RGB and own light of a car; ``end`` is 1 at the front, -1 at the back, 0 at the sides."""
    r, g, b = boxes[i, BOX.wall_red], boxes[i, BOX.wall_green], boxes[i, BOX.wall_blue]
    if int(boxes[i, BOX.kind]) == CABIN:
        if z > boxes[i, BOX.eaves] - 0.12 or (end == 0 and abs(s - 0.5 * width) < 0.06):
            return r * 0.9, g * 0.9, b * 0.9, 0.0
        return 34.0, 40.0, 48.0, 0.0
    if end == 0:
        for axle in range(2):
            x = s - (0.19 if axle == 0 else 0.81) * width
            if x * x + (z - 0.31) * (z - 0.31) < 0.105:
                return 24.0, 24.0, 26.0, 0.0
    if z < 0.24:
        return 20.0, 20.0, 22.0, 0.0
    if end != 0 and 0.5 < z < 0.78:
        if s < 0.42 or s > width - 0.42:
            return (244.0, 240.0, 224.0, 0.25 + 0.7 * night) if end > 0 else (206.0, 30.0, 26.0, 0.2 + 0.6 * night)
        if end < 0 and abs(s - 0.5 * width) < 0.26:
            return 220.0, 220.0, 214.0, 0.0
    shade = 0.86 + 0.2 * (z - 0.3)
    return r * shade, g * shade, b * shade, 0.0


@inlined
def wall_colour(
    boxes: Float32, i: int, end: int, s: float, z: float, width: float, foot: float, night: float
) -> tuple[float, float, float, float]:
    """RGB (0 to 255) of a side of box ``i``, and how much of it is its own light (0 to 1).

    The place is ``s`` metres along the side, which is ``width`` metres long, and ``z`` above ground. ``end`` is 1 at
    the front of a car, -1 at its back and 0 at its sides; ``foot`` is the size in metres that a pixel covers.
    """
    kind = int(boxes[i, BOX.kind])
    if kind == BUILDING:
        return _building(boxes, i, s, z, width, foot, night)
    if kind in (CAR, CABIN):
        return _car(boxes, i, s, z, width, end, night)
    r, g, b = boxes[i, BOX.wall_red], boxes[i, BOX.wall_green], boxes[i, BOX.wall_blue]
    if kind == HEDGE:
        leaf = 0.7 + 0.5 * smooth_noise(s / 0.35, z / 0.35, int(boxes[i, BOX.seed])) * (
            0.6 + 0.4 * z / boxes[i, BOX.eaves]
        )
        return r * leaf, g * leaf, b * leaf, 0.0
    slat = 1.0 - 0.35 * dash_cover(s, 0.5, 0.18, max(foot, 0.02))
    if kind == FENCE:
        return r * slat, g * slat, b * slat, 0.0
    return r, g, b, 0.0
