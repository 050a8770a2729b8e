"""Lots along the roads: buildings, hedges and driveways; parking lots, courts and pools inside the blocks."""

from __future__ import annotations

import numpy as np

from x2localizer.compiled import compiled
from x2localizer.town.boxes import (
    BUILDING,
    COURT,
    DRIVEWAY,
    FENCE,
    HEDGE,
    LOT,
    POOL,
    SEEDS,
    WINDOW_STYLES,
    Finish,
    Footprint,
    box_row,
    mark_boxes,
    mark_trees,
)
from x2localizer.town.columns import X, Y
from x2localizer.town.districts import LAWN, PARK, PAVEMENT, RGB, District
from x2localizer.town.inventory import Inventory, empty_inventory
from x2localizer.town.layers import Float32, Layers, district_at
from x2localizer.town.noise import stream
from x2localizer.town.plan import Plan
from x2localizer.town.roads import Road
from x2localizer.town.trees import scatter_trees, street_trees
from x2localizer.types import Floats


def place_lots(plan: Plan, layers: Layers) -> tuple[Float32, Float32]:
    """All boxes (n, len(BOX)) and trees (m, len(TREE)) of a town, marked in the layers."""
    inventory = empty_inventory(layers)
    for i, road in enumerate(plan.roads):
        for side in (-1.0, 1.0):
            _line_street(stream(plan.seed, "lots", i, int(side > 0)), plan, layers, inventory, road, side)
        if road.bridge:
            _railings(inventory, road)
    _fill_blocks(stream(plan.seed, "blocks"), plan, layers, inventory)
    for i, road in enumerate(plan.roads):
        street_trees(stream(plan.seed, "street trees", i), plan, layers, inventory, road)
    scatter_trees(stream(plan.seed, "trees"), plan, layers, inventory)
    boxes, trees = inventory.tables()
    mark_boxes(boxes, layers.metres_per_pixel, layers.owner, layers.height)
    mark_trees(trees, layers.metres_per_pixel, layers.height)
    return boxes, trees


@compiled
def _spot(points: Floats, at: float) -> tuple[float, float, float, float]:
    """Place (x, y) and tangent (x, y) at a distance along a polyline (k, 2)."""
    last = points.shape[0] - 2
    for k in range(last + 1):
        dx, dy = points[k + 1, X] - points[k, X], points[k + 1, Y] - points[k, Y]
        length = np.sqrt(dx * dx + dy * dy)
        if at < length or k == last:
            return points[k, X] + at * dx / length, points[k, Y] + at * dy / length, dx / length, dy / length
        at -= length
    return 0.0, 0.0, 1.0, 0.0  # a road has two points or more


def _pick(rng: np.random.Generator, colours: tuple[RGB, ...], spread: float = 5.0) -> RGB:
    """One of some colours, a little shifted."""
    base = colours[int(rng.integers(len(colours)))]
    shift = rng.normal(0, spread, 3) * 0.5 + rng.normal(0, spread)
    r, g, b = (float(min(max(value + s, 10.0), 250.0)) for value, s in zip(base, shift, strict=True))
    return r, g, b


def _line_street(
    rng: np.random.Generator, plan: Plan, layers: Layers, inventory: Inventory, road: Road, side: float
) -> None:
    """Place lots along one side of a road."""
    length = road.length_m
    at = float(rng.uniform(2, 8))
    while at < length - 4.0:
        x, y, tx, ty = _spot(road.points, at)
        away = side * (road.half_width + road.pavement + 12.0)
        district = district_at(plan, layers, x - ty * away, y + tx * away)
        if district is None:
            at += 20.0
            continue
        front = float(rng.uniform(*district.kind.frontage))
        gap = float(rng.uniform(*district.kind.gap))
        if rng.uniform() < district.kind.built:
            x, y, tx, ty = _spot(road.points, min(at + front / 2, length))
            point, tangent, out = np.array([x, y]), np.array([tx, ty]), np.array([-ty, tx]) * side
            _lot(rng, inventory, district, road, point, tangent, out, front, gap)
        at += front + gap


def _lot(
    rng: np.random.Generator,
    inventory: Inventory,
    district: District,
    road: Road,
    point: Floats,
    tangent: Floats,
    out: Floats,
    front: float,
    gap: float,
) -> None:
    """Place a building, its driveway, and a hedge or a wall at the street.

    ``point`` (2,) is the middle of the lot on the road's centre line, ``tangent`` (2,) runs along the road and ``out``
    (2,) away from it; ``front`` is the building's length along the road, ``gap`` the distance to the next.
    """
    depth = float(rng.uniform(*district.kind.depth))
    setback = district.setback + (float(rng.uniform(-1, 1)) if district.setback > 3 else 0.0)
    edge = road.half_width + road.pavement
    x, y = (float(v) for v in point + out * (edge + max(setback, 0.5) + depth / 2))
    tx, ty = (float(v) for v in tangent)
    house = Footprint(x, y, tx, ty, front / 2, depth / 2)
    if not inventory.claim(house.grown(0.1)):
        front *= 0.6
        house = house.resized(front / 2, depth / 2)
        if front < 5.5 or not inventory.claim(house.grown(0.1)):
            return
    _building(rng, inventory, district, house)
    if setback > 3.0 and rng.uniform() < 0.75:
        x, y = point + out * (edge + setback / 2) + tangent * (front / 2 - 1.5)
        if inventory.claim(Footprint(x, y, -ty, tx, setback / 2 - 0.6, 1.1)):
            slab, seed = _pick(rng, (district.colours[PAVEMENT],)), int(rng.integers(SEEDS))
            driveway = Footprint(x, y, -ty, tx, setback / 2 + 0.8, 1.4)
            inventory.boxes.append(box_row(driveway, DRIVEWAY, Finish(slab, slab, seed=seed)))
    if setback > 1.6 and rng.uniform() < district.kind.hedges:
        x, y = point + out * (edge + 0.7)
        fence = Footprint(x, y, tx, ty, (front + min(gap, 5.0)) / 2 - 0.8, 0.3)
        if inventory.claim(fence):
            green = rng.uniform() < 0.65
            colour: RGB = (62, 92, 44) if green else district.walls[0]
            height = float(rng.uniform(0.8, 1.7)) if green else float(rng.uniform(0.6, 1.1))
            finish = Finish(colour, colour, seed=int(rng.integers(SEEDS)))
            fence = fence.resized(fence.half_length, 0.35 if green else 0.12)
            inventory.boxes.append(box_row(fence, HEDGE if green else FENCE, finish, eaves=height))


def _building(rng: np.random.Generator, inventory: Inventory, district: District, ground: Footprint) -> None:
    """Place a building: one box, a house with a wing, or a tower on a podium."""
    kind = district.kind
    storey = float(rng.uniform(2.8, 3.4)) if kind.name != "industrial" else 4.5
    storeys = max(1, round(float(rng.integers(kind.storeys[0], kind.storeys[1] + 1)) * district.height_scale))
    eaves = storeys * storey + float(rng.uniform(0.2, 0.8))
    pitched = rng.uniform() < kind.pitched
    wall, roof = _pick(rng, district.walls), _pick(rng, district.roofs if pitched else district.flats)
    ground = ground.lengthwise()  # the ridge runs along the longer side
    ridge = eaves + ground.half_width * float(rng.uniform(0.55, 0.85)) if pitched else eaves
    bay, style = float(rng.uniform(2.4, 3.8)), int(rng.integers(0, WINDOW_STYLES))
    if kind.name in ("downtown", "midrise") and rng.uniform() < 0.6:
        style += WINDOW_STYLES  # shops on the ground floor
    finish = Finish(wall, roof, storey, bay, style, int(rng.integers(SEEDS)))
    if kind.name == "downtown" and storeys > 7 and rng.uniform() < 0.5:
        podium = 2 * storey
        inventory.boxes.append(box_row(ground, BUILDING, finish, eaves=podium))
        inventory.boxes.append(box_row(ground.scaled(0.72), BUILDING, finish, podium, eaves))
        return
    inventory.boxes.append(box_row(ground, BUILDING, finish, 0.0, eaves, ridge))
    if pitched and kind.name in ("suburb", "villas", "fields") and rng.uniform() < 0.4:
        _wing(rng, inventory, ground, eaves, finish)


def _wing(rng: np.random.Generator, inventory: Inventory, house: Footprint, eaves: float, finish: Finish) -> None:
    """Place a lower wing at right angles to a house, if the ground behind or before it is free."""
    ux, uy, b = house.axis_x, house.axis_y, house.half_width
    side, long, wide = (1.0 if rng.uniform() < 0.5 else -1.0), float(rng.uniform(3, 5)), b * 0.6
    shift = (house.half_length - wide) * (1.0 if rng.uniform() < 0.5 else -1.0)

    def wing(away: float, half: float) -> Footprint:
        x, y = house.x + ux * shift - uy * side * away, house.y + uy * shift + ux * side * away
        return Footprint(x, y, ux, uy, wide, half)

    away = b + long / 2 + 0.3
    if inventory.claim(wing(away, long / 2)):
        ground = wing(away - 1.0, long / 2 + 1.0).lengthwise()  # reaches into the house
        low = eaves * 0.8
        inventory.boxes.append(box_row(ground, BUILDING, finish, 0.0, low, low + ground.half_width * 0.7))


def _railings(inventory: Inventory, road: Road) -> None:
    """Place railings on both sides of a bridge."""
    grey: RGB = (150, 152, 154)
    for (x0, y0), (x1, y1) in zip(road.points[:-1], road.points[1:], strict=True):
        length = float(np.hypot(x1 - x0, y1 - y0))
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        for side in (-1.0, 1.0):
            away = side * (road.half_width + road.pavement)
            x, y = (x0 + x1) / 2 - uy * away, (y0 + y1) / 2 + ux * away
            railing = Footprint(x, y, ux, uy, length / 2, 0.12)
            inventory.boxes.append(box_row(railing, FENCE, Finish(grey, grey, seed=7), eaves=1.1))


def _fill_blocks(rng: np.random.Generator, plan: Plan, layers: Layers, inventory: Inventory) -> None:
    """Place parking lots, courts, back buildings and pools inside the blocks."""
    size = plan.place.size_m
    hectares = size * size / 1e4
    for x, y in rng.uniform(10, size - 10, (int(hectares * 5.0), 2)):
        district = district_at(plan, layers, float(x), float(y))
        if district is None or not inventory.is_free(float(x), float(y)):
            continue
        draw = float(rng.uniform(0, 5.0))
        angle = district.angle + (np.pi / 2 if rng.uniform() < 0.5 else 0.0)
        spot = Footprint(float(x), float(y), float(np.cos(angle)), float(np.sin(angle)), 0.0, 0.0)
        kind = district.kind
        if draw < kind.parking:
            half_length, half_width = float(rng.integers(3, 7)) * 5.0, float(rng.choice((8.5, 17.0)))
            _flat(rng, inventory, LOT, spot.resized(half_length, half_width))
        elif draw < kind.parking + kind.infill:
            if kind.name in ("suburb", "villas"):
                if rng.uniform() < 0.4:
                    _flat(rng, inventory, POOL, spot.resized(4.0, 2.0))
                continue
            house = spot.resized(float(rng.uniform(*kind.frontage)) / 2, float(rng.uniform(*kind.depth)) / 2)
            if inventory.claim(house.grown(3.0)):
                _building(rng, inventory, district, house)
        elif kind.ground in (PARK, LAWN) and rng.uniform() < 0.03:
            _flat(rng, inventory, COURT, spot.resized(16.0, 8.0))


FLAT_COLOURS: dict[int, RGB] = {LOT: (100.0, 99.0, 98.0), COURT: (172.0, 96.0, 70.0), POOL: (78.0, 172.0, 196.0)}


def _flat(rng: np.random.Generator, inventory: Inventory, kind: int, ground: Footprint) -> None:
    """Place something painted on the ground, in the larger of two sizes that fits."""
    for scale in (1.0, 0.6):
        fitting = ground.scaled(scale)
        if inventory.claim(fitting.grown(0.5)):
            finish = Finish(FLAT_COLOURS[kind], FLAT_COLOURS[kind], bay=2.6, seed=int(rng.integers(SEEDS)))
            inventory.boxes.append(box_row(fitting, kind, finish))
            return
