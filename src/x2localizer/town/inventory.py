"""The boxes and trees placed in a town so far, and the ground they occupy."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from x2localizer.compiled import compiled
from x2localizer.town.boxes import Footprint
from x2localizer.town.columns import BOX, ROAD, TREE
from x2localizer.town.districts import RGB, WATER
from x2localizer.town.layers import FIELD_UNIT_M, Float32, Layers, UInt8

OCCUPIED_STEP = 2
"""The raster of occupied ground is this many times coarser than the layers."""


@dataclass(frozen=True, slots=True, eq=False)
class Inventory:
    """Rows of the tables of boxes and trees; ``occupied`` is a raster with 1 where nothing more can stand."""

    occupied: UInt8
    metres_per_pixel: float  # of ``occupied``
    boxes: list[tuple[float, ...]] = field(default_factory=list)
    trees: list[tuple[float, ...]] = field(default_factory=list)

    def claim(self, ground: Footprint) -> bool:
        """Occupy a rectangle of ground if all of it is free; whether it was."""
        return _claim(
            self.occupied, self.metres_per_pixel, ground.x, ground.y, ground.axis_x, ground.axis_y,
            ground.half_length, ground.half_width,
        )  # fmt: skip

    def is_free(self, x: float, y: float) -> bool:
        """Whether a place in map metres is on the map and free."""
        c, r = int(x / self.metres_per_pixel), int(y / self.metres_per_pixel)
        inside = 0 <= r < self.occupied.shape[0] and 0 <= c < self.occupied.shape[1]
        return inside and bool(self.occupied[r, c] == 0)

    def add_tree(
        self, x: float, y: float, *, crown: float, middle: float, half_height: float, trunk: float, shape: int,
        leaf: RGB, seed: int,
    ) -> None:  # fmt: skip
        """Add a tree; the arguments are columns of its table."""
        self.trees.append((x, y, crown, middle, half_height, trunk, shape, *leaf, seed))

    def tables(self) -> tuple[Float32, Float32]:
        """The boxes (n, len(BOX)) and the trees (m, len(TREE))."""
        boxes = np.array(self.boxes, np.float32).reshape(-1, len(BOX))
        trees = np.array(self.trees, np.float32).reshape(-1, len(TREE))
        return boxes, trees


def empty_inventory(layers: Layers) -> Inventory:
    """No boxes and no trees; only roads and water occupy the ground."""
    side = (layers.surface.shape[0] + 1) // OCCUPIED_STEP
    occupied = np.zeros((side, side), np.uint8)
    _occupy_roads_and_water(layers, occupied)
    return Inventory(occupied, layers.metres_per_pixel * OCCUPIED_STEP)


@compiled
def _occupy_roads_and_water(layers: Layers, occupied: UInt8) -> None:
    """Write 1 where a road with its sidewalks or water is, else 0."""
    for r in range(occupied.shape[0]):
        for c in range(occupied.shape[1]):
            rr, cc = r * OCCUPIED_STEP, c * OCCUPIED_STEP
            road = layers.nearest_road[rr, cc]
            near = road >= 0 and layers.margin[rr, cc] * FIELD_UNIT_M < layers.roads[road, ROAD.pavement] + 0.4
            occupied[r, c] = 1 if near or layers.surface[rr, cc] == WATER else 0


@compiled
def _claim(
    occupied: UInt8, metres: float, x: float, y: float, axis_x: float, axis_y: float, a: float, b: float
) -> bool:
    """Check every pixel of a turned rectangle, then mark them all; False if one is occupied or off the map."""
    reach_x, reach_y = abs(axis_x) * a + abs(axis_y) * b, abs(axis_y) * a + abs(axis_x) * b
    c0, c1 = int((x - reach_x) / metres), int((x + reach_x) / metres)
    r0, r1 = int((y - reach_y) / metres), int((y + reach_y) / metres)
    if c0 < 0 or r0 < 0 or c1 >= occupied.shape[1] or r1 >= occupied.shape[0]:
        return False
    for step in range(2):
        for r in range(r0, r1 + 1):
            for c in range(c0, c1 + 1):
                px, py = (c + 0.5) * metres - x, (r + 0.5) * metres - y
                if abs(px * axis_x + py * axis_y) <= a and abs(py * axis_x - px * axis_y) <= b:
                    if step == 1:
                        occupied[r, c] = 1
                    elif occupied[r, c]:
                        return False
    return True
