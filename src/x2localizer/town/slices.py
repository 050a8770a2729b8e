"""What a column of the street view shows: sky, walls, roofs and trees, in their light and haze."""

from __future__ import annotations

import numpy as np

from x2localizer.compiled import compiled, inlined
from x2localizer.town.boxes import BUILDING, in_box, turned_to_box
from x2localizer.town.columns import BOX, TREE
from x2localizer.town.districts import CONE, POLE, POPLAR
from x2localizer.town.facade import wall_colour
from x2localizer.town.layers import Float32, UInt8
from x2localizer.town.noise import smooth_noise
from x2localizer.town.rays import BACK_END, LEFT_SIDE, RIGHT_SIDE
from x2localizer.town.scene import Camera, Int32, Look

SKY_ID, GROUND_ID, TREE_ID, FIRST_BOX_ID = range(4)
"""What a pixel shows; a box is FIRST_BOX_ID plus its index in the scene."""


@inlined
def light_at(look: Look, x: float, y: float, z: float) -> tuple[float, float]:
    """Sunlight (0 to 1) and lamp light (0 to about 1) that reach a point at height ``z``."""
    c, r = int((x - look.patch_x) / look.patch_m), int((y - look.patch_y) / look.patch_m)
    if r < 0 or c < 0 or r >= look.shadow.shape[0] or c >= look.shadow.shape[1]:
        return 1.0, 0.0
    lit = 1.0 - min(max((look.shadow[r, c] - z - 0.2) / 1.5, 0.0), 1.0)
    return lit, look.lamps[r, c]


@inlined
def sky_colour(look: Look, dx: float, dy: float, norm: float, rise: float, out: Float32) -> None:
    """Write to ``out`` (3,) the colour of the sky toward (dx, dy); ``rise`` is the tangent of the height."""
    up = min(max(rise * 1.7, 0.0), 1.0)
    up = np.sqrt(up)
    x, y = dx / norm, dy / norm
    length = np.sqrt(1.0 + rise * rise)
    toward = max(0.0, (x * look.sun_x + y * look.sun_y + rise * look.sun_z) / length)
    glow = toward**24 * 0.5 * look.sun_glow + (0.9 * look.sun_glow if toward > 0.9992 else 0.0)
    cloud = 0.0
    if look.cloud > 0.01 and rise > 0.0:
        px, py = x / (rise + 0.12) * 1.6, y / (rise + 0.12) * 1.6
        noise = 0.6 * smooth_noise(px, py, look.seed) + 0.28 * smooth_noise(px * 2.3, py * 2.3, look.seed + 1)
        noise += 0.12 * smooth_noise(px * 5.1, py * 5.1, look.seed + 2)
        cloud = min(max((noise - 1.0 + look.cloud) * 4.0, 0.0), 1.0) * min(1.0, rise * 9.0)
    for k in range(3):
        value = look.sky_low[k] + up * (look.sky_top[k] - look.sky_low[k])
        value += cloud * (look.cloud_rgb[k] - value)
        out[k] = value + glow * (255.0 - value)


@inlined
def put(
    canvas: Float32, row: int, column: int, look: Look, r: float, g: float, b: float, sun: float, lamp: float,
    glow: float, depth: float,
) -> None:  # fmt: skip
    """Write a colour to the canvas, lit by sun, lamps and its own glow, and faded by haze."""
    clear = np.exp(-depth * look.haze_per_m)
    colour = (r, g, b)
    for k in range(3):
        light = look.ambient[k] + sun * look.sun[k] + lamp * look.lamp[k]
        value = colour[k] * (light + glow * max(0.0, 1.0 - light))
        canvas[row, column, k] = look.haze[k] + clear * (value - look.haze[k])


@compiled
def fill_wall(
    canvas: Float32, ids: Int32, filled: UInt8, column: int, cam: Camera, look: Look, boxes: Float32, item: int,
    depth: float, leave: float, side: int, dx: float, dy: float,
) -> None:  # fmt: skip
    """Fill free rows of a column with the wall that a ray enters and the roof that rises behind it."""
    x, y = cam.x + depth * dx, cam.y + depth * dy
    u, v = in_box(boxes, item, x, y)
    a, b = boxes[item, BOX.half_length], boxes[item, BOX.half_width]
    axis_x, axis_y = boxes[item, BOX.axis_x], boxes[item, BOX.axis_y]
    facing = 1.0 if side in (LEFT_SIDE, BACK_END) else -1.0
    long_side = side in (LEFT_SIDE, RIGHT_SIDE)
    if long_side:
        s, width, nx, ny = u + a, 2 * a, facing * axis_y, -facing * axis_x
    else:
        s, width, nx, ny = v + b, 2 * b, -facing * axis_x, -facing * axis_y
    end = 0 if long_side else (-1 if side == BACK_END else 1)
    eaves, ridge = boxes[item, BOX.eaves], boxes[item, BOX.ridge]
    slope = ridge - eaves
    top = eaves if long_side else ridge - slope * min(abs(v) / b, 1.0)
    scale = cam.focal / depth
    foot = 1.0 / scale
    facing_sun = max(0.0, nx * look.sun_x + ny * look.sun_y) * look.sun_flat
    first = max(0, int(np.ceil(cam.horizon - (top - cam.z) * scale - 0.5)))
    last = min(canvas.shape[0] - 1, int(np.floor(cam.horizon - (boxes[item, BOX.bottom] - cam.z) * scale - 0.5)))
    _, lamp = light_at(look, x + 0.6 * nx, y + 0.6 * ny, 1.0)
    for row in range(first, last + 1):
        if filled[row]:
            continue
        z = cam.z - (row + 0.5 - cam.horizon) / scale
        sun, _ = light_at(look, x + 0.6 * nx, y + 0.6 * ny, z)
        if not long_side and z > eaves and boxes[item, BOX.kind] == BUILDING:
            red, green, blue, glow = (
                boxes[item, BOX.wall_red] * 0.96, boxes[item, BOX.wall_green] * 0.96,
                boxes[item, BOX.wall_blue] * 0.96, 0.0,
            )  # fmt: skip
        else:
            red, green, blue, glow = wall_colour(boxes, item, end, s, z, width, foot, look.night)
        low = 0.82 + 0.18 * min(z / 3.0, 1.0)  # the street darkens the foot of a wall
        put(
            canvas, row, column, look, red * low, green * low, blue * low, sun * facing_sun,
            lamp * 0.7 / (1 + z * 0.2), glow, depth,
        )  # fmt: skip
        filled[row] = 1
        ids[row, column] = FIRST_BOX_ID + item
    if slope > 0.05 and boxes[item, BOX.kind] == BUILDING:
        _roof_rise(canvas, ids, filled, column, cam, look, boxes, item, depth, leave, top, u, v, dx, dy)


@compiled
def _roof_rise(
    canvas: Float32, ids: Int32, filled: UInt8, column: int, cam: Camera, look: Look, boxes: Float32, item: int,
    depth: float, leave: float, top: float, u: float, v: float, dx: float, dy: float,
) -> None:  # fmt: skip
    """Fill free rows with the slope of a pitched roof between the wall's top and the ridge, if it faces the camera."""
    slope = (boxes[item, BOX.ridge] - boxes[item, BOX.eaves]) / boxes[item, BOX.half_width]
    _, dv = turned_to_box(boxes, item, dx, dy)
    if v * dv >= 0:  # the roof falls away from the camera
        return
    crest = min(depth - v / dv, leave)
    rise = slope * abs(dv)
    side = 1.0 if v > 0 else -1.0
    _, sun_across = turned_to_box(boxes, item, look.sun_x, look.sun_y)
    lit = max(0.0, side * sun_across * slope * 0.6 + look.sun_z)
    high = top + rise * (crest - depth)
    first = max(0, int(np.ceil(cam.horizon - (high - cam.z) * cam.focal / crest - 0.5)))
    last = min(canvas.shape[0] - 1, int(np.floor(cam.horizon - (top - cam.z) * cam.focal / depth - 0.5)))
    for row in range(first, last + 1):
        if filled[row]:
            continue
        sight = (cam.horizon - row - 0.5) / cam.focal
        at = min(max((top - rise * depth - cam.z) / min(sight - rise, -1e-6), depth), crest)
        x, y = cam.x + at * dx, cam.y + at * dy
        along, _ = in_box(boxes, item, x, y)
        course = 0.9 + 0.2 * smooth_noise(along / 2.5, at / 0.8, int(boxes[item, BOX.seed]))
        sun, _ = light_at(look, x, y, top + 1.0)
        put(
            canvas, row, column, look, boxes[item, BOX.roof_red] * course, boxes[item, BOX.roof_green] * course,
            boxes[item, BOX.roof_blue] * course, sun * lit, 0.0, 0.0, at,
        )  # fmt: skip
        filled[row] = 1
        ids[row, column] = FIRST_BOX_ID + item


@compiled
def fill_tree(
    canvas: Float32, ids: Int32, filled: UInt8, column: int, cam: Camera, look: Look, trees: Float32, item: int,
    depth: float, off: float, dx: float, dy: float,
) -> None:  # fmt: skip
    """Fill free rows with the slice of a tree or a lamp post that a column shows.

    ``off`` is the distance in metres by which the column's ray misses the tree's middle.
    """
    x, y, crown, trunk = trees[item, TREE.x], trees[item, TREE.y], trees[item, TREE.crown], trees[item, TREE.trunk]
    mid, half = trees[item, TREE.middle], trees[item, TREE.half_height]
    shape, seed = int(trees[item, TREE.shape]), int(trees[item, TREE.seed])
    scale = cam.focal / depth
    across = off / crown
    sun_side = look.sun_x * -dy + look.sun_y * dx  # light from the left or the right of the view
    behind = -(look.sun_x * dx + look.sun_y * dy)
    sun0, lamp = light_at(look, x - 0.9 * crown * dx, y - 0.9 * crown * dy, mid)
    bare = look.bare if shape not in (CONE, POLE) else 0.0
    low = mid - half
    first = max(0, int(np.ceil(cam.horizon - (mid + half - cam.z) * scale - 0.5)))
    last = min(canvas.shape[0] - 1, int(np.floor(cam.horizon - (low - cam.z) * scale - 0.5)))
    size = max(0.2, 1.2 / scale)
    for row in range(first, last + 1):
        if filled[row]:
            continue
        z = cam.z - (row + 0.5 - cam.horizon) / scale
        q = (z - mid) / half
        if shape == POLE:
            if abs(off) < 0.25:
                put(canvas, row, column, look, 235.0, 230.0, 214.0, 0.3, 0.0, look.night, depth)
                filled[row] = 1
                ids[row, column] = TREE_ID
            continue
        wide = 0.5 * (1.0 - q) if shape == CONE else np.sqrt(max(0.0, 1.0 - q * q))
        rim = abs(across) / max(wide, 0.05)
        clump = smooth_noise(off / 1.2, z / 1.2, seed) - 0.5
        leaf = smooth_noise(off / size, z / size, seed + 7)
        if rim > 0.9 + 0.5 * clump + 0.3 * (leaf - 0.5):
            continue
        if bare > 0.5:  # branches fan out from the top of the trunk
            away = np.sqrt(off * off + (z - low) * (z - low))
            fan = np.arctan2(off, z - low + 0.5) * 5.0
            twig = abs(smooth_noise(fan + 0.5 * clump, away * 0.35, seed + 1) - 0.5)
            fine = abs(smooth_noise(fan * 2.6 + clump, away * 0.8, seed + 2) - 0.5)
            if twig > 0.03 + 0.25 / scale and fine > 0.025 + 0.2 / scale:
                continue
        elif leaf < 0.16 + 0.9 * bare:
            continue
        bulge = np.sqrt(max(0.0, 1.0 - min(rim, 1.0) ** 2))
        facing = 0.45 + 0.4 * across * sun_side * -1.0 + 0.3 * behind * bulge + 0.25 * q * look.sun_z
        tone = 0.74 + 0.5 * clump + 0.24 * (leaf - 0.5) + 0.2 * q
        if shape == POPLAR:
            tone -= 0.06
        put(
            canvas, row, column, look, trees[item, TREE.leaf_red] * tone, trees[item, TREE.leaf_green] * tone,
            trees[item, TREE.leaf_blue] * tone, sun0 * max(0.0, facing), lamp * 0.6, 0.0, depth,
        )  # fmt: skip
        filled[row] = 1
        ids[row, column] = TREE_ID
    if abs(off) < max(trunk, 0.35 / scale):
        top = mid if shape != POLE else mid + 0.1
        first = max(0, int(np.ceil(cam.horizon - (top - cam.z) * scale - 0.5)))
        last = min(canvas.shape[0] - 1, int(np.floor(cam.horizon + cam.z * scale - 0.5)))
        tone = 0.8 - 0.3 * off / trunk * sun_side
        for row in range(first, last + 1):
            if not filled[row]:
                grey = 1.0 if shape != POLE else 1.3
                put(
                    canvas, row, column, look, 88.0 * tone * grey, 76.0 * tone * grey, 64.0 * tone * grey,
                    sun0 * 0.5, lamp, 0.0, depth,
                )  # fmt: skip
                filled[row] = 1
                ids[row, column] = TREE_ID
