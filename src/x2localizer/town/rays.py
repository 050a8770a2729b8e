"""The boxes and trees that a ray meets, nearest first: a walk over a grid, tested against exact footprints."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from x2localizer.compiled import compiled, inlined
from x2localizer.town.boxes import in_box, turned_to_box
from x2localizer.town.columns import BOX, TREE
from x2localizer.town.layers import Float32
from x2localizer.town.scene import CELL_M, Int32, Scene

VIEW_M = 420.0
"""Nothing further away is drawn."""
MAX_HITS = 160
"""Hits of a ray beyond these are dropped."""


LEFT_SIDE, RIGHT_SIDE, BACK_END, FRONT_END = range(4)
"""Sides of a box, looking along its axis."""
NO_SIDE = -1


class Hits(NamedTuple):
    """What a ray meets, sorted by depth; (MAX_HITS,) each. Depths are metres along the camera's heading."""

    depth: Float32
    item: Int32  # index of a box, or -1 - index of a tree
    leave_or_offset: Float32  # depth at which the ray leaves a box; metres by which it misses a tree's middle
    side: Int32  # of the box, by which the ray enters


@inlined
def _meet_box(boxes: Float32, item: int, ox: float, oy: float, dx: float, dy: float) -> tuple[float, float, int]:
    """Depths at which a ray from (ox, oy) enters and leaves a footprint, and the side by which it enters."""
    u, v = in_box(boxes, item, ox, oy)
    du, dv = turned_to_box(boxes, item, dx, dy)
    if abs(du) < 1e-9:
        du = 1e-9
    if abs(dv) < 1e-9:
        dv = 1e-9
    a, b = boxes[item, BOX.half_length], boxes[item, BOX.half_width]
    ua, ub = (-a - u) / du, (a - u) / du
    va, vb = (-b - v) / dv, (b - v) / dv
    near_u, far_u = min(ua, ub), max(ua, ub)
    near_v, far_v = min(va, vb), max(va, vb)
    enter, leave = max(near_u, near_v), min(far_u, far_v)
    if enter >= leave or enter < 0.25:
        return 0.0, 0.0, NO_SIDE
    if near_v > near_u:
        return enter, leave, LEFT_SIDE if dv > 0 else RIGHT_SIDE
    return enter, leave, BACK_END if du > 0 else FRONT_END


@inlined
def _insert(hits: Hits, count: int, depth: float, item: int, leave_or_offset: float, side: int) -> int:
    """Insert a hit among ``count`` sorted ones; the new count."""
    if count >= MAX_HITS:
        return count
    i = count
    while i > 0 and hits.depth[i - 1] > depth:
        hits.depth[i], hits.item[i] = hits.depth[i - 1], hits.item[i - 1]
        hits.leave_or_offset[i], hits.side[i] = hits.leave_or_offset[i - 1], hits.side[i - 1]
        i -= 1
    hits.depth[i], hits.item[i], hits.leave_or_offset[i], hits.side[i] = depth, item, leave_or_offset, side
    return count + 1


@compiled
def collect(scene: Scene, ox: float, oy: float, dx: float, dy: float, ray: int, hits: Hits) -> int:
    """Write to ``hits`` everything that a ray from (ox, oy) along (dx, dy) meets; how many hits there are.

    ``ray`` is a number that no other ray of the frame has.
    """
    count = 0
    for i in range(scene.first_mover, scene.boxes.shape[0]):
        enter, leave, side = _meet_box(scene.boxes, i, ox, oy, dx, dy)
        if side != NO_SIDE:
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
                    if scene.last_ray[item] != ray:
                        scene.last_ray[item] = ray
                        enter, leave, side = _meet_box(scene.boxes, item, ox, oy, dx, dy)
                        if side != NO_SIDE:
                            count = _insert(hits, count, enter, item, leave, side)
                else:
                    tree = -1 - item
                    mark = scene.boxes.shape[0] + tree
                    if scene.last_ray[mark] != ray:
                        scene.last_ray[mark] = ray
                        px, py = scene.trees[tree, TREE.x] - ox, scene.trees[tree, TREE.y] - oy
                        depth = (px * dx + py * dy) / norm2
                        offset = (px * dy - py * dx) / norm
                        if depth > 0.6 and abs(offset) < scene.trees[tree, TREE.crown]:
                            count = _insert(hits, count, depth, item, offset, NO_SIDE)
        if next_x < next_y:
            t, c = next_x, c + step_c
            next_x += inv_x
        else:
            t, r = next_y, r + step_r
            next_y += inv_y
    return count


def no_hits() -> Hits:
    """Arrays for the hits of a ray."""
    floats, ints = np.zeros((2, MAX_HITS), np.float32), np.zeros((2, MAX_HITS), np.int32)
    return Hits(floats[0], ints[0], floats[1], ints[1])
