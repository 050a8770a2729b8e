"""The aerial picture of a town: ground, roofs, trees, parked cars, and the shadows of one sun."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from x2localizer.compiled import compiled
from x2localizer.town.boxes import HEDGE, LOT, in_box
from x2localizer.town.columns import BLUE, BOX, GREEN, RED, TREE
from x2localizer.town.districts import CONE, POLE
from x2localizer.town.ground import ground_colour, line_cover
from x2localizer.town.layers import Float32, Layers, UInt8, UInt16
from x2localizer.town.noise import hash01, smooth_noise
from x2localizer.types import Image


@compiled
def cast_shadow(height: UInt16, mpp: float, sun_x: float, sun_y: float, slope: float, reach: Float32) -> None:
    """Write to ``reach`` the height in metres below which each pixel is in shadow.

    ``height`` is in decimetres, ``(sun_x, sun_y)`` the unit vector on the map toward the sun and ``slope`` the tangent
    of its height. One sweep away from the sun: a pixel inherits the shadow of the pixel before it, lowered by one step.
    """
    rows, columns = height.shape
    by_column = abs(sun_x) >= abs(sun_y)
    major, minor = (sun_x, sun_y) if by_column else (sun_y, sun_x)
    outer, inner = (columns, rows) if by_column else (rows, columns)
    shift = minor / abs(major)
    drop = slope * mpp / abs(major)
    base = int(np.floor(shift))
    share = shift - base
    for step in range(outer):
        i = step if major < 0 else outer - 1 - step
        j = i - 1 if major < 0 else i + 1
        for k in range(inner):
            value = 0.0
            if 0 <= j < outer:
                for side in range(2):
                    q = k + base + side
                    weight = share if side else 1.0 - share
                    if 0 <= q < inner:
                        if by_column:
                            value += weight * max(reach[q, j], height[q, j] * 0.1)
                        else:
                            value += weight * max(reach[j, q], height[j, q] * 0.1)
                value = max(0.0, value - drop)
            if by_column:
                reach[k, i] = value
            else:
                reach[i, k] = value


@compiled
def _roof(
    boxes: Float32, i: int, x: float, y: float, sun_x: float, sun_y: float, foot: float
) -> tuple[float, float, float]:
    """RGB of a roof from above: two slopes in different light, or flat with a parapet and technical equipment."""
    u, v = in_box(boxes, i, x, y)
    a, b, seed = boxes[i, BOX.half_length], boxes[i, BOX.half_width], int(boxes[i, BOX.seed])
    eaves, ridge = boxes[i, BOX.eaves], boxes[i, BOX.ridge]
    light = 1.0
    if boxes[i, BOX.kind] >= HEDGE:
        light = 0.9 + 0.3 * (smooth_noise(x / 0.9, y / 0.9, seed) - 0.5)
    elif ridge > eaves + 0.05:
        pitch = min((ridge - eaves) / b, 1.0)
        side = 1.0 if v > 0 else -1.0
        toward = side * (sun_y * boxes[i, BOX.axis_x] - sun_x * boxes[i, BOX.axis_y])
        course = 0.05 * (hash01(int(np.floor(u / 0.8)), int(np.floor(v / 0.8)), seed) - 0.5)
        light = 0.94 + 0.34 * pitch * toward + course + 0.1 * line_cover(v, 0.3, foot)
        light += 0.08 * (smooth_noise(u / 4.0, v / 4.0, seed) - 0.5)
    else:
        edge = min(a - abs(u), b - abs(v))
        light = 0.97 + 0.12 * (smooth_noise(x / 3.0, y / 3.0, seed) - 0.5) + 0.22 * line_cover(edge - 0.3, 0.5, foot)
        if edge > 2.0:
            cell = hash01(int(np.floor(u / 5.0)), int(np.floor(v / 5.0)), seed + 1)
            inside = min(abs(u / 5.0 - np.floor(u / 5.0) - 0.5), 9.0) + abs(v / 5.0 - np.floor(v / 5.0) - 0.5)
            if cell > 0.86 and inside < 0.3:
                light *= 1.22 if cell > 0.93 else 0.66
    return boxes[i, BOX.roof_red] * light, boxes[i, BOX.roof_green] * light, boxes[i, BOX.roof_blue] * light


@compiled
def _paint_ground(
    layers: Layers, boxes: Float32, palette: Float32, reach: Float32, sun_x: float, sun_y: float, seed: int,
    canvas: UInt8,
) -> None:  # fmt: skip
    """Paint roofs and the ground between them, in sun and shadow."""
    mpp = layers.metres_per_pixel
    rows, columns = layers.surface.shape
    for r in range(rows):
        y = (r + 0.5) * mpp
        for c in range(columns):
            x = (c + 0.5) * mpp
            owner = int(layers.owner[r, c])
            level = 0.0
            if owner > 0 and boxes[owner - 1, BOX.kind] < LOT:
                red, green, blue = _roof(boxes, owner - 1, x, y, sun_x, sun_y, mpp)
                eaves, ridge = boxes[owner - 1, BOX.eaves], boxes[owner - 1, BOX.ridge]
                _, v = in_box(boxes, owner - 1, x, y)
                level = ridge - (ridge - eaves) * abs(v) / boxes[owner - 1, BOX.half_width]
            else:
                red, green, blue = ground_colour(layers, boxes, palette, x, y, mpp, mpp, seed)
            dark = min(max(reach[r, c] - level - 0.3, 0.0), 1.2) / 1.2
            canvas[r, c, RED] = min(max(red * (1.0 - 0.52 * dark), 0.0), 255.0)
            canvas[r, c, GREEN] = min(max(green * (1.0 - 0.49 * dark), 0.0), 255.0)
            canvas[r, c, BLUE] = min(max(blue * (1.0 - 0.42 * dark), 0.0), 255.0)


@compiled
def _paint_trees(
    trees: Float32, mpp: float, reach: Float32, sun_x: float, sun_y: float, bare: float, canvas: UInt8
) -> None:
    """Paint crowns, which come from low to high, lit from the sun's side and ragged at the rim."""
    rows, columns = reach.shape
    for i in range(trees.shape[0]):
        x, y, crown = trees[i, TREE.x], trees[i, TREE.y], trees[i, TREE.crown]
        z, half = trees[i, TREE.middle], trees[i, TREE.half_height]
        shape, seed = int(trees[i, TREE.shape]), int(trees[i, TREE.seed])
        if shape == POLE:
            continue
        thin = 0.0 if shape == CONE else bare
        for r in range(max(0, int((y - crown) / mpp)), min(rows, int((y + crown) / mpp) + 1)):
            for c in range(max(0, int((x - crown) / mpp)), min(columns, int((x + crown) / mpp) + 1)):
                dx, dy = ((c + 0.5) * mpp - x) / crown, ((r + 0.5) * mpp - y) / crown
                d = np.sqrt(dx * dx + dy * dy)
                leafy = hash01(c, r, seed)
                clump = smooth_noise(c * mpp / 1.1, r * mpp / 1.1, seed) - 0.5
                if d > 0.86 + 0.28 * clump or leafy < thin * 0.8:
                    continue
                lift = np.sqrt(max(0.0, 1.0 - d * d))
                light = 0.72 + 0.34 * (dx * sun_x + dy * sun_y) + 0.3 * lift + 0.34 * clump + 0.12 * (leafy - 0.5)
                if shape == CONE:
                    light = 0.68 + 0.45 * (dx * sun_x + dy * sun_y) + 0.3 * (1.0 - d) + 0.2 * clump
                if reach[r, c] > z + half * lift + 0.5:
                    light *= 0.55
                for k in range(3):
                    canvas[r, c, k] = min(max(trees[i, TREE.leaf_red + k] * light, 0.0), 255.0)


@compiled
def _paint_cars(cars: Float32, mpp: float, reach: Float32, canvas: UInt8) -> None:
    """Paint bodies and cabins; dark panes, darker in the shadow."""
    rows, columns = reach.shape
    for i in range(cars.shape[0]):
        x, y, a, b = cars[i, BOX.x], cars[i, BOX.y], cars[i, BOX.half_length], cars[i, BOX.half_width]
        axis_x, axis_y = cars[i, BOX.axis_x], cars[i, BOX.axis_y]
        span = a + b
        for r in range(max(0, int((y - span) / mpp)), min(rows, int((y + span) / mpp) + 1)):
            for c in range(max(0, int((x - span) / mpp)), min(columns, int((x + span) / mpp) + 1)):
                px, py = (c + 0.5) * mpp - x, (r + 0.5) * mpp - y
                u, v = px * axis_x + py * axis_y, abs(py * axis_x - px * axis_y)
                if abs(u) < a and v < b:
                    light = 0.35 if 0.5 < abs(u + 0.2) < 1.15 and v < 0.75 * b else 1.0
                    light *= 0.6 if reach[r, c] > 1.5 else 1.0
                    for k in range(3):
                        canvas[r, c, k] = min(cars[i, BOX.wall_red + k] * light, 255.0)


@dataclass(frozen=True, slots=True)
class Sun:
    """The unit vector (x east, y south) on the map toward the sun, and the tangent of its height."""

    x: float
    y: float
    slope: float


def sun_at(azimuth_deg: float, height_deg: float) -> Sun:
    """The sun at an azimuth, clockwise from north, and a height above the horizon."""
    azimuth = np.radians(azimuth_deg)
    return Sun(float(np.sin(azimuth)), float(-np.cos(azimuth)), float(np.tan(np.radians(height_deg))))


def paint_aerial(
    layers: Layers,
    boxes: Float32,
    trees: Float32,
    cars: Float32,
    palette: Float32,
    sun: Sun,
    bare: float,
    seed: int,
) -> Image:
    """The aerial picture of a whole town, (H, W, 3), with the pixels of the layers.

    ``bare`` is how leafless broad-leaved trees are, 0 to 1.
    """
    reach = np.zeros(layers.height.shape, np.float32)
    cast_shadow(layers.height, layers.metres_per_pixel, sun.x, sun.y, sun.slope, reach)
    canvas = np.empty((*layers.surface.shape, 3), np.uint8)
    _paint_ground(layers, boxes, palette, reach, sun.x, sun.y, seed, canvas)
    _paint_cars(cars, layers.metres_per_pixel, reach, canvas)
    order = np.argsort(trees[:, TREE.middle] + trees[:, TREE.half_height], kind="stable")
    _paint_trees(trees[order], layers.metres_per_pixel, reach, sun.x, sun.y, bare, canvas)
    return canvas


@compiled
def tint(canvas: UInt8, gain: Float32) -> None:
    """Multiply the channels of a picture in place by ``gain`` (3,), as another camera would."""
    for r in range(canvas.shape[0]):
        for c in range(canvas.shape[1]):
            for k in range(3):
                canvas[r, c, k] = min(canvas[r, c, k] * gain[k], 255.0)
