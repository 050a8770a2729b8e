"""The town from the street: one ray per image column, against exact footprints.

Every box and tree is upright, so a column of the image is a vertical slice of the town. A column's ray walks the
grid of boxes and trees, collects what it meets, and fills the column's rows from near to far; what stays empty
below the horizon is ground, above it sky. Exact footprints instead of a height map keep walls and corners sharp at
any distance and cost less than marching.

The camera is a pinhole that looks level; a small pitch only moves the horizon row, as a shifted lens does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from x2localizer.town.compiled import compiled, inlined
from x2localizer.town.districts import CONE, POLE, POPLAR
from x2localizer.town.facade import wall_colour
from x2localizer.town.ground import ground_colour
from x2localizer.town.layers import Float32, Layers, UInt8
from x2localizer.town.noise import hash01, smooth_noise
from x2localizer.town.scene import CELL_M, Camera, Int32, Look, Scene
from x2localizer.types import Image

VIEW_M = 420.0
"""Nothing further away is drawn."""
MAX_HITS = 160
SKY, GROUND, TREE, BOX = 0, 1, 2, 3
"""Codes of what a pixel shows; boxes are BOX + their index in the scene."""


class _Hits(NamedTuple):
    """What one ray meets: depth, box (index) or tree (-1 - index), depth at which it leaves, side."""

    depth: Float32
    what: Int32
    exit: Float32
    side: Int32


@inlined
def _meet_box(boxes: Float32, item: int, ox: float, oy: float, dx: float, dy: float) -> tuple[float, float, int]:
    """Depths where a ray enters and leaves a footprint and the side it enters by: 0/1 long, 2/3 ends; -1 for none."""
    px, py = ox - boxes[item, 0], oy - boxes[item, 1]
    u, v = px * boxes[item, 2] + py * boxes[item, 3], py * boxes[item, 2] - px * boxes[item, 3]
    du, dv = dx * boxes[item, 2] + dy * boxes[item, 3], dy * boxes[item, 2] - dx * boxes[item, 3]
    if abs(du) < 1e-9:
        du = 1e-9
    if abs(dv) < 1e-9:
        dv = 1e-9
    ua, ub = (-boxes[item, 4] - u) / du, (boxes[item, 4] - u) / du
    va, vb = (-boxes[item, 5] - v) / dv, (boxes[item, 5] - v) / dv
    near_u, far_u = min(ua, ub), max(ua, ub)
    near_v, far_v = min(va, vb), max(va, vb)
    enter, leave = max(near_u, near_v), min(far_u, far_v)
    if enter >= leave or enter < 0.25:
        return 0.0, 0.0, -1
    if near_v > near_u:
        return enter, leave, 0 if dv > 0 else 1
    return enter, leave, 2 if du > 0 else 3


@inlined
def _insert(hits: _Hits, count: int, depth: float, what: int, leave: float, side: int) -> int:
    """Keep hits sorted by depth."""
    if count >= MAX_HITS:
        return count
    i = count
    while i > 0 and hits.depth[i - 1] > depth:
        hits.depth[i], hits.what[i] = hits.depth[i - 1], hits.what[i - 1]
        hits.exit[i], hits.side[i] = hits.exit[i - 1], hits.side[i - 1]
        i -= 1
    hits.depth[i], hits.what[i], hits.exit[i], hits.side[i] = depth, what, leave, side
    return count + 1


@compiled
def _collect(scene: Scene, ox: float, oy: float, dx: float, dy: float, ray: int, hits: _Hits) -> int:
    """Walk the grid along a ray and collect everything it meets, nearest first."""
    count = 0
    for i in range(scene.movers, scene.boxes.shape[0]):
        enter, leave, side = _meet_box(scene.boxes, i, ox, oy, dx, dy)
        if side >= 0:
            count = _insert(hits, count, enter, i, leave, side)
    fx, fy = (ox - scene.x0) / CELL_M, (oy - scene.y0) / CELL_M
    c, r = int(np.floor(fx)), int(np.floor(fy))
    step_c, step_r = (1 if dx > 0 else -1), (1 if dy > 0 else -1)
    inv_x, inv_y = CELL_M / max(abs(dx), 1e-9), CELL_M / max(abs(dy), 1e-9)
    next_x = (c + 1 - fx if dx > 0 else fx - c) * inv_x
    next_y = (r + 1 - fy if dy > 0 else fy - r) * inv_y
    norm2 = dx * dx + dy * dy
    norm = np.sqrt(norm2)
    t = 0.0
    while t < VIEW_M:
        if 0 <= r < scene.rows and 0 <= c < scene.columns:
            cell = r * scene.columns + c
            for k in range(scene.start[cell], scene.start[cell + 1]):
                item = scene.items[k]
                if item >= 0:
                    if scene.seen[item] != ray:
                        scene.seen[item] = ray
                        enter, leave, side = _meet_box(scene.boxes, item, ox, oy, dx, dy)
                        if side >= 0:
                            count = _insert(hits, count, enter, item, leave, side)
                else:
                    tree = -1 - item
                    mark = scene.boxes.shape[0] + tree
                    if scene.seen[mark] != ray:
                        scene.seen[mark] = ray
                        px, py = scene.trees[tree, 0] - ox, scene.trees[tree, 1] - oy
                        depth = (px * dx + py * dy) / norm2
                        off = (px * dy - py * dx) / norm
                        if depth > 0.6 and abs(off) < scene.trees[tree, 2]:
                            count = _insert(hits, count, depth, item, off, 0)
        if next_x < next_y:
            t, c = next_x, c + step_c
            next_x += inv_x
        else:
            t, r = next_y, r + step_r
            next_y += inv_y
    return count


@inlined
def _shade(look: Look, x: float, y: float, z: float) -> tuple[float, float]:
    """(sunlight 0 to 1, lamp light 0 to 1) that reaches a point."""
    c, r = int((x - look.patch_x) / look.patch_m), int((y - look.patch_y) / look.patch_m)
    if r < 0 or c < 0 or r >= look.shadow.shape[0] or c >= look.shadow.shape[1]:
        return 1.0, 0.0
    lit = 1.0 - min(max((look.shadow[r, c] - z - 0.2) / 1.5, 0.0), 1.0)
    return lit, look.lamps[r, c]


@inlined
def _sky(look: Look, dx: float, dy: float, norm: float, rise: float, out: Float32) -> None:
    """Colour of the sky toward (dx, dy) at ``rise`` = tangent of the height."""
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
def _put(
    canvas: Float32, row: int, column: int, look: Look, r: float, g: float, b: float, sun: float, lamp: float,
    glow: float, depth: float,
) -> None:  # fmt: skip
    """Light a colour, add lamps and haze, and write it."""
    clear = np.exp(-depth * look.haze_per_m)
    colour = (r, g, b)
    for k in range(3):
        light = look.ambient[k] + sun * look.sun[k] + lamp * look.lamp[k]
        value = colour[k] * (light + glow * max(0.0, 1.0 - light))
        canvas[row, column, k] = look.haze[k] + clear * (value - look.haze[k])


@compiled
def _wall(
    canvas: Float32, ids: Int32, filled: UInt8, column: int, cam: Camera, look: Look, boxes: Float32, item: int,
    depth: float, leave: float, side: int, dx: float, dy: float,
) -> None:  # fmt: skip
    """Fill a column's rows with the wall a ray enters and the roof that rises behind it."""
    x, y = cam.x + depth * dx, cam.y + depth * dy
    px, py = x - boxes[item, 0], y - boxes[item, 1]
    u, v = px * boxes[item, 2] + py * boxes[item, 3], py * boxes[item, 2] - px * boxes[item, 3]
    facing = 1.0 if side in (0, 2) else -1.0
    if side < 2:
        s, width, nx, ny = u + boxes[item, 4], 2 * boxes[item, 4], facing * boxes[item, 3], -facing * boxes[item, 2]
    else:
        s, width, nx, ny = v + boxes[item, 5], 2 * boxes[item, 5], -facing * boxes[item, 2], -facing * boxes[item, 3]
    end = 0 if side < 2 else (-1 if side == 2 else 1)
    slope = boxes[item, 8] - boxes[item, 7]
    top = boxes[item, 7] if side < 2 else boxes[item, 8] - slope * min(abs(v) / boxes[item, 5], 1.0)
    scale = cam.focal / depth
    foot = 1.0 / scale
    facing_sun = max(0.0, nx * look.sun_x + ny * look.sun_y) * look.sun_flat
    first = max(0, int(np.ceil(cam.horizon - (top - cam.z) * scale - 0.5)))
    last = min(canvas.shape[0] - 1, int(np.floor(cam.horizon - (boxes[item, 6] - cam.z) * scale - 0.5)))
    _, lamp = _shade(look, x + 0.6 * nx, y + 0.6 * ny, 1.0)
    for row in range(first, last + 1):
        if filled[row]:
            continue
        z = cam.z - (row + 0.5 - cam.horizon) / scale
        sun, _ = _shade(look, x + 0.6 * nx, y + 0.6 * ny, z)
        if side >= 2 and z > boxes[item, 7] and boxes[item, 9] == 0:
            r, g, b, glow = boxes[item, 10] * 0.96, boxes[item, 11] * 0.96, boxes[item, 12] * 0.96, 0.0
        else:
            r, g, b, glow = wall_colour(boxes, item, end, s, z, width, foot, look.night)
        low = 0.82 + 0.18 * min(z / 3.0, 1.0)  # the street darkens the foot of a wall
        _put(canvas, row, column, look, r * low, g * low, b * low, sun * facing_sun, lamp * 0.7 / (1 + z * 0.2),
             glow, depth)  # fmt: skip
        filled[row] = 1
        ids[row, column] = BOX + item
    if slope > 0.05 and boxes[item, 9] == 0:
        _roof_rise(canvas, ids, filled, column, cam, look, boxes, item, depth, leave, top, u, v, dx, dy)


@compiled
def _roof_rise(
    canvas: Float32, ids: Int32, filled: UInt8, column: int, cam: Camera, look: Look, boxes: Float32, item: int,
    depth: float, leave: float, top: float, u: float, v: float, dx: float, dy: float,
) -> None:  # fmt: skip
    """The slope of a pitched roof between the wall's top and the ridge, where it faces the camera."""
    slope = (boxes[item, 8] - boxes[item, 7]) / boxes[item, 5]
    dv = dy * boxes[item, 2] - dx * boxes[item, 3]
    if v * dv >= 0:  # the roof falls away from the camera
        return
    crest = min(depth - v / dv, leave)
    rise = slope * abs(dv)
    side = 1.0 if v > 0 else -1.0
    lit = max(0.0, side * (look.sun_y * boxes[item, 2] - look.sun_x * boxes[item, 3]) * slope * 0.6 + look.sun_z)
    high = top + rise * (crest - depth)
    first = max(0, int(np.ceil(cam.horizon - (high - cam.z) * cam.focal / crest - 0.5)))
    last = min(canvas.shape[0] - 1, int(np.floor(cam.horizon - (top - cam.z) * cam.focal / depth - 0.5)))
    for row in range(first, last + 1):
        if filled[row]:
            continue
        sight = (cam.horizon - row - 0.5) / cam.focal
        at = min(max((top - rise * depth - cam.z) / min(sight - rise, -1e-6), depth), crest)
        x, y = cam.x + at * dx, cam.y + at * dy
        along = (x - boxes[item, 0]) * boxes[item, 2] + (y - boxes[item, 1]) * boxes[item, 3]
        course = 0.9 + 0.2 * smooth_noise(along / 2.5, at / 0.8, int(boxes[item, 19]))
        sun, _ = _shade(look, x, y, top + 1.0)
        _put(
            canvas,
            row,
            column,
            look,
            boxes[item, 13] * course,
            boxes[item, 14] * course,
            boxes[item, 15] * course,
            sun * lit,
            0.0,
            0.0,
            at,
        )
        filled[row] = 1
        ids[row, column] = BOX + item


@compiled
def _tree(
    canvas: Float32, ids: Int32, filled: UInt8, column: int, cam: Camera, look: Look, trees: Float32, item: int,
    depth: float, off: float, dx: float, dy: float,
) -> None:  # fmt: skip
    """Crown and trunk of a tree, or a lamp post, as the slice that one column sees."""
    x, y, crown, mid, half, trunk = (
        trees[item, 0],
        trees[item, 1],
        trees[item, 2],
        trees[item, 3],
        trees[item, 4],
        trees[item, 5],
    )
    shape, seed = int(trees[item, 6]), int(trees[item, 10])
    scale = cam.focal / depth
    across = off / crown
    sun_side = look.sun_x * -dy + look.sun_y * dx  # light from the left or the right of the view
    behind = -(look.sun_x * dx + look.sun_y * dy)
    sun0, lamp = _shade(look, x - 0.9 * crown * dx, y - 0.9 * crown * dy, mid)
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
                _put(canvas, row, column, look, 235.0, 230.0, 214.0, 0.3, 0.0, look.night, depth)
                filled[row] = 1
                ids[row, column] = TREE
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
        _put(canvas, row, column, look, trees[item, 7] * tone, trees[item, 8] * tone, trees[item, 9] * tone,
             sun0 * max(0.0, facing), lamp * 0.6, 0.0, depth)  # fmt: skip
        filled[row] = 1
        ids[row, column] = TREE
    if abs(off) < max(trunk, 0.35 / scale):
        top = mid if shape != POLE else mid + 0.1
        first = max(0, int(np.ceil(cam.horizon - (top - cam.z) * scale - 0.5)))
        last = min(canvas.shape[0] - 1, int(np.floor(cam.horizon + cam.z * scale - 0.5)))
        tone = 0.8 - 0.3 * off / trunk * sun_side
        for row in range(first, last + 1):
            if not filled[row]:
                grey = 1.0 if shape != POLE else 1.3
                _put(canvas, row, column, look, 88.0 * tone * grey, 76.0 * tone * grey, 64.0 * tone * grey,
                     sun0 * 0.5, lamp, 0.0, depth)  # fmt: skip
                filled[row] = 1
                ids[row, column] = TREE


@compiled
def _floor_and_sky(
    canvas: Float32, ids: Int32, filled: UInt8, column: int, cam: Camera, look: Look, layers: Layers,
    flats: Float32, palette: Float32, dx: float, dy: float, across: float, sky: Float32,
) -> None:  # fmt: skip
    """What no box and no tree covers."""
    norm = np.sqrt(dx * dx + dy * dy)
    for row in range(canvas.shape[0]):
        if filled[row]:
            continue
        drop = (row + 0.5 - cam.horizon) / cam.focal
        depth = cam.z / drop if drop > 1e-6 else 1e9
        if depth > VIEW_M:
            _sky(look, dx, dy, norm, max(-drop, 0.0), sky)
            for k in range(3):
                canvas[row, column, k] = sky[k]
            ids[row, column] = SKY
            continue
        x, y = cam.x + depth * dx, cam.y + depth * dy
        foot = depth / cam.focal
        r, g, b = ground_colour(layers, flats, palette, x, y, foot, foot * depth / cam.z, look.ground_seed)
        sun, lamp = _shade(look, x, y, 0.0)
        beam = look.night * max(0.0, 1.0 - (across * across) * 3.5) / (1.0 + (depth / 14.0) ** 2)
        if look.wet > 0.0:
            shine = look.wet * min(1.0, depth / 30.0) * 0.45
            r, g, b = r * (1 - 0.25 * look.wet), g * (1 - 0.25 * look.wet), b * (1 - 0.22 * look.wet)
            r, g, b = r + shine * (look.sky_low[0] - r), g + shine * (look.sky_low[1] - g), b + shine * (
                look.sky_low[2] - b)  # fmt: skip
        _put(canvas, row, column, look, r, g, b, sun * look.sun_z, lamp + beam, 0.0, depth)
        ids[row, column] = GROUND


@compiled
def cast_columns(
    canvas: Float32, ids: Int32, cam: Camera, scene: Scene, look: Look, layers: Layers, flats: Float32,
    palette: Float32, hits: _Hits, filled: UInt8, sky: Float32,
) -> None:  # fmt: skip
    """Fill ``canvas`` (H, W, 3) with the light and ``ids`` (H, W) with the codes of what each pixel shows."""
    rows, columns = ids.shape
    for i in range(scene.seen.shape[0]):
        scene.seen[i] = -1
    forward_x, forward_y = np.sin(cam.heading), -np.cos(cam.heading)
    for column in range(columns):
        across = (column + 0.5 - 0.5 * columns) / cam.focal
        dx, dy = forward_x - forward_y * across, forward_y + forward_x * across
        for i in range(rows):
            filled[i] = 0
        count = _collect(scene, cam.x, cam.y, dx, dy, column, hits)
        for i in range(count):
            depth = hits.depth[i]
            if depth > VIEW_M:
                break
            if hits.what[i] >= 0:
                item = hits.what[i]
                _wall(canvas, ids, filled, column, cam, look, scene.boxes, item, depth, hits.exit[i],
                      hits.side[i], dx, dy)  # fmt: skip
            else:
                _tree(canvas, ids, filled, column, cam, look, scene.trees, -1 - hits.what[i], depth, hits.exit[i],
                      dx, dy)  # fmt: skip
        _floor_and_sky(canvas, ids, filled, column, cam, look, layers, flats, palette, dx, dy, across, sky)


@compiled
def develop(canvas: Float32, factor: int, gain: Float32, vignette: float, noise: float, seed: int, out: UInt8) -> None:
    """Average ``factor`` x ``factor`` samples to a pixel; exposure, vignette, sensor noise."""
    rows, columns = out.shape[0], out.shape[1]
    for r in range(rows):
        for c in range(columns):
            fall = 1.0 - vignette * (((r + 0.5) / rows - 0.5) ** 2 + ((c + 0.5) / columns - 0.5) ** 2)
            common = hash01(c, r, seed) + hash01(c, r, seed + 1) + hash01(c, r, seed + 2) - 1.5
            for k in range(3):
                value = 0.0
                for i in range(factor):
                    for j in range(factor):
                        value += min(canvas[r * factor + i, c * factor + j, k], 300.0)
                value = value / (factor * factor) * gain[k] * fall
                own = hash01(c, r, seed + 3 + k) + hash01(r, c, seed + 6 + k) - 1.0
                value += noise * (1.4 * common + 1.1 * own)
                if value > 200.0:  # highlights roll off instead of clipping hard
                    value = 200.0 + 55.0 * (1.0 - np.exp(-(value - 200.0) / 55.0))
                out[r, c, k] = min(max(value, 0.0), 255.0)


def look_around(
    cam: Camera, scene: Scene, look: Look, layers: Layers, flats: Float32, palette: Float32
) -> tuple[Float32, Int32]:
    """The light (H, W, 3) that reaches a camera, and the codes (H, W) of what each pixel shows."""
    canvas = np.empty((cam.height, cam.width, 3), np.float32)
    ids = np.empty((cam.height, cam.width), np.int32)
    hits = _Hits(
        np.zeros(MAX_HITS, np.float32), np.zeros(MAX_HITS, np.int32),
        np.zeros(MAX_HITS, np.float32), np.zeros(MAX_HITS, np.int32),
    )  # fmt: skip
    filled, sky = np.zeros(cam.height, np.uint8), np.zeros(3, np.float32)
    cast_columns(canvas, ids, cam, scene, look, layers, flats, palette, hits, filled, sky)
    return canvas, ids


def render(
    cam: Camera, scene: Scene, look: Look, layers: Layers, flats: Float32, palette: Float32, factor: int = 2,
    frame_seed: int = 0,
) -> Image:  # fmt: skip
    """The frame a camera takes, (height, width, 3): ``factor`` x ``factor`` rays per pixel, then the sensor."""
    big = cam._replace(
        focal=cam.focal * factor, horizon=cam.horizon * factor, height=cam.height * factor, width=cam.width * factor
    )
    canvas, _ = look_around(big, scene, look, layers, flats, palette)
    out = np.empty((cam.height, cam.width, 3), np.uint8)
    develop(canvas, factor, look.gain, look.vignette, look.noise, frame_seed, out)
    return out
