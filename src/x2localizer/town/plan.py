"""The plan of a town: neighbourhoods, the roads between and inside them, a river.

Arterials are the borders of a Voronoi diagram of neighbourhoods; each neighbourhood has its own grid of streets,
cut at the arterials. Everything is then bent by one smooth field, so that no street is quite straight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from x2localizer.town.districts import District, draw_districts
from x2localizer.town.noise import stream
from x2localizer.town.place import Place
from x2localizer.town.roads import River, Road, arterials, bend_at, bent_roads, cut, streets, thin_out
from x2localizer.types import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Everything that is decided before the first pixel."""

    seed: int
    place: Place
    sites: Floats  # (n, 2) centres of the neighbourhoods before bending
    districts: tuple[District, ...]  # one per site
    nodes: Floats  # (m, 2) junctions
    roads: tuple[Road, ...]
    river: River | None
    bend: Floats  # (waves, len(WAVE)) the field that bends the plan


def draw_plan(seed: int, place: Place) -> Plan:
    """The plan for a seed."""
    size = place.size_m
    rng = stream(seed, "plan")
    sites = _sites(rng, size)
    districts = draw_districts(stream(seed, "districts"), sites, size)
    cells = [_voronoi_cell(sites, i, size) for i in range(len(sites))]
    bend = _bend(rng)
    river = _river(stream(seed, "river"), size)
    lines = arterials(cells) + [line for i, cell in enumerate(cells) for line in streets(rng, cell, districts[i], i)]
    nodes, pieces = cut(lines)
    pieces = thin_out(rng, pieces, len(nodes))
    roads = bent_roads(rng, nodes, pieces, lines, districts, bend, river, size)
    return Plan(seed, place, sites, districts, nodes + bend_at(nodes, bend), roads, river, bend)


def _sites(rng: np.random.Generator, size: float) -> Floats:
    """Centres (n, 2) of neighbourhoods about 340 m apart: a jittered grid that reaches beyond the border."""
    step = rng.uniform(320, 380)
    count = int(np.ceil(size / step)) + 2
    grid = np.stack(np.meshgrid(np.arange(count), np.arange(count)), -1).reshape(-1, 2) - 0.5
    grid = grid + 0.5 * (np.floor(grid[:, 1:] + 0.5) % 2) * np.array([1.0, 0.0])
    return np.asarray((grid + rng.uniform(-0.33, 0.33, grid.shape)) * step, np.float64)


def _voronoi_cell(sites: Floats, index: int, size: float) -> Floats:
    """The convex polygon of places nearer to this site than to any other, clipped 400 m outside the town."""
    low, high = -400.0, size + 400.0
    polygon = np.array([[low, low], [high, low], [high, high], [low, high]])
    for other in np.argsort(((sites - sites[index]) ** 2).sum(1))[1:25]:
        normal = sites[other] - sites[index]
        polygon = _clip(polygon, normal, float(normal @ (sites[other] + sites[index]) / 2))
    return polygon


def _clip(polygon: Floats, normal: Floats, limit: float) -> Floats:
    """The part of a convex polygon where ``normal . p <= limit``."""
    kept = []
    for p, q in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        dp, dq = float(normal @ p) - limit, float(normal @ q) - limit
        if dp <= 0:
            kept.append(p)
        if dp * dq < 0:
            kept.append(p + (q - p) * (dp / (dp - dq)))
    return np.array(kept).reshape(-1, 2)


def _bend(rng: np.random.Generator) -> Floats:
    """Waves of 350 to 900 m that together move a place by some 15 m."""
    waves = []
    for _ in range(5):
        length, direction = rng.uniform(350, 900), rng.uniform(0, 2 * np.pi)
        push = rng.uniform(0, 2 * np.pi)
        amplitude = rng.uniform(0.004, 0.016) * length
        k = 2 * np.pi / length
        phase = rng.uniform(0, 2 * np.pi)
        waves.append(
            (k * np.cos(direction), k * np.sin(direction), phase, amplitude * np.cos(push), amplitude * np.sin(push))
        )
    return np.array(waves)


def _river(rng: np.random.Generator, size: float) -> River | None:
    """A winding river, in six towns of ten."""
    if rng.uniform() > 0.6:
        return None
    angle = rng.uniform(0, np.pi)
    along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    at = np.linspace(-0.9 * size, 0.9 * size, 160)
    sway = np.zeros(len(at))
    for _ in range(3):
        sway += rng.uniform(25, 90) * np.sin(2 * np.pi * at / rng.uniform(600, 1600) + rng.uniform(0, 6.3))
    middle = np.array([size, size]) / 2 + across * rng.uniform(-0.3, 0.3) * size
    return River(np.asarray(middle + at[:, None] * along + sway[:, None] * across), float(rng.uniform(12, 26)))
