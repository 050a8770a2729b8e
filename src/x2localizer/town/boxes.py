"""Boxes and trees as rows of tables, and their marks in the rasters.

A box is an upright block with a rectangular footprint; a tree is a crown on a trunk. Each is a row of a table, because
the street view and the aerial painter are compiled and take plain arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from x2localizer.compiled import compiled, inlined
from x2localizer.town.columns import BOX, TREE
from x2localizer.town.districts import POLE, RGB
from x2localizer.town.layers import Float32, UInt16

BUILDING, HEDGE, FENCE, CAR, CABIN, LOT, COURT, POOL, DRIVEWAY = range(9)
"""Kinds of box. From LOT on they are flat: painted on the ground, nothing to bump into."""
WINDOW_STYLES = 4
"""Styles of windows. A building with shops on the ground floor has this added to its style."""
SEEDS = 1 << 20
"""Seeds of boxes and trees are below this: float32 holds them exactly."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """A turned rectangle of ground: its centre in map metres, a unit vector along it, and half its sides."""

    x: float
    y: float
    axis_x: float
    axis_y: float
    half_length: float  # along the axis
    half_width: float

    def grown(self, by_m: float) -> Footprint:
        """The same with every side moved outward."""
        return self.resized(self.half_length + by_m, self.half_width + by_m)

    def scaled(self, factor: float) -> Footprint:
        """The same around its centre in another size."""
        return self.resized(self.half_length * factor, self.half_width * factor)

    def resized(self, half_length: float, half_width: float) -> Footprint:
        """The same around its centre with other sides."""
        return Footprint(self.x, self.y, self.axis_x, self.axis_y, half_length, half_width)

    def lengthwise(self) -> Footprint:
        """The same rectangle with its axis along the longer side."""
        if self.half_width <= self.half_length:
            return self
        return Footprint(self.x, self.y, -self.axis_y, self.axis_x, self.half_width, self.half_length)


@dataclass(frozen=True, slots=True)
class Finish:
    """What a box looks like; the fields are columns of its table."""

    wall: RGB
    roof: RGB
    storey: float = 3.0
    bay: float = 3.0
    style: int = 0
    seed: int = 0


def box_row(
    footprint: Footprint, kind: int, finish: Finish, bottom: float = 0.0, eaves: float = 0.0, ridge: float | None = None
) -> tuple[float, ...]:
    """A row of the table of boxes; without a ``ridge`` the roof is flat, without ``eaves`` the box is."""
    return (
        footprint.x, footprint.y, footprint.axis_x, footprint.axis_y, footprint.half_length, footprint.half_width,
        bottom, eaves, eaves if ridge is None else ridge, kind, *finish.wall, *finish.roof,
        finish.storey, finish.bay, finish.style, finish.seed,
    )  # fmt: skip


@inlined
def in_box(boxes: Float32, i: int, x: float, y: float) -> tuple[float, float]:
    """Metres along and across the axis of box ``i``, from its centre, of a place in map metres."""
    return turned_to_box(boxes, i, x - boxes[i, BOX.x], y - boxes[i, BOX.y])


@inlined
def turned_to_box(boxes: Float32, i: int, dx: float, dy: float) -> tuple[float, float]:
    """The parts along and across the axis of box ``i`` of a vector on the map."""
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
    """Write to the rasters which box covers a pixel and how high it is there; the highest wins."""
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
