"""Kernels of the belief: move poses, weigh them, draw them again, and find where most of them are.

Poses lie in one array, (POSE, n). Random numbers come from a hash of a seed and the pose's number, so a run is the same
each time.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from x2localizer.compiled import compiled, inlined
from x2localizer.types import Floats

Float32 = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]

# Rows of the array of poses.
X: Final = 0  # column in tiles
Y: Final = 1  # row in tiles
HEADING: Final = 2  # radians clockwise from north
SCALE: Final = 3  # metres per metre of odometry
BIAS: Final = 4  # of the odometry's yaw rate, radians per second
WEIGHT: Final = 5  # logarithm of the weight
TRUST: Final = 6  # 1 if this pose believes the tiles, 0 if not
POSE: Final = 7

NEAR_ROADS: Final = 16
"""Cells of the field of roads along the side of a tile."""
ROAD_STEP_M: Final = 0.25
"""What one step of a distance in the field of roads is worth."""
FAINT: Final = 9.0
"""Poses whose log-weight is so far below the best are left out of means."""
NOWHERE: Final = -1e9
"""Instead of a value off the map; kernels know no NaN."""
HALVES: Final = 2
"""Cells of the field of tiles along the side of a tile."""


@inlined
def _bits(seed: int, i: int, k: int) -> np.uint64:
    """64 pseudo-random bits."""
    value = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(i) * np.uint64(0xBF58476D1CE4E5B9)
    value += np.uint64(k + 1) * np.uint64(0x94D049BB133111EB)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@inlined
def _uniform(seed: int, i: int, k: int) -> float:
    """A pseudo-random number in (0, 1)."""
    return (float(_bits(seed, i, k) >> np.uint64(11)) + 0.5) / 9007199254740992.0


@inlined
def _normal(seed: int, i: int, k: int) -> float:
    """A pseudo-random number of mean 0 and variance 1: the sum of four uniform ones, nearly normal and far cheaper."""
    bits, low = _bits(seed, i, k), np.uint64(0xFFFF)
    total = (bits & low) + ((bits >> np.uint64(16)) & low) + ((bits >> np.uint64(32)) & low) + (bits >> np.uint64(48))
    return (float(total) - 131070.0) / 37837.227  # 65536 / sqrt(3)


@inlined
def _wrap(x: float, world: float) -> float:
    """A column, or a difference of columns, brought back onto the globe; a remainder would take as long as a sine."""
    if x < 0.0:
        x += world
    elif x >= world:
        x -= world
    return x


@compiled
def move(
    poses: Floats, distance_m: float, turn_rad: float, seconds: float, distance_sd: float, turn_sd: float,
    tile_equator_m: float, world: float, seed: int,
) -> None:  # fmt: skip
    """Move every pose along its odometry; those at the end of a turn have turned by half of it on the way."""
    near, sine, cosine = np.inf, 0.0, 0.0  # of a row close by, so that few need the functions themselves
    for i in range(poses.shape[1]):
        turn = turn_rad - poses[BIAS, i] * seconds + turn_sd * _normal(seed, i, 0)
        length = distance_m * poses[SCALE, i] + distance_sd * _normal(seed, i, 1)
        away = 2.0 * np.pi * (poses[Y, i] - near) / world
        if not abs(away) < 1e-3:
            near, away = poses[Y, i], 0.0
            angle = np.pi * (1.0 - 2.0 * near / world)
            sine, cosine = np.sinh(angle), np.cosh(angle)
        tiles = length * (cosine * (1.0 + 0.5 * away * away) - sine * away) / tile_equator_m
        middle = poses[HEADING, i] + 0.5 * turn
        poses[X, i] = _wrap(poses[X, i] + tiles * np.sin(middle), world)
        poses[Y, i] -= tiles * np.cos(middle)
        poses[HEADING, i] += turn


ANGLES: Final = 256
"""Directions of roads, over half a turn."""


def road_values(sigma_m: float, sigma_rad: float, floor: float, off_road: float) -> Float32:
    """The logarithm of how well a pose fits a road, by distance in steps and by the angle between them, (256, 256).

    1 on a road and along it; at least ``floor`` of that across it; ``off_road`` far from any.
    """
    away = np.exp(-0.5 * (np.arange(256) * ROAD_STEP_M / sigma_m) ** 2)
    away[255] = 0.0
    angle = np.arange(ANGLES) * (np.pi / ANGLES)
    along = np.maximum(np.exp(-0.5 * (np.minimum(angle, np.pi - angle) / sigma_rad) ** 2), floor)
    return np.asarray(np.log(off_road + (1.0 - off_road) * away[:, None] * along), np.float32)


@compiled
def weigh_roads(
    poses: Floats, patch: Int32, corners: Int64, offsets: Int64, field: UInt8, world: float, values: Float32,
    level: float, power: float, top: float,
) -> float:  # fmt: skip
    """Weigh poses by the roads; returns their mean gain, by the weights before, which are at most ``top``.

    values: see :func:`road_values`; the better of the two roads of a cell counts.
    level: the logarithm of what a place off the map counts as.
    """
    gain, mass = 0.0, 1e-300
    for i in range(poses.shape[1]):
        p = patch[i]
        columns = corners[p, 2] * NEAR_ROADS
        column = int(_wrap(poses[X, i] - corners[p, 0], world) * NEAR_ROADS)
        row = int(np.floor((poses[Y, i] - corners[p, 1]) * NEAR_ROADS))
        value = 0.0
        if 0 <= column < columns and 0 <= row < corners[p, 3] * NEAR_ROADS:
            cell = offsets[p] + row * columns + column
            heading = int(np.rint(poses[HEADING, i] * (ANGLES / np.pi)))
            first = values[field[cell, 0], (heading - field[cell, 1]) & (ANGLES - 1)]
            other = values[field[cell, 2], (heading - field[cell, 3]) & (ANGLES - 1)]
            value = max(first, other) - level
        before = poses[WEIGHT, i]
        poses[WEIGHT, i] = before + power * value
        if before > top - FAINT:
            share = np.exp(before - top)
            gain += share * value
            mass += share
    return gain / mass


@inlined
def _tile_value(
    x: float, y: float, heading: float, patch: int, corners: Int64, offsets: Int64, values: Float32, world: float
) -> float:
    """A value of the tiles around a place, interpolated between tiles at half stride and between headings.

    NOWHERE off the patch.
    """
    u = _wrap(x - corners[patch, 0], world) * HALVES - 1.0
    v = (y - corners[patch, 1]) * HALVES - 1.0
    columns, rows = corners[patch, 2] * HALVES, corners[patch, 3] * HALVES
    if u < 0.0 or v < 0.0 or u >= columns - 1 or v >= rows - 1:
        return NOWHERE
    c, r = int(u), int(v)
    fu, fv = u - c, v - r
    at = offsets[patch] + r * columns + c
    headings = values.shape[1]
    turned = heading * (headings / (2.0 * np.pi))
    first = int(np.floor(turned))
    fh = turned - first
    first %= headings
    second = first + 1 if first + 1 < headings else 0
    total = 0.0
    for h, share in ((first, 1.0 - fh), (second, fh)):
        top = values[at, h] * (1.0 - fu) + values[at + 1, h] * fu
        low = values[at + columns, h] * (1.0 - fu) + values[at + columns + 1, h] * fu
        total += share * (top * (1.0 - fv) + low * fv)
    return float(total)


@compiled
def weigh_tiles(
    poses: Floats, patch: Int32, corners: Int64, offsets: Int64, values: Float32, world: float, power: float,
    top: float,
) -> float:  # fmt: skip
    """Weigh poses by what the tiles say of a frame, except those that do not trust them or are off the map.

    values: by cell and heading, (cells, headings).

    Returns the mean gain of those that trust them, by the weights before, which are at most ``top``.
    """
    gain, mass = 0.0, 1e-300
    for i in range(poses.shape[1]):
        if poses[TRUST, i] > 0.5:
            value = _tile_value(poses[X, i], poses[Y, i], poses[HEADING, i], patch[i], corners, offsets, values, world)
            if value > NOWHERE:
                before = poses[WEIGHT, i]
                poses[WEIGHT, i] = before + power * value
                if before > top - FAINT:
                    share = np.exp(before - top)
                    gain += share * value
                    mass += share
    return gain / mass


WIDER: Final = 0.2
MOST_COPIES: Final = 20
"""How much further each copy of a pose is scattered in scale and bias: many copies are few different ones."""


@compiled
def draw_again(poses: Floats, patch: Int32, cumulative: Floats, spread: Floats, out: Floats, out_patch: Int32,
               tile_equator_m: float, world: float, seed: int) -> None:  # fmt: skip
    """Draw poses in proportion to their weights, evenly spaced, and scatter them a little.

    spread: deviations in metres, radians, scale, bias, and the share of poses that change their mind about the tiles.
    """
    count, k = out.shape[1], 0
    last, copies = -1, 0
    start = _uniform(seed, 0, 99)
    total = cumulative[-1]
    for i in range(count):
        goal = (i + start) / count * total
        while k < len(cumulative) - 1 and cumulative[k] < goal:
            k += 1
        copies = min(copies + 1, MOST_COPIES) if k == last else 0
        last = k
        wider = 1.0 + WIDER * copies
        for row in range(POSE):
            out[row, i] = poses[row, k]
        out_patch[i] = patch[k]
        tile_m = tile_equator_m / np.cosh(np.pi * (1.0 - 2.0 * out[Y, i] / world))
        out[X, i] = _wrap(out[X, i] + spread[0] * _normal(seed, i, 0) / tile_m, world)
        out[Y, i] += spread[0] * _normal(seed, i, 1) / tile_m
        out[HEADING, i] += spread[1] * _normal(seed, i, 2)
        out[SCALE, i] *= 1.0 + wider * spread[2] * _normal(seed, i, 3)
        out[BIAS, i] += wider * spread[3] * _normal(seed, i, 4)
        if _uniform(seed, i, 50) < spread[4]:
            out[TRUST, i] = 1.0 - out[TRUST, i]
        out[WEIGHT, i] = 0.0


@compiled
def gather(
    poses: Floats, patch: Int32, weight: Floats, corners: Int64, offsets: Int64, world: float, cells: Floats
) -> float:
    """Add the weights of poses to the cells of the map at half stride; returns the weight off the map."""
    off = 0.0
    for i in range(poses.shape[1]):
        p = patch[i]
        column = int(_wrap(poses[X, i] - corners[p, 0], world) * HALVES)
        row = int(np.floor((poses[Y, i] - corners[p, 1]) * HALVES))
        if 0 <= column < corners[p, 2] * HALVES and 0 <= row < corners[p, 3] * HALVES:
            cells[offsets[p] + row * corners[p, 2] * HALVES + column] += weight[i]
        else:
            off += weight[i]
    return off


# What mean_around returns.
EAST: Final = 0  # tiles from the corner of the patch
SOUTH: Final = 1
MASS: Final = 2  # share of all weight
EAST_EAST: Final = 3  # square tiles
EAST_SOUTH: Final = 4
SOUTH_SOUTH: Final = 5
SINE: Final = 6  # of the heading
COSINE: Final = 7
MEAN_SCALE: Final = 8
AROUND: Final = 9


@compiled
def mean_around(
    poses: Floats, patch: Int32, weight: Floats, number: int, x0: float, y0: float, east: float, south: float,
    radius: float, world: float, out: Floats,
) -> None:  # fmt: skip
    """Mean and spread of the poses within a radius of a place, in tiles from the corner of its patch, into ``out``."""
    for k in range(AROUND):
        out[k] = 0.0
    for i in range(poses.shape[1]):
        if patch[i] != number or weight[i] <= 0.0:
            continue
        dx, dy = _wrap(poses[X, i] - x0, world) - east, poses[Y, i] - y0 - south
        if dx * dx + dy * dy > radius * radius:
            continue
        w = weight[i]
        out[MASS] += w
        out[EAST] += w * dx
        out[SOUTH] += w * dy
        out[EAST_EAST] += w * dx * dx
        out[EAST_SOUTH] += w * dx * dy
        out[SOUTH_SOUTH] += w * dy * dy
        out[SINE] += w * np.sin(poses[HEADING, i])
        out[COSINE] += w * np.cos(poses[HEADING, i])
        out[MEAN_SCALE] += w * poses[SCALE, i]
    total = out[MASS]
    if total > 0.0:
        for k in range(AROUND):
            if k != MASS:
                out[k] /= total
        out[EAST_EAST] -= out[EAST] * out[EAST]
        out[EAST_SOUTH] -= out[EAST] * out[SOUTH]
        out[SOUTH_SOUTH] -= out[SOUTH] * out[SOUTH]
    out[EAST] += east
    out[SOUTH] += south


@compiled
def stamp_roads(
    points: Floats, headings: Floats, patch: Int32, corners: Int64, offsets: Int64, world: float, reach_m: float,
    tile_equator_m: float, apart_rad: float, field: UInt8,
) -> None:  # fmt: skip
    """Enter points of roads into the field: distance and direction of the nearest road, and of one that crosses it."""
    for i in range(points.shape[0]):
        p = patch[i]
        if p < 0:
            continue
        cell_m = tile_equator_m / np.cosh(np.pi * (1.0 - 2.0 * points[i, 1] / world)) / NEAR_ROADS
        u = ((points[i, 0] - corners[p, 0]) % world) * NEAR_ROADS
        v = (points[i, 1] - corners[p, 1]) * NEAR_ROADS
        columns, rows = corners[p, 2] * NEAR_ROADS, corners[p, 3] * NEAR_ROADS
        angle = headings[i] % np.pi
        code = np.uint8(int(np.rint(angle * (256.0 / np.pi))) % 256)
        reach = int(reach_m / cell_m) + 1
        for r in range(max(0, int(v) - reach), min(rows, int(v) + reach + 1)):
            for c in range(max(0, int(u) - reach), min(columns, int(u) + reach + 1)):
                metres = np.hypot(c + 0.5 - u, r + 0.5 - v) * cell_m
                if metres > reach_m:
                    continue
                steps = min(int(metres / ROAD_STEP_M), 254)
                cell = offsets[p] + r * columns + c
                first = field[cell, 1] * (np.pi / 256.0)
                turn = angle - first
                turn = abs(turn - np.pi * np.rint(turn / np.pi))
                if field[cell, 0] == 255 or turn <= apart_rad:
                    if steps < field[cell, 0]:
                        field[cell, 0], field[cell, 1] = steps, code
                elif steps < field[cell, 0]:
                    field[cell, 2], field[cell, 3] = field[cell, 0], field[cell, 1]
                    field[cell, 0], field[cell, 1] = steps, code
                elif steps < field[cell, 2]:
                    field[cell, 2], field[cell, 3] = steps, code
