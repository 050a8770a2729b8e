"""Boxes and trees as rows of tables, the ground they take, and their marks in the rasters.

A box is an upright block with a rectangular footprint; a tree is a crown on a trunk. Both are rows of one table,
because the street view and the aerial painter are compiled and want plain arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from x2localizer.town.columns import BOX, TREE
from x2localizer.town.compiled import compiled, inlined
from x2localizer.town.districts import POLE, District
from x2localizer.town.layers import ZONE_STEP, Float32, Layers, UInt8, UInt16
from x2localizer.town.plan import Plan
from x2localizer.types import Floats

BUILDING, HEDGE, FENCE, CAR, CABIN, LOT, COURT, POOL, DRIVEWAY = range(9)
"""Kinds of box. From LOT on they are flat: painted on the ground, nothing to bump into."""

OCCUPIED_STEP = 2
"""The raster of taken ground is this many times coarser than the layers."""


@dataclass(slots=True)
class Stock:
    """Boxes and trees as they are placed, with the ground they take."""

    taken: UInt8
    metres: float  # per pixel of ``taken``
    boxes: list[tuple[float, ...]] = field(default_factory=list)
    trees: list[tuple[float, ...]] = field(default_factory=list)

    def room(self, x: float, y: float, ux: float, uy: float, a: float, b: float, mark: int = 1) -> bool:
        """Take a rectangle of ground if all of it is free."""
        return _take(self.taken, self.metres, x, y, ux, uy, a, b, mark)

    def free(self, x: float, y: float) -> bool:
        """Whether one spot is free."""
        c, r = int(x / self.metres), int(y / self.metres)
        inside = 0 <= r < self.taken.shape[0] and 0 <= c < self.taken.shape[1]
        return inside and bool(self.taken[r, c] == 0)


@compiled
def _take(taken: UInt8, metres: float, x: float, y: float, ux: float, uy: float, a: float, b: float, mark: int) -> bool:
    """Check every pixel of a turned rectangle, then mark them all; False if one is taken or off the map."""
    reach_x, reach_y = abs(ux) * a + abs(uy) * b, abs(uy) * a + abs(ux) * b
    c0, c1 = int((x - reach_x) / metres), int((x + reach_x) / metres)
    r0, r1 = int((y - reach_y) / metres), int((y + reach_y) / metres)
    if c0 < 0 or r0 < 0 or c1 >= taken.shape[1] or r1 >= taken.shape[0]:
        return False
    for step in range(2):
        for r in range(r0, r1 + 1):
            for c in range(c0, c1 + 1):
                px, py = (c + 0.5) * metres - x, (r + 0.5) * metres - y
                if abs(px * ux + py * uy) <= a and abs(py * ux - px * uy) <= b:
                    if step == 1:
                        taken[r, c] = mark
                    elif taken[r, c]:
                        return False
    return True


def district_at(plan: Plan, layers: Layers, x: float, y: float) -> tuple[int, District] | None:
    """The neighbourhood at a place in map metres, or None off the map."""
    step = layers.metres_per_pixel * ZONE_STEP
    c, r = int(x // step), int(y // step)
    if not (0 <= r < layers.zone.shape[0] and 0 <= c < layers.zone.shape[1]):
        return None
    index = int(layers.zone[r, c])
    return index, plan.districts[index]


def along_road(points: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Points (k, 2) and unit tangents (k, 2) at distances along a polyline."""
    steps = np.diff(points, axis=0)
    lengths = np.hypot(*steps.T)
    ends = np.concatenate([[0.0], np.cumsum(lengths)])
    piece = np.clip(np.searchsorted(ends, at, side="right") - 1, 0, len(steps) - 1)
    tangent = steps[piece] / lengths[piece, None]
    return points[piece] + (at - ends[piece])[:, None] * tangent, tangent


@inlined
def in_box(boxes: Float32, i: int, x: float, y: float) -> tuple[float, float]:
    """Metres along and across the axis of box ``i``, from its centre, of a place in map metres."""
    return turned_to_box(boxes, i, x - boxes[i, BOX.x], y - boxes[i, BOX.y])


@inlined
def turned_to_box(boxes: Float32, i: int, dx: float, dy: float) -> tuple[float, float]:
    """A vector on the map as its parts along and across the axis of box ``i``."""
    axis_x, axis_y = boxes[i, BOX.axis_x], boxes[i, BOX.axis_y]
    return dx * axis_x + dy * axis_y, dy * axis_x - dx * axis_y


@inlined
def box_reach(boxes: Float32, i: int) -> tuple[float, float]:
    """How far the footprint of box ``i`` reaches from its centre to the east and to the south."""
    axis_x, axis_y = abs(boxes[i, BOX.axis_x]), abs(boxes[i, BOX.axis_y])
    a, b = boxes[i, BOX.half_length], boxes[i, BOX.half_width]
    return axis_x * a + axis_y * b, axis_y * a + axis_x * b


@compiled
def mark_boxes(boxes: Float32, mpp: float, owner: UInt16, height: UInt16) -> None:
    """Note in the rasters which box covers a pixel and how high it is there; the highest wins."""
    rows, columns = owner.shape
    for i in range(boxes.shape[0]):
        x, y, a, b = boxes[i, BOX.x], boxes[i, BOX.y], boxes[i, BOX.half_length], boxes[i, BOX.half_width]
        axis_x, axis_y = boxes[i, BOX.axis_x], boxes[i, BOX.axis_y]
        eaves, ridge, kind = boxes[i, BOX.eaves], boxes[i, BOX.ridge], boxes[i, BOX.kind]
        reach_x, reach_y = box_reach(boxes, i)
        for r in range(max(0, int((y - reach_y) / mpp)), min(rows, int((y + reach_y) / mpp) + 1)):
            for c in range(max(0, int((x - reach_x) / mpp)), min(columns, int((x + reach_x) / mpp) + 1)):
                px, py = (c + 0.5) * mpp - x, (r + 0.5) * mpp - y
                across = abs(py * axis_x - px * axis_y)
                if abs(px * axis_x + py * axis_y) <= a and across <= b:
                    top = int(10.0 * (ridge - (ridge - eaves) * across / b))
                    if top >= height[r, c]:
                        owner[r, c] = i + 1
                        if kind < LOT:
                            height[r, c] = top


@compiled
def mark_trees(trees: Float32, mpp: float, height: UInt16) -> None:
    """Raise the height raster under the crowns."""
    rows, columns = height.shape
    for i in range(trees.shape[0]):
        x, y, crown = trees[i, TREE.x], trees[i, TREE.y], trees[i, TREE.crown]
        z, half = trees[i, TREE.middle], trees[i, TREE.half_height]
        if trees[i, TREE.shape] == POLE:
            continue
        for r in range(max(0, int((y - crown) / mpp)), min(rows, int((y + crown) / mpp) + 1)):
            for c in range(max(0, int((x - crown) / mpp)), min(columns, int((x + crown) / mpp) + 1)):
                d2 = (((c + 0.5) * mpp - x) ** 2 + ((r + 0.5) * mpp - y) ** 2) / (crown * crown)
                if d2 < 1.0:
                    top = int(10.0 * (z + half * np.sqrt(1.0 - d2)))
                    height[r, c] = max(height[r, c], top)
