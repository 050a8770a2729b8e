"""The roads of a plan: straight lines, cut where they meet, thinned out and bent."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from x2localizer.town.columns import WAVE
from x2localizer.town.districts import DASHED, SOLID, YELLOW, District
from x2localizer.town.place import distance_to
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
class River:
    """A river along a polyline (k, 2) in map metres."""

    points: Floats
    half_width: float


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A straight road before it is cut; ``district`` is the neighbourhood of a street, -1 for arterials."""

    start: Floats
    end: Floats
    arterial: bool
    district: int


class Piece(NamedTuple):
    """A part of a line between two junctions, by their indices."""

    a: int
    b: int
    line: int


def bend_at(points: Floats, bend: Floats) -> Floats:
    """The displacement in metres that bends the plan at points (k, 2)."""
    phase = points @ bend[:, : WAVE.phase].T + bend[:, WAVE.phase]
    return np.asarray(np.sin(phase) @ bend[:, WAVE.shift_x :], np.float64)


def arterials(cells: list[Floats]) -> list[Line]:
    """The borders of neighbourhoods, each once; two cells share a border with the ends swapped."""
    borders: set[tuple[int, ...]] = set()
    lines = []
    for cell in cells:
        for p, q in zip(cell, np.roll(cell, -1, axis=0), strict=True):
            if np.hypot(*(q - p)) < 30.0:
                continue
            ends = sorted((tuple(np.round(p / 4).astype(int)), tuple(np.round(q / 4).astype(int))))
            border = tuple(int(v) for end in ends for v in end)
            if border not in borders:
                borders.add(border)
                lines.append(Line(p, q, True, -1))
    return lines


def streets(rng: np.random.Generator, cell: Floats, district: District, index: int) -> list[Line]:
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
                    lines.append(Line(line[0], line[1], False, index))
                    break
            at += district.spacing[family] * rng.uniform(0.85, 1.15)
    return lines


def _chord(cell: Floats, along: Floats, across: Floats, at: float) -> Floats | None:
    """The part (2, 2) of a line inside a convex cell; None if too short or too near a corner or border."""
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
    """Junctions; points closer than a tolerance share one."""

    def __init__(self) -> None:
        self.points: Floats = np.zeros((0, 2))

    def at(self, point: Floats, tolerance: float) -> int:
        """The index of the junction within ``tolerance`` metres of a point; a new one if there is none."""
        if len(self.points):
            distance = np.hypot(*(self.points - point).T)
            nearest = int(np.argmin(distance))
            if distance[nearest] < tolerance:
                return nearest
        self.points = np.vstack([self.points, point])
        return len(self.points) - 1


def cut(lines: list[Line]) -> tuple[Floats, list[Piece]]:
    """The junctions (m, 2) where lines meet, and the pieces of the lines between them."""
    nodes = _Nodes()
    on_line: list[list[int]] = [[] for _ in lines]
    main = [i for i, line in enumerate(lines) if line.arterial]
    for i in main:
        on_line[i] += [nodes.at(lines[i].start, 20.0), nodes.at(lines[i].end, 20.0)]
    starts = np.array([lines[i].start for i in main])
    steps = np.array([lines[i].end - lines[i].start for i in main])
    for i, line in enumerate(lines):
        if line.arterial:
            continue
        for end in (line.start, line.end):
            share = np.clip(((end - starts) * steps).sum(1) / (steps**2).sum(1), 0, 1)
            distance = np.hypot(*(starts + share[:, None] * steps - end).T)
            node = nodes.at(end, 18.0)
            on_line[i].append(node)
            on_line[main[int(np.argmin(distance))]].append(node)
        for j in range(i):
            other = lines[j]
            if other.district == line.district and (hit := _crossing(line, other)) is not None:
                node = nodes.at(hit, 10.0)
                on_line[i].append(node)
                on_line[j].append(node)
    pieces: dict[tuple[int, int], int] = {}
    for i, line in enumerate(lines):
        along = nodes.points @ (line.end - line.start)
        order = sorted(set(on_line[i]), key=along.tolist().__getitem__)
        for a, b in pairwise(order):
            pieces.setdefault((min(a, b), max(a, b)), i)
    return nodes.points, [Piece(a, b, i) for (a, b), i in pieces.items()]


def _crossing(p: Line, q: Line) -> Floats | None:
    """The point where two lines cross, if they do."""
    u, v, w = p.end - p.start, q.end - q.start, q.start - p.start
    cross = u[0] * v[1] - u[1] * v[0]
    if abs(cross) < 1e-6:
        return None
    s, t = (w[0] * v[1] - w[1] * v[0]) / cross, (w[0] * u[1] - w[1] * u[0]) / cross
    return np.asarray(p.start + s * u, np.float64) if 0 <= s <= 1 and 0 <= t <= 1 else None


def thin_out(rng: np.random.Generator, pieces: list[Piece], nodes: int) -> list[Piece]:
    """Without some pieces between full crossroads, so that blocks differ in size and some junctions have 3 arms."""
    degree = np.zeros(nodes, int)
    for piece in pieces:
        degree[piece.a] += 1
        degree[piece.b] += 1
    kept = []
    for piece in pieces:
        if degree[piece.a] == 4 and degree[piece.b] == 4 and rng.uniform() < 0.2:
            degree[piece.a] -= 1
            degree[piece.b] -= 1
        else:
            kept.append(piece)
    return kept


def bent_roads(
    rng: np.random.Generator,
    nodes: Floats,
    pieces: list[Piece],
    lines: list[Line],
    districts: tuple[District, ...],
    bend: Floats,
    river: River | None,
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
        if not _near_town(points, size):
            continue
        wet_points = 0 if river is None else int((distance_to(river.points, points) < river.half_width + 5.0).sum())
        if river is not None and wet_points:
            too_long = wet_points * STEP_M > 2 * river.half_width + 70.0
            if not line.arterial or too_long:
                continue
        if line.arterial:
            roads.append(Road(a, b, points, arterial_half[i], 3.0, True, arterial_marking[i], wet_points > 0))
        else:
            d = districts[line.district]
            roads.append(Road(a, b, points, d.half_width, d.pavement_width, False, d.marking, False))
    return _without_stubs(roads, len(nodes))


def _near_town(points: Floats, size: float, margin: float = 60.0) -> bool:
    """Whether the middle of a polyline is inside the town or less than ``margin`` metres outside."""
    middle = points.mean(0)
    return bool(np.all(middle >= -margin) and np.all(middle <= size + margin))


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
