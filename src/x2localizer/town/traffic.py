"""Cars: parked along kerbs and in lots, and moving on the road that is driven."""

from __future__ import annotations

import numpy as np

from x2localizer.town.boxes import CABIN, CAR, LOT, Finish, Footprint, box_row
from x2localizer.town.columns import BOX
from x2localizer.town.districts import RGB
from x2localizer.town.layers import Float32
from x2localizer.town.place import Bounds, along_line
from x2localizer.town.plan import Plan

PAINTS: tuple[RGB, ...] = (
    (208, 210, 212),
    (60, 62, 66),
    (148, 152, 156),
    (168, 36, 32),
    (38, 66, 122),
    (226, 226, 222),
    (92, 98, 92),
    (182, 160, 120),
    (28, 30, 34),
    (54, 98, 92),
)
HALF_LENGTH_M, HALF_WIDTH_M, BONNET_M, ROOF_M = 2.2, 0.9, 0.86, 1.45
"""Half the size of a car, and the heights of its bonnet and its roof."""


def car_rows(
    x: float, y: float, ux: float, uy: float, paint: RGB, scale: float = 1.0
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Body and cabin of a car at (x, y) that points along (ux, uy), as two rows of the table of boxes."""
    length, width, bonnet, roof = HALF_LENGTH_M * scale, HALF_WIDTH_M * scale, BONNET_M * scale, ROOF_M * scale
    finish = Finish(paint, paint)
    cabin = Footprint(x - 0.25 * ux, y - 0.25 * uy, ux, uy, 0.58 * length, 0.88 * width)
    return (
        box_row(Footprint(x, y, ux, uy, length, width), CAR, finish, eaves=bonnet),
        box_row(cabin, CABIN, finish, bonnet, roof),
    )


def parked_cars(rng: np.random.Generator, plan: Plan, boxes: Float32, bounds: Bounds, share: float) -> Float32:
    """Cars at the kerbs and in the parking lots inside some bounds, as rows of the table of boxes.

    ``share`` of the places along the kerbs are taken on average, and more of those in the lots.
    """
    rows: list[tuple[float, ...]] = []
    for road in plan.roads:
        busy = share * float(rng.uniform(0.2, 1.8))
        if road.bridge or not bounds.overlaps(road.points):
            continue
        for side in (-1.0, 1.0):
            at = np.arange(16.0, road.length_m - 16.0, 6.2)
            taken = rng.uniform(size=len(at)) < busy
            paints = rng.integers(len(PAINTS), size=len(at))
            jitter = rng.uniform(-0.6, 0.6, len(at))
            if not taken.any():
                continue
            points, tangents = along_line(road.points, at[taken] + jitter[taken])
            away = max(road.half_width - 1.05, 0.45 * road.half_width + 2.25)
            for (px, py), (tx, ty), paint in zip(points, tangents, paints[taken], strict=True):
                x, y = px - ty * side * away, py + tx * side * away
                rows += car_rows(x, y, tx * side, ty * side, PAINTS[paint])
    for lot in boxes[boxes[:, BOX.kind] == LOT]:
        if bounds.contains(lot[BOX.x], lot[BOX.y]):
            rows += _lot_cars(rng, lot, min(1.0, share * 1.6))
    return np.array(rows, np.float32).reshape(-1, len(BOX))


def _lot_cars(rng: np.random.Generator, lot: Float32, share: float) -> list[tuple[float, ...]]:
    """Cars in the bays of a parking lot, which is a row of the table of boxes."""
    x, y, ux, uy = (float(lot[column]) for column in (BOX.x, BOX.y, BOX.axis_x, BOX.axis_y))
    a, b = float(lot[BOX.half_length]), float(lot[BOX.half_width])
    rows: list[tuple[float, ...]] = []
    for v in np.arange(-b + 2.5, b - 1.0, 8.5):
        for u in np.arange(-a + 1.3, a - 1.0, 2.6):
            if rng.uniform() < share:
                paint = PAINTS[int(rng.integers(len(PAINTS)))]
                rows += car_rows(x + u * ux - v * uy, y + u * uy + v * ux, -uy, ux, paint)
    return rows
