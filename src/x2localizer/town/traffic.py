"""Cars: parked along kerbs and in lots, and moving on the road that is driven."""

from __future__ import annotations

import numpy as np

from x2localizer.town.boxes import CABIN, CAR, LOT, along_road
from x2localizer.town.columns import BOX
from x2localizer.town.layers import Float32
from x2localizer.town.plan import Plan

PAINTS = np.array(
    [(208, 210, 212), (60, 62, 66), (148, 152, 156), (168, 36, 32), (38, 66, 122), (226, 226, 222), (92, 98, 92),
     (182, 160, 120), (28, 30, 34), (54, 98, 92)], np.float32,
)  # fmt: skip
BODY_M = (2.2, 0.9, 0.86)
"""Half length, half width and height of a car's body."""


def car_boxes(x: float, y: float, ux: float, uy: float, paint: Float32, scale: float = 1.0) -> Float32:
    """Body and cabin of a car at (x, y) that points along (ux, uy), as two rows of the box table."""
    rows = np.zeros((2, len(BOX)), np.float32)
    length, width, high = BODY_M[0] * scale, BODY_M[1] * scale, BODY_M[2] * scale
    roof = 1.45 * scale
    rows[0, :10] = (x, y, ux, uy, length, width, 0.0, high, high, CAR)
    rows[1, :10] = (x - 0.25 * ux, y - 0.25 * uy, ux, uy, 0.58 * length, 0.88 * width, high, roof, roof, CABIN)
    rows[:, 10:13] = paint
    rows[:, 13:16] = paint
    rows[:, 16:18] = 3.0
    return rows


def parked_cars(
    rng: np.random.Generator, plan: Plan, boxes: Float32, bounds: tuple[float, float, float, float], share: float
) -> Float32:
    """Cars at the kerbs and in the parking lots inside map metres (x0, y0, x1, y1), as rows of the box table."""
    x0, y0, x1, y1 = bounds
    rows: list[Float32] = []
    for road in plan.roads:
        low, high = road.points.min(0), road.points.max(0)
        busy = share * float(rng.uniform(0.2, 1.8))
        if low[0] > x1 or low[1] > y1 or high[0] < x0 or high[1] < y0 or road.bridge:
            continue
        for side in (-1.0, 1.0):
            at = np.arange(16.0, road.length_m - 16.0, 6.2)
            taken = rng.uniform(size=len(at)) < busy
            paints = rng.integers(len(PAINTS), size=len(at))
            jitter = rng.uniform(-0.6, 0.6, len(at))
            if not taken.any():
                continue
            points, tangents = along_road(road.points, at[taken] + jitter[taken])
            away = max(road.half_width - 1.05, 0.45 * road.half_width + 2.25)
            for (px, py), (tx, ty), paint in zip(points, tangents, paints[taken], strict=True):
                x, y = px - ty * side * away, py + tx * side * away
                rows.append(car_boxes(x, y, tx * side, ty * side, PAINTS[paint]))
    for box in boxes[boxes[:, BOX.kind] == LOT]:
        if x0 < box[BOX.x] < x1 and y0 < box[BOX.y] < y1:
            rows += _lot_cars(rng, box, min(1.0, share * 1.6))
    return np.concatenate(rows).astype(np.float32) if rows else np.zeros((0, len(BOX)), np.float32)


def _lot_cars(rng: np.random.Generator, box: Float32, share: float) -> list[Float32]:
    """Cars in the bays of one parking lot."""
    cx, cy, ux, uy, a, b = (float(v) for v in box[:6])
    rows = []
    for v in np.arange(-b + 2.5, b - 1.0, 8.5):
        for u in np.arange(-a + 1.3, a - 1.0, 2.6):
            if rng.uniform() < share:
                paint = PAINTS[int(rng.integers(len(PAINTS)))]
                rows.append(car_boxes(cx + u * ux - v * uy, cy + u * uy + v * ux, -uy, ux, paint))
    return rows
