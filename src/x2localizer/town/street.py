"""The street view of a town: one ray per image column, tested against exact footprints.

Every box and tree is upright, so a column of the image is a vertical slice of the town. A column's ray walks the
grid of boxes and trees, collects what it meets, and fills the column's rows from near to far. Rows that stay empty are
ground below the horizon and sky above it. Exact footprints instead of a height map keep walls and corners sharp at any
distance, and cost less than marching.

The camera is a pinhole that looks level; a small pitch only moves the horizon row, as a shifted lens does.
"""

from __future__ import annotations

import numpy as np

from x2localizer.compiled import compiled
from x2localizer.town.columns import BLUE, GREEN, RED
from x2localizer.town.ground import ground_colour
from x2localizer.town.layers import Float32, Layers, UInt8
from x2localizer.town.noise import hash01
from x2localizer.town.rays import VIEW_M, Hits, collect, no_hits
from x2localizer.town.scene import Camera, Int32, Look, Scene
from x2localizer.town.slices import FIRST_BOX_ID, GROUND_ID, SKY_ID, fill_tree, fill_wall, light_at, put, sky_colour
from x2localizer.types import Image

__all__ = ["FIRST_BOX_ID", "GROUND_ID", "SKY_ID", "VIEW_M", "look_around", "render"]


@compiled
def _floor_and_sky(
    canvas: Float32, ids: Int32, filled: UInt8, column: int, cam: Camera, look: Look, layers: Layers,
    flats: Float32, palette: Float32, dx: float, dy: float, across: float, sky: Float32,
) -> None:  # fmt: skip
    """Fill the free rows of a column with ground and sky."""
    norm = np.sqrt(dx * dx + dy * dy)
    for row in range(canvas.shape[0]):
        if filled[row]:
            continue
        drop = (row + 0.5 - cam.horizon) / cam.focal
        depth = cam.z / drop if drop > 1e-6 else 1e9
        if depth > VIEW_M:
            sky_colour(look, dx, dy, norm, max(-drop, 0.0), sky)
            for k in range(3):
                canvas[row, column, k] = sky[k]
            ids[row, column] = SKY_ID
            continue
        x, y = cam.x + depth * dx, cam.y + depth * dy
        foot = depth / cam.focal
        r, g, b = ground_colour(layers, flats, palette, x, y, foot, foot * depth / cam.z, look.ground_seed)
        sun, lamp = light_at(look, x, y, 0.0)
        beam = look.night * max(0.0, 1.0 - (across * across) * 3.5) / (1.0 + (depth / 14.0) ** 2)
        if look.wet > 0.0:
            shine = look.wet * min(1.0, depth / 30.0) * 0.45
            r, g, b = r * (1 - 0.25 * look.wet), g * (1 - 0.25 * look.wet), b * (1 - 0.22 * look.wet)
            r, g = r + shine * (look.sky_low[RED] - r), g + shine * (look.sky_low[GREEN] - g)
            b += shine * (look.sky_low[BLUE] - b)
        put(canvas, row, column, look, r, g, b, sun * look.sun_z, lamp + beam, 0.0, depth)
        ids[row, column] = GROUND_ID


@compiled
def cast_columns(
    canvas: Float32, ids: Int32, cam: Camera, scene: Scene, look: Look, layers: Layers, flats: Float32,
    palette: Float32, hits: Hits, filled: UInt8, sky: Float32,
) -> None:  # fmt: skip
    """Write to ``canvas`` (H, W, 3) the light and to ``ids`` (H, W) what each pixel shows.

    ``flats`` is the town's whole table of boxes, for those painted on the ground; ``hits``, ``filled`` (H,) and
    ``sky`` (3,) are scratch.
    """
    rows, columns = ids.shape
    for i in range(scene.last_ray.shape[0]):
        scene.last_ray[i] = -1
    forward_x, forward_y = np.sin(cam.heading), -np.cos(cam.heading)
    for column in range(columns):
        across = (column + 0.5 - 0.5 * columns) / cam.focal
        dx, dy = forward_x - forward_y * across, forward_y + forward_x * across
        for i in range(rows):
            filled[i] = 0
        count = collect(scene, cam.x, cam.y, dx, dy, column, hits)
        for i in range(count):
            depth = hits.depth[i]
            if depth > VIEW_M:
                break
            item = hits.item[i]
            leave_or_offset = hits.leave_or_offset[i]
            if item >= 0:
                side = hits.side[i]
                fill_wall(
                    canvas, ids, filled, column, cam, look, scene.boxes, item, depth, leave_or_offset, side, dx, dy
                )
            else:
                fill_tree(
                    canvas, ids, filled, column, cam, look, scene.trees, -1 - item, depth, leave_or_offset, dx, dy
                )
        _floor_and_sky(canvas, ids, filled, column, cam, look, layers, flats, palette, dx, dy, across, sky)


@compiled
def develop(canvas: Float32, factor: int, gain: Float32, vignette: float, noise: float, seed: int, out: UInt8) -> None:
    """Write to ``out`` what the sensor records: each pixel is the mean of ``factor`` x ``factor`` samples.

    Then come exposure and white balance (``gain``), vignette and noise.
    """
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
    """The light (H, W, 3) that reaches a camera, and what each pixel shows (H, W): SKY_ID and its siblings."""
    canvas = np.empty((cam.height, cam.width, 3), np.float32)
    ids = np.empty((cam.height, cam.width), np.int32)
    hits = no_hits()
    filled, sky = np.zeros(cam.height, np.uint8), np.zeros(3, np.float32)
    cast_columns(canvas, ids, cam, scene, look, layers, flats, palette, hits, filled, sky)
    return canvas, ids


def render(
    cam: Camera, scene: Scene, look: Look, layers: Layers, flats: Float32, palette: Float32, factor: int = 2,
    frame_seed: int = 0,
) -> Image:  # fmt: skip
    """The frame (height, width, 3) that a camera takes, from ``factor`` x ``factor`` samples per pixel."""
    big = cam._replace(
        focal=cam.focal * factor, horizon=cam.horizon * factor, height=cam.height * factor, width=cam.width * factor
    )
    canvas, _ = look_around(big, scene, look, layers, flats, palette)
    out = np.empty((cam.height, cam.width, 3), np.uint8)
    develop(canvas, factor, look.gain, look.vignette, look.noise, frame_seed, out)
    return out
