"""The rasters of a town: where the roads are, what the ground is, what stands on it and how high.

Pixel (row, column) covers map metres [column, column + 1) * metres_per_pixel to the east and likewise to the south.
Distances to roads are smooth fields, not painted pixels, so that kerbs and lane markings are sharp at any distance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from x2localizer.compiled import compiled
from x2localizer.town.columns import ROAD, SEGMENT, WAVE, X, Y
from x2localizer.town.districts import BANK, PARK, SURFACES, WATER, District
from x2localizer.town.noise import smooth_noise
from x2localizer.town.plan import Plan
from x2localizer.town.roads import Road
from x2localizer.types import Floats

FIELD_UNIT_M = 0.02
"""Unit of the int16 fields of distances to roads."""
FAR = 30000
"""Distance to the nearest road where none is near."""
ZONE_STEP = 4
"""The zone raster is this many times coarser than the others."""

Int16 = npt.NDArray[np.int16]
UInt16 = npt.NDArray[np.uint16]
UInt8 = npt.NDArray[np.uint8]
Float32 = npt.NDArray[np.float32]


class Layers(NamedTuple):
    """Everything that colours the ground. A named tuple, because kernels take those as they are."""

    metres_per_pixel: float
    nearest_road: Int16  # (H, W) index of the nearest road, -1 where none is near
    margin: Int16  # (H, W) distance to its asphalt in units of FIELD_UNIT_M, negative on it
    lateral: Int16  # (H, W) distance from its centre line in the same units, positive to the right
    along: Int16  # (H, W) distance along it from its first junction in the same units
    surface: UInt8  # (H, W) see LAWN and its siblings
    zone: UInt8  # (H / ZONE_STEP, W / ZONE_STEP) index of the neighbourhood
    owner: UInt16  # (H, W) 1 + index of the box that covers the pixel, 0 for none
    height: UInt16  # (H, W) height of the highest thing in decimetres
    roads: Float32  # (roads, len(ROAD))
    street_axis: Float32  # (districts, 2) unit vector along the streets of each neighbourhood


def road_table(roads: tuple[Road, ...], nodes: int) -> Float32:
    """Roads as rows of a table, (roads, len(ROAD)); ``nodes`` is the number of junctions."""
    arms: list[list[Road]] = [[] for _ in range(nodes)]
    for road in roads:
        arms[road.a].append(road)
        arms[road.b].append(road)
    table = np.zeros((max(1, len(roads)), len(ROAD)), np.float32)
    for i, road in enumerate(roads):
        clear = []
        for node in (road.a, road.b):
            others = [arm.half_width for arm in arms[node] if arm is not road]
            clear.append(max(others) + 2.0 if len(others) >= 2 else 0.0)
        table[i] = (
            road.half_width, road.marking, road.length_m, clear[0], clear[1], road.pavement,
            road.arterial, road.bridge,
        )  # fmt: skip
    return table


def _segments(roads: tuple[Road, ...]) -> Float32:
    """The straight pieces of all roads, (pieces, len(SEGMENT))."""
    rows = []
    for i, road in enumerate(roads):
        at = 0.0
        for (x0, y0), (x1, y1) in zip(road.points[:-1], road.points[1:], strict=True):
            rows.append((x0, y0, x1, y1, at, road.half_width, i))
            at += float(np.hypot(x1 - x0, y1 - y0))
    return np.array(rows, np.float32).reshape(-1, len(SEGMENT))


@compiled
def _stamp_roads(
    segments: Float32, mpp: float, reach: float, nearest_road: Int16, margin: Int16, lateral: Int16, along: Int16
) -> None:
    """Write the fields of distances to roads, up to ``reach`` metres from the asphalt."""
    rows, columns = nearest_road.shape
    for k in range(segments.shape[0]):
        x0, y0 = segments[k, SEGMENT.x0], segments[k, SEGMENT.y0]
        x1, y1 = segments[k, SEGMENT.x1], segments[k, SEGMENT.y1]
        start, half, road = segments[k, SEGMENT.start], segments[k, SEGMENT.half_width], segments[k, SEGMENT.road]
        dx, dy = x1 - x0, y1 - y0
        length = max(np.sqrt(dx * dx + dy * dy), 1e-3)
        ux, uy = dx / length, dy / length
        wide = half + reach
        c0 = max(0, int((min(x0, x1) - wide) / mpp))
        c1 = min(columns, int((max(x0, x1) + wide) / mpp) + 1)
        r0 = max(0, int((min(y0, y1) - wide) / mpp))
        r1 = min(rows, int((max(y0, y1) + wide) / mpp) + 1)
        for r in range(r0, r1):
            py = (r + 0.5) * mpp - y0
            for c in range(c0, c1):
                px = (c + 0.5) * mpp - x0
                t = px * ux + py * uy
                clamped = min(max(t, 0.0), length)
                side = ux * py - uy * px
                ex, ey = px - clamped * ux, py - clamped * uy
                distance = np.sqrt(ex * ex + ey * ey)
                value = (distance - half) / FIELD_UNIT_M
                if distance - half < reach and value < margin[r, c]:
                    margin[r, c] = np.int16(value)
                    lateral[r, c] = np.int16((distance if side >= 0 else -distance) / FIELD_UNIT_M)
                    along[r, c] = np.int16(min((start + clamped) / FIELD_UNIT_M, 32767.0))
                    nearest_road[r, c] = np.int16(road)


@compiled
def _zones(sites: Floats, bend: Floats, mpp: float, zone: UInt8) -> None:
    """Write the neighbourhood whose site is nearest, before bending, to each pixel."""
    rows, columns = zone.shape
    for r in range(rows):
        for c in range(columns):
            x, y = (c + 0.5) * mpp, (r + 0.5) * mpp
            px, py = x, y
            for w in range(bend.shape[0]):
                wave = np.sin(x * bend[w, WAVE.vector_x] + y * bend[w, WAVE.vector_y] + bend[w, WAVE.phase])
                px -= wave * bend[w, WAVE.shift_x]
                py -= wave * bend[w, WAVE.shift_y]
            best, nearest = 1e18, 0
            for i in range(sites.shape[0]):
                d = (sites[i, X] - px) ** 2 + (sites[i, Y] - py) ** 2
                if d < best:
                    best, nearest = d, i
            zone[r, c] = nearest


@compiled
def _ground(zone: UInt8, ground: UInt8, margin: Int16, mpp: float, seed: int, surface: UInt8) -> None:
    """Write the surface of open ground, with ponds in the parks; ``ground`` is that of each neighbourhood."""
    rows, columns = surface.shape
    for r in range(rows):
        for c in range(columns):
            kind = ground[zone[r // ZONE_STEP, c // ZONE_STEP]]
            if kind == PARK and margin[r, c] * FIELD_UNIT_M > 9.0:
                pond = smooth_noise(c * mpp / 75.0, r * mpp / 75.0, seed)
                if pond > 0.80:
                    kind = WATER
                elif pond > 0.785:
                    kind = BANK
            surface[r, c] = kind


@compiled
def _stamp_river(line: Floats, half: float, mpp: float, seed: int, surface: UInt8) -> None:
    """Write water and its banks along a polyline (k, 2)."""
    rows, columns = surface.shape
    wide = half + 9.0
    for k in range(line.shape[0] - 1):
        x0, y0 = line[k, X], line[k, Y]
        dx, dy = line[k + 1, X] - x0, line[k + 1, Y] - y0
        length2 = dx * dx + dy * dy
        c0 = max(0, int((min(x0, x0 + dx) - wide) / mpp))
        c1 = min(columns, int((max(x0, x0 + dx) + wide) / mpp) + 1)
        r0 = max(0, int((min(y0, y0 + dy) - wide) / mpp))
        r1 = min(rows, int((max(y0, y0 + dy) + wide) / mpp) + 1)
        for r in range(r0, r1):
            for c in range(c0, c1):
                px, py = (c + 0.5) * mpp - x0, (r + 0.5) * mpp - y0
                t = min(max((px * dx + py * dy) / length2, 0.0), 1.0)
                distance = np.sqrt((px - t * dx) ** 2 + (py - t * dy) ** 2)
                shore = half + 3.0 * (smooth_noise((c * mpp) / 11.0, (r * mpp) / 11.0, seed) - 0.5)
                if distance < shore:
                    surface[r, c] = WATER
                elif distance < shore + 3.5 and surface[r, c] != WATER:
                    surface[r, c] = BANK


def empty_layers(plan: Plan, pixels_per_tile: int) -> Layers:
    """Rasters with roads, neighbourhoods, ground and water; nothing is built yet."""
    side = plan.place.tiles * pixels_per_tile
    mpp = plan.place.tile_m / pixels_per_tile
    nearest_road = np.full((side, side), -1, np.int16)
    margin = np.full((side, side), FAR, np.int16)
    lateral = np.zeros((side, side), np.int16)
    along = np.zeros((side, side), np.int16)
    _stamp_roads(_segments(plan.roads), mpp, 12.0, nearest_road, margin, lateral, along)
    coarse = -(-side // ZONE_STEP)
    zone = np.zeros((coarse, coarse), np.uint8)
    _zones(plan.sites, plan.bend, mpp * ZONE_STEP, zone)
    surface = np.zeros((side, side), np.uint8)
    ground = np.array([d.kind.ground for d in plan.districts], np.uint8)
    _ground(zone, ground, margin, mpp, plan.seed, surface)
    if plan.river is not None:
        _stamp_river(plan.river.points, plan.river.half_width, mpp, plan.seed, surface)
    angles = np.array([d.angle for d in plan.districts])
    street_axis = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
    return Layers(
        metres_per_pixel=mpp,
        nearest_road=nearest_road,
        margin=margin,
        lateral=lateral,
        along=along,
        surface=surface,
        zone=zone,
        owner=np.zeros((side, side), np.uint16),
        height=np.zeros((side, side), np.uint16),
        roads=road_table(plan.roads, len(plan.nodes)),
        street_axis=street_axis,
    )


def district_at(plan: Plan, layers: Layers, x: float, y: float) -> District | None:
    """The neighbourhood at a place in map metres, or None off the map."""
    step = layers.metres_per_pixel * ZONE_STEP
    c, r = int(x // step), int(y // step)
    if not (0 <= r < layers.zone.shape[0] and 0 <= c < layers.zone.shape[1]):
        return None
    return plan.districts[int(layers.zone[r, c])]


def palette(plan: Plan) -> Float32:
    """Colours of the ground in summer, (districts, SURFACES, 3)."""
    colours = np.array([d.colours for d in plan.districts], np.float32)
    return colours.reshape(len(plan.districts), SURFACES, 3)
