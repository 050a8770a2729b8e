"""The colour of the ground at any place, near or far.

One function serves both views: the aerial picture calls it for every pixel, the street view for every ray. So a lane
marking, a kerb or a parking bay is at the same place in both views, and sharp in both.
"""

from __future__ import annotations

import numpy as np

from x2localizer.compiled import inlined
from x2localizer.town.boxes import COURT, DRIVEWAY, LOT, in_box
from x2localizer.town.columns import BLUE, BOX, GREEN, RED, ROAD, X, Y
from x2localizer.town.districts import (
    ASPHALT,
    DASHED,
    FIELD,
    GARDEN,
    LAWN,
    NO_MARKING,
    PARK,
    PATH,
    PAVEMENT,
    PLAZA,
    SOLID,
    WATER,
    WOOD,
    YARD,
    YELLOW,
)
from x2localizer.town.layers import FIELD_UNIT_M, ZONE_STEP, Float32, Layers
from x2localizer.town.noise import hash01, smooth_noise

Colour = tuple[float, float, float]

# Kerbs, and the two paints of markings.
KERB: Colour = (172.0, 170.0, 164.0)
WHITE: Colour = (232.0, 232.0, 226.0)
AMBER: Colour = (226.0, 176.0, 52.0)


@inlined
def line_cover(distance: float, width: float, foot: float) -> float:
    """Share (0 to 1) of a pixel of ``foot`` metres that a line covers whose centre is ``distance`` away."""
    low = max(distance - 0.5 * foot, -0.5 * width)
    high = min(distance + 0.5 * foot, 0.5 * width)
    return max(0.0, min(1.0, (high - low) / foot))


@inlined
def dash_cover(at: float, period: float, share: float, foot: float) -> float:
    """Share (0 to 1) of a pixel of ``foot`` metres that dashes cover, at a distance along the dashed line.

    ``share`` of each ``period`` is painted; pixels larger than a period get the average.
    """
    if foot > period:
        return share
    return line_cover((at / period - np.floor(at / period)) * period - 0.5 * share * period, share * period, foot)


@inlined
def _marking(
    roads: Float32, road: int, lateral: float, along: float, foot: float, foot_along: float
) -> tuple[float, float]:
    """Shares (0 to 1) of white and of yellow paint at a place on the asphalt."""
    half, style, arterial = roads[road, ROAD.half_width], int(roads[road, ROAD.marking]), roads[road, ROAD.arterial] > 0
    clear_a, clear_b = roads[road, ROAD.clear_a], roads[road, ROAD.clear_b]
    from_a, from_b = along - clear_a, roads[road, ROAD.length] - along - clear_b
    open_a, open_b = clear_a > 0, clear_b > 0
    white, yellow = 0.0, 0.0
    if (open_a and from_a < 0.3) or (open_b and from_b < 0.3):
        return 0.0, 0.0
    zebra = arterial or style != NO_MARKING
    for end in range(2):
        is_open, away, inward = (open_a, from_a, lateral < 0) if end == 0 else (open_b, from_b, lateral > 0)
        if is_open and zebra and away < 5.6:
            if away < 4.0:
                bar = line_cover(away - 2.2, 3.0, foot_along)
                return bar * dash_cover(lateral + 100.0, 1.2, 0.5, foot), 0.0
            stop = line_cover(away - 4.9, 0.5, foot_along) if inward else 0.0
            return stop, 0.0
    if style == DASHED:
        white = line_cover(lateral, 0.22, foot) * dash_cover(along, 8.0, 0.5, foot_along)
    elif style == SOLID:
        white = line_cover(lateral, 0.22, foot)
    elif style == YELLOW:
        yellow = line_cover(abs(lateral) - 0.2, 0.16, foot)
    if arterial:
        lane = line_cover(abs(lateral) - 0.5 * half, 0.2, foot) * dash_cover(along, 10.0, 0.4, foot_along)
        border = line_cover(abs(lateral) - half + 0.35, 0.18, foot)
        white = max(white, max(lane, border))
    return white, yellow


@inlined
def _flat_box(boxes: Float32, i: int, x: float, y: float, foot: float) -> tuple[float, float, float]:
    """RGB of parking lots, courts, driveways and pools."""
    u, v = in_box(boxes, i, x, y)
    a, b, kind = boxes[i, BOX.half_length], boxes[i, BOX.half_width], int(boxes[i, BOX.kind])
    r, g, bl = boxes[i, BOX.wall_red], boxes[i, BOX.wall_green], boxes[i, BOX.wall_blue]
    edge = min(a - abs(u), b - abs(v))
    if kind == LOT:
        row = (v + b) / 8.5 - np.floor((v + b) / 8.5)
        paint = 0.0
        if row < 0.59:
            paint = dash_cover(u + a, 2.6, 0.06, foot) * 0.8
        speck = 10.0 * (smooth_noise(x / 3.0, y / 3.0, int(boxes[i, BOX.seed])) - 0.5)
        return r + speck + paint * (225 - r), g + speck + paint * (225 - g), bl + speck + paint * (220 - bl)
    if kind == COURT:
        paint = max(line_cover(edge - 2.0, 0.3, foot), line_cover(u, 0.3, foot) if edge > 2.0 else 0.0)
        if edge < 2.0:
            r, g, bl = 74.0, 112.0, 70.0
        return r + paint * (230 - r), g + paint * (230 - g), bl + paint * (225 - bl)
    if kind == DRIVEWAY:
        slab = 14.0 * (smooth_noise(x / 2.0, y / 2.0, int(boxes[i, BOX.seed])) - 0.5)
        return r + slab, g + slab, bl + slab
    if edge < 0.6:
        return 206.0, 200.0, 188.0
    wave = 14.0 * smooth_noise(x * 1.3, y * 1.3, 5)
    return r + wave, g + wave, bl + wave


@inlined
def _open_ground(
    surface: int,
    street_x: float,
    street_y: float,
    palette: Float32,
    zone: int,
    x: float,
    y: float,
    foot: float,
    seed: int,
) -> tuple[float, float, float]:
    """RGB of lawns, plazas, fields, woods and water, each with its grain; (street_x, street_y) runs along streets."""
    r, g, b = palette[zone, surface, RED], palette[zone, surface, GREEN], palette[zone, surface, BLUE]
    large = smooth_noise(x / 19.0, y / 19.0, seed) - 0.5
    small = smooth_noise(x / 2.1, y / 2.1, seed + 1) - 0.5
    near = max(0.0, 1.0 - foot * 2.5)
    grain = (hash01(int(np.floor(x * 9)), int(np.floor(y * 9)), seed + 2) - 0.5) * near
    u, v = x * street_x + y * street_y, y * street_x - x * street_y
    if surface == WATER:
        wave = 12.0 * (smooth_noise(x / 5.0, y / 2.0, seed + 3) - 0.5) + 8.0 * large
        return r + wave * 0.6, g + wave * 0.9, b + wave
    if surface == FIELD:
        parcel = hash01(int(np.floor(u / 95.0)), int(np.floor(v / 60.0)), seed + 4)
        furrow = 9.0 * (dash_cover(v if parcel < 0.5 else u, 3.0, 0.5, foot) - 0.5)
        tone = 44.0 * (parcel - 0.5)
        return r + tone + furrow + 10 * small, g + 0.7 * tone + furrow + 10 * small, b + 0.3 * tone + furrow
    if surface in (PLAZA, YARD):
        size = 3.0 if surface == PLAZA else 6.0
        joint = max(dash_cover(u, size, 0.06, foot), dash_cover(v, size, 0.06, foot))
        slab = 9.0 * (hash01(int(np.floor(u / size)), int(np.floor(v / size)), seed + 5) - 0.5)
        shade = slab + 12.0 * large + 6.0 * grain - 26.0 * joint
        return r + shade, g + shade, b + shade
    if surface == PARK:
        trail = abs(smooth_noise(x / 85.0, y / 85.0, seed + 6) - 0.5)
        if trail < 0.014:
            speck = 12.0 * grain + 8.0 * small
            return (
                palette[zone, PATH, RED] + speck,
                palette[zone, PATH, GREEN] + speck,
                palette[zone, PATH, BLUE] + speck,
            )
    if surface == GARDEN:
        column, row = np.floor(u / 9.5), np.floor(v / 17.0 + 0.37 * (np.floor(u / 9.5) % 3))
        low = (row - 0.37 * (column % 3)) * 17.0
        plot = hash01(int(column), int(row), seed + 7)
        hedge = min(min(u - column * 9.5, column * 9.5 + 9.5 - u), min(v - low, low + 17.0 - v))
        if hedge < 0.4 and plot < 0.7:
            return 66.0 + 30.0 * small, 86.0 + 34.0 * small, 48.0 + 20.0 * small
        if plot > 0.9 and hedge > 1.5:
            slab = 14.0 * small + 8.0 * grain - 12.0
            return (palette[zone, PAVEMENT, RED] * 0.9 + slab, palette[zone, PAVEMENT, GREEN] * 0.9 + slab,
                    palette[zone, PAVEMENT, BLUE] * 0.9 + slab)  # fmt: skip
        if plot > 0.76 and v - low < 7.0:
            bed = 12.0 * (dash_cover(u, 1.6, 0.5, foot) - 0.5)
            return 108.0 + bed + 20.0 * small, 98.0 + bed + 20.0 * small, 68.0 + bed + 12.0 * small
        tone = 26.0 * (plot - 0.5)
        r, g, b = r + tone * 0.7, g + tone * 0.5, b + tone * 0.4
    depth = 34.0 if surface == WOOD else 20.0
    shade = depth * small + 26.0 * large + 22.0 * grain
    if surface == LAWN:
        plot = hash01(int(np.floor(u / 24.0)), int(np.floor(v / 31.0)), seed + 11) - 0.5
        r, g, b = r + 22.0 * plot, g + 14.0 * plot, b + 12.0 * plot
        shade += 5.0 * (dash_cover(u, 3.6, 0.5, foot) - 0.5)
    return r + 0.9 * shade + 8.0 * large, g + shade, b + 0.6 * shade


@inlined
def ground_colour(
    layers: Layers, boxes: Float32, palette: Float32, x: float, y: float, foot: float, foot_far: float, seed: int
) -> tuple[float, float, float]:
    """RGB (0 to 255) of the ground at map metres (x, y).

    ``foot`` is the size in metres that a pixel covers there, ``foot_far`` its size along the line of sight; from above
    both are equal. Off the map, the colour is that of the nearest pixel on the border.
    """
    mpp = layers.metres_per_pixel
    rows, columns = layers.surface.shape
    fx = min(max(x / mpp - 0.5, 0.0), columns - 1.001)
    fy = min(max(y / mpp - 0.5, 0.0), rows - 1.001)
    c, r = int(fx), int(fy)
    u, v = fx - c, fy - r
    cn, rn = c + int(u > 0.5), r + int(v > 0.5)
    zone = int(layers.zone[rn // ZONE_STEP, cn // ZONE_STEP])
    road = int(layers.nearest_road[rn, cn])
    if road >= 0:
        w00, w01, w10, w11 = (1 - u) * (1 - v), u * (1 - v), (1 - u) * v, u * v
        m = layers.margin
        margin = (m[r, c] * w00 + m[r, c + 1] * w01 + m[r + 1, c] * w10 + m[r + 1, c + 1] * w11) * FIELD_UNIT_M
        if margin < layers.roads[road, ROAD.pavement]:
            n, f, s = layers.nearest_road, layers.lateral, layers.along
            if n[r, c] == road and n[r, c + 1] == road and n[r + 1, c] == road and n[r + 1, c + 1] == road:
                lateral = f[r, c] * w00 + f[r, c + 1] * w01 + f[r + 1, c] * w10 + f[r + 1, c + 1] * w11
                along = s[r, c] * w00 + s[r, c + 1] * w01 + s[r + 1, c] * w10 + s[r + 1, c + 1] * w11
            else:
                lateral, along = float(f[rn, cn]), float(s[rn, cn])
            lateral, along = lateral * FIELD_UNIT_M, along * FIELD_UNIT_M
            return _street(layers.roads, road, palette, zone, margin, lateral, along, x, y, foot, foot_far, seed)
    box = int(layers.owner[rn, cn])
    if box > 0 and boxes[box - 1, BOX.kind] >= LOT:
        return _flat_box(boxes, box - 1, x, y, foot)
    surface, street_x, street_y = int(layers.surface[rn, cn]), layers.street_axis[zone, X], layers.street_axis[zone, Y]
    return _open_ground(surface, street_x, street_y, palette, zone, x, y, max(foot, foot_far * 0.5), seed)


@inlined
def _street(
    roads: Float32,
    road: int,
    palette: Float32,
    zone: int,
    margin: float,
    lateral: float,
    along: float,
    x: float,
    y: float,
    foot: float,
    foot_far: float,
    seed: int,
) -> tuple[float, float, float]:
    """RGB of asphalt with its paint, kerb and sidewalk."""
    near = max(0.0, 1.0 - foot * 3.0)
    grain = (hash01(int(np.floor(x * 12)), int(np.floor(y * 12)), seed + 8) - 0.5) * near
    patch = smooth_noise(x / 6.0, y / 6.0, seed + 9) - 0.5
    # The sidewalk.
    joint = max(dash_cover(along, 1.6, 0.05, foot_far), dash_cover(margin + 50.0, 1.6, 0.05, foot)) * near
    shade = 10.0 * patch + 8.0 * grain - 26.0 * joint
    pr, pg, pb = (
        palette[zone, PAVEMENT, RED] + shade,
        palette[zone, PAVEMENT, GREEN] + shade,
        palette[zone, PAVEMENT, BLUE] + shade,
    )
    kerb = line_cover(margin - 0.12, 0.24, foot)
    pr, pg, pb = pr + kerb * (KERB[RED] - pr), pg + kerb * (KERB[GREEN] - pg), pb + kerb * (KERB[BLUE] - pb)
    on_road = min(max(0.5 - margin / foot, 0.0), 1.0)
    if on_road <= 0.0:
        return pr, pg, pb
    white, yellow = _marking(roads, road, lateral, along, foot, foot_far)
    worn = 0.92 - 0.3 * smooth_noise(x / 1.7, y / 1.7, seed + 10)
    white, yellow = white * worn, yellow * worn
    wheel = 4.0 * line_cover(abs(abs(lateral) - 0.5 * roads[road, ROAD.half_width]) - 0.8, 0.7, max(foot, 0.4))
    shade = 13.0 * patch + 20.0 * grain - wheel
    ar, ag, ab = (
        palette[zone, ASPHALT, RED] + shade,
        palette[zone, ASPHALT, GREEN] + shade,
        palette[zone, ASPHALT, BLUE] + shade,
    )
    ar += white * (WHITE[RED] - ar) + yellow * (AMBER[RED] - ar)
    ag += white * (WHITE[GREEN] - ag) + yellow * (AMBER[GREEN] - ag)
    ab += white * (WHITE[BLUE] - ab) + yellow * (AMBER[BLUE] - ab)
    return pr + on_road * (ar - pr), pg + on_road * (ag - pg), pb + on_road * (ab - pb)
