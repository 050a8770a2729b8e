"""Which boxes and trees a ray meets, nearest first: a walk over the grid, against exact footprints."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from x2localizer.town.boxes import in_box, turned_to_box
from x2localizer.town.columns import BOX, TREE
from x2localizer.town.compiled import compiled, inlined
from x2localizer.town.layers import Float32
from x2localizer.town.scene import CELL_M, Int32, Scene

VIEW_M = 420.0
"""Nothing further away is drawn."""
MAX_HITS = 160


class Hits(NamedTuple):
    """What one ray meets: depth, box (index) or tree (-1 - index), depth at which it leaves, side."""

    depth: Float32
    what: Int32
    exit: Float32
    side: Int32


@inlined
def _meet_box(boxes: Float32, item: int, ox: float, oy: float, dx: float, dy: float) -> tuple[float, float, int]:
    """Depths where a ray enters and leaves a footprint and the side it enters by: 0/1 long, 2/3 ends; -1 for none."""
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
        return 0.0, 0.0, -1
    if near_v > near_u:
        return enter, leave, 0 if dv > 0 else 1
    return enter, leave, 2 if du > 0 else 3


@inlined
def _insert(hits: Hits, count: int, depth: float, what: int, leave: float, side: int) -> int:
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
def collect(scene: Scene, ox: float, oy: float, dx: float, dy: float, ray: int, hits: Hits) -> int:
    """Walk the grid along a ray and collect everything it meets, nearest first."""
    count = 0
    for i in range(scene.first_mover, scene.boxes.shape[0]):
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
                    if scene.last_ray[item] != ray:
                        scene.last_ray[item] = ray
                        enter, leave, side = _meet_box(scene.boxes, item, ox, oy, dx, dy)
                        if side >= 0:
                            count = _insert(hits, count, enter, item, leave, side)
                else:
                    tree = -1 - item
                    mark = scene.boxes.shape[0] + tree
                    if scene.last_ray[mark] != ray:
                        scene.last_ray[mark] = ray
                        px, py = scene.trees[tree, TREE.x] - ox, scene.trees[tree, TREE.y] - oy
                        depth = (px * dx + py * dy) / norm2
                        off = (px * dy - py * dx) / norm
                        if depth > 0.6 and abs(off) < scene.trees[tree, TREE.crown]:
                            count = _insert(hits, count, depth, item, off, 0)
        if next_x < next_y:
            t, c = next_x, c + step_c
            next_x += inv_x
        else:
            t, r = next_y, r + step_r
            next_y += inv_y
    return count


def no_hits() -> Hits:
    """Room for what one ray meets."""
    return Hits(
        np.zeros(MAX_HITS, np.float32), np.zeros(MAX_HITS, np.int32),
        np.zeros(MAX_HITS, np.float32), np.zeros(MAX_HITS, np.int32),
    )  # fmt: skip
