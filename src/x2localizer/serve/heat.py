"""A belief as a small grid, for a heat map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from x2localizer import geo
from x2localizer.localize.track.belief import PoseBelief
from x2localizer.localize.track.kernels import WEIGHT, X, Y
from x2localizer.types import Floats

SHARE_SHOWN = 0.99
"""Of the belief, along each axis; lone poses far away would make the grid coarse."""
LEAST_TILES = 2.0
"""Side of the smallest grid, in tiles."""


@dataclass(frozen=True, slots=True, eq=False)
class HeatGrid:
    """Where a belief lies.

    west, south, east, north: edges in degrees; a west greater than the east crosses the antimeridian.
    values: probability by cell, (rows, columns) from the north-west; together they are the probability of being in it.
    on_map: probability of being on the map at all.
    """

    west: float
    south: float
    east: float
    north: float
    values: Floats
    on_map: float


def heat_of(belief: PoseBelief, cells: int = 48) -> HeatGrid:
    """The belief on a square grid around most of it."""
    poses, world = belief.poses, belief.patches.world
    weights = np.exp(poses[WEIGHT] - poses[WEIGHT].max())
    weights *= belief.on_map / weights.sum()
    best = float(poses[X, int(weights.argmax())])
    x, y = (poses[X] - best + world / 2) % world - world / 2, poses[Y]
    (west, east), (north, south) = (_range(values, weights) for values in (x, y))
    side = max(east - west, south - north, LEAST_TILES) * 1.1
    west, north = 0.5 * (west + east - side), 0.5 * (north + south - side)
    edges = np.linspace(0.0, side, cells + 1)
    values, _, _ = np.histogram2d(y - north, x - west, (edges, edges), weights=weights)
    lats, lons = geo.from_tile_coordinates(
        np.array([west + best, west + best + side]), np.array([north, north + side]), belief.patches.zoom
    )
    lons = geo.wrap_longitude(lons)
    return HeatGrid(float(lons[0]), float(lats[1]), float(lons[1]), float(lats[0]), values, belief.on_map)


def _range(values: Floats, weights: Floats) -> tuple[float, float]:
    """Between which values most of the weight lies."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    left = 0.5 * (1.0 - SHARE_SHOWN) * total[-1]
    first, last = np.searchsorted(total, [left, total[-1] - left])
    return float(values[order[first]]), float(values[order[min(int(last), len(order) - 1)]])
