"""The plan of a town: neighbourhoods, the roads between and inside them, a river.

Arterials are the borders of a Voronoi diagram of neighbourhoods; each neighbourhood has its own grid of streets,
cut at the arterials. Everything is then bent by one smooth field, so that no street is quite straight.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from x2localizer.town.columns import WAVE
from x2localizer.town.districts import DASHED, SOLID, YELLOW, District, draw_districts
from x2localizer.town.noise import stream
from x2localizer.town.place import Place, distance_to
from x2localizer.types import Floats

STEP_M = 12.0
"""Distance between the points of a road's polyline."""


@dataclass(frozen=True, slots=True, eq=False)
class Road:
    """A piece of road between two junctions; ``points`` (k, 2) in map metres run from node ``a`` to node ``b``."""

    a: int
    b: int
    points: Floats
    half_width: float  # of the asphalt
    pavement: float  # width of the sidewalk on either side
    arterial: bool
    marking: int
    bridge: bool

    @property
    def length_m(self) -> float:
        """Length along the polyline."""
        return float(np.hypot(*np.diff(self.points, axis=0).T).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Everything that is decided before the first pixel."""

    seed: int
    place: Place
    sites: Floats  # (n, 2) before bending
    districts: tuple[District, ...]
    nodes: Floats  # (m, 2) junctions
    roads: tuple[Road, ...]
    river: Floats | None  # (k, 2) polyline
    river_half_m: float
    bend: Floats  # (waves, len(WAVE)) the field that bends the plan


@dataclass(frozen=True, slots=True)
class _Line:
    """A straight road before cutting: its ends, and the points on it where other roads meet it."""

    start: Floats
    end: Floats
    arterial: bool
    district: int


def bend_at(points: Floats, bend: Floats) -> Floats:
    """The displacement in metres that bends the plan at points (k, 2)."""
    phase = points @ bend[:, : WAVE.phase].T + bend[:, WAVE.phase]
    return np.asarray(np.sin(phase) @ bend[:, WAVE.shift_x :], np.float64)


def draw_plan(seed: int, place: Place) -> Plan:
    """The plan for a seed."""
    size = place.size_m
    rng = stream(seed, "plan")
    sites = _sites(rng, size)
    districts = draw_districts(stream(seed, "districts"), sites, size)
    cells = [_voronoi_cell(sites, i, size) for i in range(len(sites))]
    bend = _bend(rng)
    river, river_half = _river(stream(seed, "river"), size)
    lines = _arterials(cells) + [line for i, cell in enumerate(cells) for line in _streets(rng, cell, districts[i], i)]
    nodes, pieces = _cut(lines)
    nodes, pieces = _thin_out(rng, nodes, pieces)
    roads = _bent_roads(rng, nodes, pieces, lines, districts, bend, river, river_half, size)
    return Plan(seed, place, sites, districts, nodes + bend_at(nodes, bend), roads, river, river_half, bend)


def _sites(rng: np.random.Generator, size: float) -> Floats:
    """Centres of neighbourhoods about 340 m apart, a jittered grid that reaches beyond the border."""
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


def _arterials(cells: list[Floats]) -> list[_Line]:
    """The borders of neighbourhoods, each once; two cells share a border with the ends swapped."""
    seen: set[tuple[int, ...]] = set()
    lines = []
    for cell in cells:
        for p, q in zip(cell, np.roll(cell, -1, axis=0), strict=True):
            if np.hypot(*(q - p)) < 30.0:
                continue
            key = tuple(sorted((tuple(np.round(p / 4).astype(int)), tuple(np.round(q / 4).astype(int)))))
            flat = tuple(int(v) for end in key for v in end)
            if flat not in seen:
                seen.add(flat)
                lines.append(_Line(p, q, True, -1))
    return lines


def _streets(rng: np.random.Generator, cell: Floats, district: District, index: int) -> list[_Line]:
    """Two families of parallel streets inside a neighbourhood."""
    if district.kind.spacing is None or len(cell) < 3:
        return []
    lines = []
    for family in (0, 1):
        angle = district.angle + family * np.pi / 2
        along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
        reach = cell @ across
        at = reach.min() + district.spacing[family] * rng.uniform(0.45, 0.75)
        while at < reach.max() - 35.0:
            for shift in (0.0, 18.0, -18.0):  # a line that would meet a corner moves aside
                line = _chord(cell, along, across, at + shift)
                if line is not None:
                    lines.append(_Line(line[0], line[1], False, index))
                    break
            at += district.spacing[family] * rng.uniform(0.85, 1.15)
    return lines


def _chord(cell: Floats, along: Floats, across: Floats, at: float) -> Floats | None:
    """Where a line crosses a convex cell; None if too short or too near a corner or border."""
    hits = []
    for p, q in zip(cell, np.roll(cell, -1, axis=0), strict=True):
        dp, dq = float(across @ p) - at, float(across @ q) - at
        if dp * dq < 0:
            hit = p + (q - p) * (dp / (dp - dq))
            if min(np.hypot(*(hit - p)), np.hypot(*(hit - q))) < 28.0:
                return None
            hits.append(hit)
    if len(hits) != 2 or np.hypot(*(hits[1] - hits[0])) < 60.0:
        return None
    border = np.vstack([cell, cell[:1]])
    middle = (hits[0] + hits[1]) / 2
    if float(distance_to(border, middle[None])[0]) < 32.0:
        return None
    hits.sort(key=lambda hit: float(along @ hit))
    return np.array(hits)


class _Nodes:
    """Junctions; points closer than a tolerance become one."""

    def __init__(self) -> None:
        self.points: list[Floats] = []

    def find(self, point: Floats, tolerance: float) -> int:
        """The index of the junction at a point, made if there is none near."""
        if self.points:
            distance = np.hypot(*(np.array(self.points) - point).T)
            nearest = int(np.argmin(distance))
            if distance[nearest] < tolerance:
                return nearest
        self.points.append(np.asarray(point, np.float64))
        return len(self.points) - 1


def _cut(lines: list[_Line]) -> tuple[Floats, list[tuple[int, int, int]]]:
    """Cut lines where they meet; gives junctions and pieces (node a, node b, line)."""
    nodes = _Nodes()
    on_line: list[list[int]] = [[] for _ in lines]
    arterials = [i for i, line in enumerate(lines) if line.arterial]
    for i in arterials:
        on_line[i] += [nodes.find(lines[i].start, 20.0), nodes.find(lines[i].end, 20.0)]
    starts = np.array([lines[i].start for i in arterials])
    steps = np.array([lines[i].end - lines[i].start for i in arterials])
    for i, line in enumerate(lines):
        if line.arterial:
            continue
        for end in (line.start, line.end):
            share = np.clip(((end - starts) * steps).sum(1) / (steps**2).sum(1), 0, 1)
            distance = np.hypot(*(starts + share[:, None] * steps - end).T)
            node = nodes.find(end, 18.0)
            on_line[i].append(node)
            on_line[arterials[int(np.argmin(distance))]].append(node)
        for j in range(i):
            other = lines[j]
            if other.district == line.district and (hit := _crossing(line, other)) is not None:
                node = nodes.find(hit, 10.0)
                on_line[i].append(node)
                on_line[j].append(node)
    points = np.array(nodes.points)
    pieces: dict[tuple[int, int], int] = {}
    for i, line in enumerate(lines):
        along = points @ (line.end - line.start)
        order = sorted(set(on_line[i]), key=along.tolist().__getitem__)
        for a, b in pairwise(order):
            pieces.setdefault((min(a, b), max(a, b)), i)
    return points, [(a, b, i) for (a, b), i in pieces.items()]


def _crossing(p: _Line, q: _Line) -> Floats | None:
    """The point where two lines cross, if they do."""
    u, v, w = p.end - p.start, q.end - q.start, q.start - p.start
    cross = u[0] * v[1] - u[1] * v[0]
    if abs(cross) < 1e-6:
        return None
    s, t = (w[0] * v[1] - w[1] * v[0]) / cross, (w[0] * u[1] - w[1] * u[0]) / cross
    return np.asarray(p.start + s * u, np.float64) if 0 <= s <= 1 and 0 <= t <= 1 else None


def _thin_out(
    rng: np.random.Generator, nodes: Floats, pieces: list[tuple[int, int, int]]
) -> tuple[Floats, list[tuple[int, int, int]]]:
    """Drop some pieces between full crossroads, so that blocks differ in size and not all junctions have 4 arms."""
    degree = np.zeros(len(nodes), int)
    for a, b, _ in pieces:
        degree[a] += 1
        degree[b] += 1
    kept = []
    for a, b, line in pieces:
        if degree[a] == 4 and degree[b] == 4 and rng.uniform() < 0.2:
            degree[a] -= 1
            degree[b] -= 1
        else:
            kept.append((a, b, line))
    return nodes, kept


def _bend(rng: np.random.Generator) -> Floats:
    """Waves 350 to 900 m long that together move a place by some 15 m."""
    waves = []
    for _ in range(5):
        wave, direction = rng.uniform(350, 900), rng.uniform(0, 2 * np.pi)
        push = rng.uniform(0, 2 * np.pi)
        amplitude = rng.uniform(0.004, 0.016) * wave
        k = 2 * np.pi / wave
        waves.append(
            (k * np.cos(direction), k * np.sin(direction), rng.uniform(0, 2 * np.pi),
             amplitude * np.cos(push), amplitude * np.sin(push))
        )  # fmt: skip
    return np.array(waves)


def _river(rng: np.random.Generator, size: float) -> tuple[Floats | None, float]:
    """A winding river through six towns of ten."""
    if rng.uniform() > 0.6:
        return None, 0.0
    angle = rng.uniform(0, np.pi)
    along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    at = np.linspace(-0.9 * size, 0.9 * size, 160)
    sway = np.zeros(len(at))
    for _ in range(3):
        sway += rng.uniform(25, 90) * np.sin(2 * np.pi * at / rng.uniform(600, 1600) + rng.uniform(0, 6.3))
    middle = np.array([size, size]) / 2 + across * rng.uniform(-0.3, 0.3) * size
    return np.asarray(middle + at[:, None] * along + sway[:, None] * across), float(rng.uniform(12, 26))


def _bent_roads(
    rng: np.random.Generator,
    nodes: Floats,
    pieces: list[tuple[int, int, int]],
    lines: list[_Line],
    districts: tuple[District, ...],
    bend: Floats,
    river: Floats | None,
    river_half: float,
    size: float,
) -> tuple[Road, ...]:
    """Pieces as bent polylines; streets end at the river, arterials cross it on bridges."""
    arterial_half = {i: float(rng.uniform(5.8, 7.6)) for i, line in enumerate(lines) if line.arterial}
    arterial_marking = {i: int(rng.choice((DASHED, YELLOW, SOLID))) for i in arterial_half}
    roads = []
    for a, b, i in pieces:
        line = lines[i]
        count = max(2, int(np.ceil(np.hypot(*(nodes[b] - nodes[a])) / STEP_M)) + 1)
        points = nodes[a] + np.linspace(0, 1, count)[:, None] * (nodes[b] - nodes[a])
        points = points + bend_at(points, bend)
        if (
            points.max() < -60
            or points.min() > size + 60
            or np.any(points.mean(0) < -60)
            or np.any(points.mean(0) > size + 60)
        ):
            continue
        wet = 0 if river is None else int((distance_to(river, points) < river_half + 5.0).sum())
        if wet and (not line.arterial or wet * STEP_M > 2 * river_half + 70.0):
            continue
        if line.arterial:
            roads.append(Road(a, b, points, arterial_half[i], 3.0, True, arterial_marking[i], wet > 0))
        else:
            d = districts[line.district]
            roads.append(Road(a, b, points, d.half_width, d.pavement_width, False, d.marking, False))
    return _without_stubs(roads, len(nodes))


def _without_stubs(roads: list[Road], nodes: int) -> tuple[Road, ...]:
    """Without bridges that lead nowhere."""
    while True:
        degree = np.zeros(nodes, int)
        for road in roads:
            degree[road.a] += 1
            degree[road.b] += 1
        kept = [road for road in roads if not (road.bridge and min(degree[road.a], degree[road.b]) < 2)]
        if len(kept) == len(roads):
            return tuple(roads)
        roads = kept
