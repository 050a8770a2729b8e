"""Trees along streets, in gardens, parks and woods, and lamp posts."""

from __future__ import annotations

import numpy as np

from x2localizer.town.boxes import Stock, along_road, district_at
from x2localizer.town.districts import CONE, POLE, POPLAR, ROUND, WATER, District
from x2localizer.town.layers import FIELD_UNIT_M, ZONE_STEP, Layers
from x2localizer.town.plan import Plan, Road


def _tree(rng: np.random.Generator, stock: Stock, district: District, shape: int, x: float, y: float) -> None:
    scale = district.tree_scale * float(rng.uniform(0.75, 1.25))
    crown, high, half = {
        ROUND: (2.9, 5.6, 2.7), CONE: (2.3, 5.2, 4.4), POPLAR: (1.4, 7.4, 5.6)
    }[shape]  # fmt: skip
    leaf = np.clip(np.array(district.leaf) + rng.normal(0, 6) + rng.normal(0, 4, 3), 10, 220)
    stock.trees.append(
        (x, y, crown * scale, high * scale, half * scale, 0.16 + 0.06 * scale, shape, *leaf,
         int(rng.integers(1 << 20)))
    )  # fmt: skip


def street_trees(rng: np.random.Generator, plan: Plan, layers: Layers, stock: Stock, road: Road) -> None:
    """Trees at the outer edge of the sidewalks, and lamp posts along arterials."""
    for side in (-1.0, 1.0):
        middle = road.points[len(road.points) // 2]
        found = district_at(plan, layers, float(middle[0]), float(middle[1]))
        if found is None or road.bridge:
            continue
        spacing = found[1].tree_spacing
        step = spacing if spacing is not None else 1e9
        away = road.half_width + road.pavement + 0.35
        at = np.arange(9.0, road.length_m - 9.0, step) + rng.uniform(0, 4)
        for point, tangent in zip(*along_road(road.points, at[at < road.length_m - 8]), strict=True):
            x, y = point + np.array([-tangent[1], tangent[0]]) * side * away
            if rng.uniform() < 0.88 and _clear_of_roads(layers, x, y, 0.5):
                _tree(rng, stock, found[1], found[1].species[0], float(x), float(y))
        lamps = np.arange(12.0, road.length_m - 10.0, 28.0 if road.arterial else 42.0)
        for point, tangent in zip(*along_road(road.points, lamps), strict=True):
            x, y = point + np.array([-tangent[1], tangent[0]]) * side * (road.half_width + 0.5)
            if side > 0 or road.arterial:
                stock.trees.append((x, y, 0.25, 7.0, 0.12, 0.07, POLE, 120, 122, 126, int(rng.integers(1 << 20))))


def _clear_of_roads(layers: Layers, x: float, y: float, least_m: float) -> bool:
    r, c = int(y / layers.metres_per_pixel), int(x / layers.metres_per_pixel)
    inside = 0 <= r < layers.margin.shape[0] and 0 <= c < layers.margin.shape[1]
    return inside and bool(layers.margin[r, c] * FIELD_UNIT_M > least_m and layers.surface[r, c] != WATER)


def scatter_trees(rng: np.random.Generator, plan: Plan, layers: Layers, stock: Stock) -> None:
    """Trees in gardens, parks and woods, thinned to each neighbourhood's density, in loose groups."""
    size = plan.place.size_m
    densest = max(d.kind.trees for d in plan.districts)
    spots = rng.uniform(2, size - 2, (int(size * size / 1e4 * densest), 2))
    keep = rng.uniform(0, densest, len(spots))
    step = layers.metres_per_pixel * ZONE_STEP
    zones = layers.zone[(spots[:, 1] / step).astype(int), (spots[:, 0] / step).astype(int)]
    density = np.array([d.kind.trees for d in plan.districts])[zones]
    for (x, y), zone in zip(spots[keep < density], zones[keep < density], strict=True):
        if stock.free(float(x), float(y)):
            district = plan.districts[int(zone)]
            shape = district.species[1] if rng.uniform() < 0.8 else int(rng.integers(0, 3))
            _tree(rng, stock, district, shape, float(x), float(y))
