"""Trees along streets, in gardens, parks and woods, and lamp posts."""

from __future__ import annotations

import numpy as np

from x2localizer.town.boxes import SEEDS
from x2localizer.town.columns import X, Y
from x2localizer.town.districts import CONE, POLE, POPLAR, ROUND, WATER, District
from x2localizer.town.inventory import Inventory
from x2localizer.town.layers import FIELD_UNIT_M, ZONE_STEP, Layers, district_at
from x2localizer.town.place import along_line
from x2localizer.town.plan import Plan
from x2localizer.town.roads import Road


def _add_tree(
    rng: np.random.Generator, inventory: Inventory, district: District, shape: int, x: float, y: float
) -> None:
    """Add a tree of a neighbourhood, of random size and colour."""
    scale = district.tree_scale * float(rng.uniform(0.75, 1.25))
    crown, middle, half_height = {ROUND: (2.9, 5.6, 2.7), CONE: (2.3, 5.2, 4.4), POPLAR: (1.4, 7.4, 5.6)}[shape]
    r, g, b = np.clip(np.array(district.leaf) + rng.normal(0, 6) + rng.normal(0, 4, 3), 10, 220)
    inventory.add_tree(
        x,
        y,
        crown=crown * scale,
        middle=middle * scale,
        half_height=half_height * scale,
        trunk=0.16 + 0.06 * scale,
        shape=shape,
        leaf=(r, g, b),
        seed=int(rng.integers(SEEDS)),
    )


def street_trees(rng: np.random.Generator, plan: Plan, layers: Layers, inventory: Inventory, road: Road) -> None:
    """Add trees at the outer edge of the sidewalks, and lamp posts."""
    middle = road.points[len(road.points) // 2]
    district = district_at(plan, layers, float(middle[X]), float(middle[Y]))
    if district is None or road.bridge:
        return
    length = road.length_m
    for side in (-1.0, 1.0):
        step = district.tree_spacing if district.tree_spacing is not None else 1e9
        away = road.half_width + road.pavement + 0.35
        at = np.arange(9.0, length - 9.0, step) + rng.uniform(0, 4)
        for point, tangent in zip(*along_line(road.points, at[at < length - 8]), strict=True):
            x, y = point + np.array([-tangent[Y], tangent[X]]) * side * away
            if rng.uniform() < 0.88 and _clear_of_roads(layers, x, y, 0.5):
                _add_tree(rng, inventory, district, district.species[0], float(x), float(y))
        lamps = np.arange(12.0, length - 10.0, 28.0 if road.arterial else 42.0)
        for point, tangent in zip(*along_line(road.points, lamps), strict=True):
            x, y = point + np.array([-tangent[Y], tangent[X]]) * side * (road.half_width + 0.5)
            if side > 0 or road.arterial:
                _add_lamp_post(inventory, x, y, int(rng.integers(SEEDS)))


def _add_lamp_post(inventory: Inventory, x: float, y: float, seed: int) -> None:
    inventory.add_tree(
        x, y, crown=0.25, middle=7.0, half_height=0.12, trunk=0.07, shape=POLE, leaf=(120, 122, 126), seed=seed
    )


def _clear_of_roads(layers: Layers, x: float, y: float, least_m: float) -> bool:
    r, c = int(y / layers.metres_per_pixel), int(x / layers.metres_per_pixel)
    inside = 0 <= r < layers.margin.shape[0] and 0 <= c < layers.margin.shape[1]
    return inside and bool(layers.margin[r, c] * FIELD_UNIT_M > least_m and layers.surface[r, c] != WATER)


def scatter_trees(rng: np.random.Generator, plan: Plan, layers: Layers, inventory: Inventory) -> None:
    """Add trees in gardens, parks and woods, thinned to each neighbourhood's density."""
    size = plan.place.size_m
    densest = max(d.kind.trees for d in plan.districts)
    spots = rng.uniform(2, size - 2, (int(size * size / 1e4 * densest), 2))
    keep = rng.uniform(0, densest, len(spots))
    step = layers.metres_per_pixel * ZONE_STEP
    zones = layers.zone[(spots[:, Y] / step).astype(int), (spots[:, X] / step).astype(int)]
    density = np.array([d.kind.trees for d in plan.districts])[zones]
    for (x, y), zone in zip(spots[keep < density], zones[keep < density], strict=True):
        if inventory.is_free(float(x), float(y)):
            district = plan.districts[int(zone)]
            shape = district.species[1] if rng.uniform() < 0.8 else int(rng.integers(0, 3))
            _add_tree(rng, inventory, district, shape, float(x), float(y))
