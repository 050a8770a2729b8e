"""Lots along the roads: buildings, hedges and driveways; parking, courts and pools inside the blocks."""

from __future__ import annotations

import numpy as np

from x2localizer.town.boxes import (
    BUILDING,
    COURT,
    DRIVEWAY,
    FENCE,
    HEDGE,
    LOT,
    OCCUPIED_STEP,
    POOL,
    Stock,
    district_at,
    mark_boxes,
    mark_trees,
)
from x2localizer.town.columns import BOX, ROAD, TREE, X, Y
from x2localizer.town.compiled import compiled
from x2localizer.town.districts import LAWN, PARK, PAVEMENT, RGB, WATER, District
from x2localizer.town.layers import FIELD_UNIT_M, Float32, Layers, UInt8
from x2localizer.town.noise import stream
from x2localizer.town.plan import Plan, Road
from x2localizer.town.trees import scatter_trees, street_trees
from x2localizer.types import Floats


@compiled
def _roads_and_water(layers: Layers, taken: UInt8) -> None:
    for r in range(taken.shape[0]):
        for c in range(taken.shape[1]):
            rr, cc = r * OCCUPIED_STEP, c * OCCUPIED_STEP
            e = layers.edge[rr, cc]
            near = e >= 0 and layers.margin[rr, cc] * FIELD_UNIT_M < layers.road[e, ROAD.pavement] + 0.4
            taken[r, c] = 1 if near or layers.surface[rr, cc] == WATER else 0


def place_lots(plan: Plan, layers: Layers) -> tuple[Float32, Float32]:
    """All boxes (n, len(BOX)) and trees (m, len(TREE)) of a town, and their marks in the layers."""
    half = (layers.surface.shape[0] + 1) // OCCUPIED_STEP
    stock = Stock(np.zeros((half, half), np.uint8), layers.metres_per_pixel * OCCUPIED_STEP)
    _roads_and_water(layers, stock.taken)
    for i, road in enumerate(plan.roads):
        for side in (-1.0, 1.0):
            _line_street(stream(plan.seed, "lots", i, int(side > 0)), plan, layers, stock, road, side)
        if road.bridge:
            _railings(stock, road)
    _fill_blocks(stream(plan.seed, "blocks"), plan, layers, stock)
    for i, road in enumerate(plan.roads):
        street_trees(stream(plan.seed, "street trees", i), plan, layers, stock, road)
    scatter_trees(stream(plan.seed, "trees"), plan, layers, stock)
    boxes = np.array(stock.boxes, np.float32).reshape(-1, len(BOX))
    trees = np.array(stock.trees, np.float32).reshape(-1, len(TREE))
    mark_boxes(boxes, layers.metres_per_pixel, layers.owner, layers.height)
    mark_trees(trees, layers.metres_per_pixel, layers.height)
    return boxes, trees


@compiled
def _spot(points: Floats, at: float) -> tuple[float, float, float, float]:
    """The same for one distance: place and tangent as four numbers."""
    last = points.shape[0] - 2
    for k in range(last + 1):
        dx, dy = points[k + 1, X] - points[k, X], points[k + 1, Y] - points[k, Y]
        length = np.sqrt(dx * dx + dy * dy)
        if at < length or k == last:
            return points[k, X] + at * dx / length, points[k, Y] + at * dy / length, dx / length, dy / length
        at -= length
    return 0.0, 0.0, 1.0, 0.0  # a road has two points or more


def _pick(rng: np.random.Generator, colours: tuple[RGB, ...], spread: float = 5.0) -> RGB:
    base = colours[int(rng.integers(len(colours)))]
    shift = rng.normal(0, spread, 3) * 0.5 + rng.normal(0, spread)
    r, g, b = (float(min(max(value + s, 10.0), 250.0)) for value, s in zip(base, shift, strict=True))
    return r, g, b


def _line_street(rng: np.random.Generator, plan: Plan, layers: Layers, stock: Stock, road: Road, side: float) -> None:
    """Lots along one side of a road."""
    length = road.length_m
    at = float(rng.uniform(2, 8))
    while at < length - 4.0:
        x, y, tx, ty = _spot(road.points, at)
        away = side * (road.half_width + road.pavement + 12.0)
        found = district_at(plan, layers, x - ty * away, y + tx * away)
        if found is None:
            at += 20.0
            continue
        _, district = found
        front = float(rng.uniform(*district.kind.frontage))
        gap = float(rng.uniform(*district.kind.gap))
        if rng.uniform() < district.kind.built:
            x, y, tx, ty = _spot(road.points, min(at + front / 2, length))
            point, tangent, out = np.array([x, y]), np.array([tx, ty]), np.array([-ty, tx]) * side
            _lot(rng, stock, district, road, point, tangent, out, front, gap)
        at += front + gap


def _lot(
    rng: np.random.Generator,
    stock: Stock,
    district: District,
    road: Road,
    point: Floats,
    tangent: Floats,
    out: Floats,
    front: float,
    gap: float,
) -> None:
    """One lot: its building, and a hedge or a wall at the street."""
    depth = float(rng.uniform(*district.kind.depth))
    setback = district.setback + (float(rng.uniform(-1, 1)) if district.setback > 3 else 0.0)
    away = road.half_width + road.pavement + max(setback, 0.5) + depth / 2
    x, y = point + out * away
    ux, uy = tangent
    if not stock.room(x, y, ux, uy, front / 2 + 0.1, depth / 2 + 0.1):
        front *= 0.6
        if front < 5.5 or not stock.room(x, y, ux, uy, front / 2 + 0.1, depth / 2 + 0.1):
            return
    _building(rng, stock, district, float(x), float(y), float(ux), float(uy), front / 2, depth / 2)
    if setback > 3.0 and rng.uniform() < 0.75:
        dx, dy = point + out * (road.half_width + road.pavement + setback / 2) + tangent * (front / 2 - 1.5)
        if stock.room(dx, dy, -uy, ux, setback / 2 - 0.6, 1.1, 2):
            slab, seed = _pick(rng, (district.colours[PAVEMENT],)), int(rng.integers(1 << 20))
            stock.boxes.append(
                (dx, dy, -uy, ux, setback / 2 + 0.8, 1.4, 0.0, 0.0, 0.0, DRIVEWAY, *slab, *slab, 3.0, 3.0, 0, seed)
            )
    if setback > 1.6 and rng.uniform() < district.kind.hedges:
        hx, hy = point + out * (road.half_width + road.pavement + 0.7)
        half = (front + min(gap, 5.0)) / 2 - 0.8
        if stock.room(hx, hy, ux, uy, half, 0.3, 3):
            green = rng.uniform() < 0.65
            colour: RGB = (62, 92, 44) if green else district.walls[0]
            height = float(rng.uniform(0.8, 1.7)) if green else float(rng.uniform(0.6, 1.1))
            stock.boxes.append(
                (hx, hy, ux, uy, half, 0.35 if green else 0.12, 0.0, height, height,
                 HEDGE if green else FENCE, *colour, *colour, 3.0, 3.0, 0, int(rng.integers(1 << 20)))
            )  # fmt: skip


def _building(
    rng: np.random.Generator,
    stock: Stock,
    district: District,
    x: float,
    y: float,
    ux: float,
    uy: float,
    a: float,
    b: float,
) -> None:
    """A building as one box, a house with a wing, or a tower on a podium."""
    kind = district.kind
    storey = float(rng.uniform(2.8, 3.4)) if kind.name != "industrial" else 4.5
    storeys = max(1, round(float(rng.integers(kind.storeys[0], kind.storeys[1] + 1)) * district.height_scale))
    eaves = storeys * storey + float(rng.uniform(0.2, 0.8))
    pitched = rng.uniform() < kind.pitched
    wall, roof = _pick(rng, district.walls), _pick(rng, district.roofs if pitched else district.flats)
    if b > a:  # the ridge runs along the long side
        a, b, ux, uy = b, a, -uy, ux
    ridge = eaves + b * float(rng.uniform(0.55, 0.85)) if pitched else eaves
    bay, style = float(rng.uniform(2.4, 3.8)), int(rng.integers(0, 4))
    if kind.name in ("downtown", "midrise") and rng.uniform() < 0.6:
        style += 4  # shops on the ground floor
    seed = int(rng.integers(1 << 20))
    tail = (*wall, *roof, storey, bay, style, seed)
    if kind.name == "downtown" and storeys > 7 and rng.uniform() < 0.5:
        podium = 2 * storey
        stock.boxes.append((x, y, ux, uy, a, b, 0.0, podium, podium, BUILDING, *tail))
        stock.boxes.append((x, y, ux, uy, a * 0.72, b * 0.72, podium, eaves, eaves, BUILDING, *tail))
        return
    stock.boxes.append((x, y, ux, uy, a, b, 0.0, eaves, ridge, BUILDING, *tail))
    if pitched and kind.name in ("suburb", "villas", "fields") and rng.uniform() < 0.4:
        _wing(rng, stock, x, y, ux, uy, a, b, eaves, tail)


def _wing(
    rng: np.random.Generator,
    stock: Stock,
    x: float,
    y: float,
    ux: float,
    uy: float,
    a: float,
    b: float,
    eaves: float,
    tail: tuple[float, ...],
) -> None:
    """A lower wing at right angles to a house, if the ground behind or before it is free."""
    side, long, wide = (1.0 if rng.uniform() < 0.5 else -1.0), float(rng.uniform(3, 5)), b * 0.6
    shift = (a - wide) * (1.0 if rng.uniform() < 0.5 else -1.0)
    away = b + long / 2 + 0.3
    wx, wy = x + ux * shift - uy * side * away, y + uy * shift + ux * side * away
    if stock.room(wx, wy, ux, uy, wide, long / 2):
        wx, wy = x + ux * shift - uy * side * (away - 1.0), y + uy * shift + ux * side * (away - 1.0)
        half = long / 2 + 1.0
        low = eaves * 0.8
        axis = (-uy, ux, half, wide) if half > wide else (ux, uy, wide, half)
        stock.boxes.append((wx, wy, *axis, 0.0, low, low + min(half, wide) * 0.7, BUILDING, *tail))


def _railings(stock: Stock, road: Road) -> None:
    """Both sides of a bridge."""
    for (x0, y0), (x1, y1) in zip(road.points[:-1], road.points[1:], strict=True):
        length = float(np.hypot(x1 - x0, y1 - y0))
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        for side in (-1.0, 1.0):
            away = side * (road.half_width + road.pavement)
            x, y = (x0 + x1) / 2 - uy * away, (y0 + y1) / 2 + ux * away
            stock.boxes.append(
                (x, y, ux, uy, length / 2, 0.12, 0.0, 1.1, 1.1, FENCE, 150, 152, 154, 150, 152, 154, 3.0, 3.0, 0, 7)
            )


def _fill_blocks(rng: np.random.Generator, plan: Plan, layers: Layers, stock: Stock) -> None:
    """Parking lots, courts, back buildings and pools inside the blocks."""
    size = plan.place.size_m
    hectares = size * size / 1e4
    tries = int(hectares * 5.0)
    for x, y in rng.uniform(10, size - 10, (tries, 2)):
        found = district_at(plan, layers, float(x), float(y))
        if found is None or not stock.free(float(x), float(y)):
            continue
        district, draw = found[1], float(rng.uniform(0, 5.0))
        angle = district.angle + (np.pi / 2 if rng.uniform() < 0.5 else 0.0)
        ux, uy = float(np.cos(angle)), float(np.sin(angle))
        if draw < district.kind.parking:
            _flat(rng, stock, LOT, x, y, ux, uy, float(rng.integers(3, 7)) * 5.0, float(rng.choice((8.5, 17.0))))
        elif draw < district.kind.parking + district.kind.infill:
            if district.kind.name in ("suburb", "villas"):
                if rng.uniform() < 0.4:
                    _flat(rng, stock, POOL, x, y, ux, uy, 4.0, 2.0)
                continue
            a, b = float(rng.uniform(*district.kind.frontage)) / 2, float(rng.uniform(*district.kind.depth)) / 2
            if stock.room(x, y, ux, uy, a + 3, b + 3):
                _building(rng, stock, district, float(x), float(y), ux, uy, a, b)
        elif district.kind.ground in (PARK, LAWN) and rng.uniform() < 0.03:
            _flat(rng, stock, COURT, x, y, ux, uy, 16.0, 8.0)


def _flat(
    rng: np.random.Generator,
    stock: Stock,
    kind: int,
    x: float,
    y: float,
    ux: float,
    uy: float,
    a: float,
    b: float,
) -> None:
    """Something painted on the ground, largest size that fits."""
    for scale in (1.0, 0.6):
        if stock.room(x, y, ux, uy, a * scale + 0.5, b * scale + 0.5, 2):
            colour = {LOT: (100.0, 99.0, 98.0), COURT: (172.0, 96.0, 70.0), POOL: (78.0, 172.0, 196.0)}[kind]
            seed = int(rng.integers(1 << 20))
            stock.boxes.append(
                (x, y, ux, uy, a * scale, b * scale, 0.0, 0.0, 0.0, kind, *colour, *colour, 3.0, 2.6, 0, seed)
            )
            return
