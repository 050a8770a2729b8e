"""Routes: a walk over the road graph, the lane that is driven, and how fast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from x2localizer.town.boxes import along_road
from x2localizer.town.plan import Plan, Road
from x2localizer.types import Floats

STEP_M = 0.5
"""Distance between the points of a lane."""
SHARPEST = 0.7
"""Cosine of the narrowest angle between two arms that a car turns into: it does not turn back on itself."""
Bounds = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """The lane a car follows: points (k, 2) in map metres every STEP_M, with what limits its speed."""

    lane: Floats
    centre: Floats  # (k, 2) the middle of the road beside each point
    limit: Floats  # (k,) metres per second
    stops: Floats  # distances along the lane of the stop lines

    @property
    def length_m(self) -> float:
        """Length of the lane."""
        return (len(self.lane) - 1) * STEP_M


def draw_route(rng: np.random.Generator, plan: Plan, bounds: Bounds, length_m: float, least_m: float) -> Route | None:
    """A route of about a length that stays inside map metres (x0, y0, x1, y1).

    The longest of some tries; None if not even ``least_m`` can be driven there.
    """
    x0, y0, x1, y1 = bounds
    allowed = [
        i
        for i, road in enumerate(plan.roads)
        if road.points[:, 0].min() > x0 and road.points[:, 0].max() < x1
        and road.points[:, 1].min() > y0 and road.points[:, 1].max() < y1
    ]  # fmt: skip
    if not allowed:
        allowed = [i for i, road in enumerate(plan.roads) if _middle_inside(road, bounds)]
    best: Route | None = None
    for _ in range(24):
        walk = _walk(rng, plan, allowed, length_m + 30.0)
        if not walk:
            return None
        route = _clip(_lane(rng, plan, walk), bounds, length_m, rng)
        if route is not None and (best is None or route.length_m > best.length_m):
            best = route
        if best is not None and best.length_m >= length_m - 1.0:
            break
    return best if best is not None and best.length_m >= least_m else None


def _middle_inside(road: Road, bounds: Bounds) -> bool:
    x0, y0, x1, y1 = bounds
    inside = (road.points[:, 0] > x0) & (road.points[:, 0] < x1) & (road.points[:, 1] > y0) & (road.points[:, 1] < y1)
    return bool(inside.mean() > 0.4)


def _walk(rng: np.random.Generator, plan: Plan, allowed: list[int], length_m: float) -> list[tuple[int, bool]]:
    """Roads one after the other with their direction (True: from a to b), never turning back, seldom twice."""
    if not allowed:
        return []
    arms: dict[int, list[tuple[int, bool]]] = {}
    for i in allowed:
        arms.setdefault(plan.roads[i].a, []).append((i, True))
        arms.setdefault(plan.roads[i].b, []).append((i, False))
    lengths = np.array([plan.roads[i].length_m for i in allowed])
    first = allowed[int(rng.choice(len(allowed), p=lengths / lengths.sum()))]
    walk = [(first, bool(rng.integers(2)))]
    visits = {first: 1}
    total = plan.roads[first].length_m
    while total < length_m:
        road, forward = walk[-1]
        node = plan.roads[road].b if forward else plan.roads[road].a
        heading = _leaving(plan, road, not forward)
        options = [arm for arm in arms[node] if arm[0] != road and float(_leaving(plan, *arm) @ heading) < SHARPEST]
        if not options:
            break
        weights = np.array([0.15 ** visits.get(arm[0], 0) for arm in options])
        choice = options[int(rng.choice(len(options), p=weights / weights.sum()))]
        walk.append(choice)
        visits[choice[0]] = visits.get(choice[0], 0) + 1
        total += plan.roads[choice[0]].length_m
    return walk


def _leaving(plan: Plan, road: int, forward: bool) -> Floats:
    """Unit direction in which a road leaves its first node (or its last, if not forward)."""
    points = plan.roads[road].points
    step = points[1] - points[0] if forward else points[-2] - points[-1]
    return np.asarray(step / np.hypot(*step))


def _smooth(values: Floats, window: int) -> Floats:
    """Moving average along the first axis; the ends keep their place."""
    half = window // 2
    if half < 1 or len(values) < 3:
        return values
    if len(values) > half + 1:  # the ends go on point-symmetrically, so a straight end stays straight
        before, after = 2 * values[:1] - values[half:0:-1], 2 * values[-1:] - values[-2 : -half - 2 : -1]
        padded = np.concatenate([before, values, after])
    else:
        padded = np.pad(values, [(half, half)] + [(0, 0)] * (values.ndim - 1), mode="edge")
    total = np.cumsum(np.concatenate([np.zeros_like(padded[:1]), padded]), axis=0)
    width = 2 * half + 1
    return np.asarray((total[width:] - total[:-width]) / width)


def _lane(rng: np.random.Generator, plan: Plan, walk: list[tuple[int, bool]]) -> Route:
    """The right-hand lane along a walk, with corners rounded."""
    centres, offsets, limits, stops = [], [], [], []
    at = 0.0
    outer = bool(rng.integers(2))
    for i, forward in walk:
        road = plan.roads[i]
        points = road.points if forward else road.points[::-1]
        length = road.length_m
        here, _ = along_road(np.ascontiguousarray(points), np.arange(0.0, length, STEP_M))
        centres.append(here)
        share = (0.72 if outer else 0.27) if road.half_width > 5.6 else 0.45
        offsets.append(np.full(len(here), road.half_width * share))
        fast = rng.uniform(11.0, 15.0) if road.arterial else rng.uniform(7.5, 11.5)
        limits.append(np.full(len(here), fast))
        at += len(here) * STEP_M
        if rng.uniform() < 0.22 and length > 50.0:
            stops.append(at - road.half_width - 9.0)
    centre = _smooth(np.concatenate(centres), 19)
    tangent = np.gradient(centre, axis=0)
    tangent = _smooth(tangent / np.maximum(np.hypot(*tangent.T), 1e-6)[:, None], 9)
    tangent /= np.maximum(np.hypot(*tangent.T), 1e-6)[:, None]
    offset = _smooth(np.concatenate(offsets)[:, None], 41)
    lane = _smooth(centre + np.stack([-tangent[:, 1], tangent[:, 0]], 1) * offset, 9)
    length_at = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(lane, axis=0).T))])
    grid = np.arange(0.0, length_at[-1], STEP_M)

    def along(values: Floats) -> Floats:
        return np.interp(grid, length_at, values)

    lane_even = np.stack([along(lane[:, 0]), along(lane[:, 1])], 1)
    centre_even = np.stack([along(centre[:, 0]), along(centre[:, 1])], 1)
    index = np.minimum((np.array(stops) / STEP_M).astype(int), len(length_at) - 1)
    return Route(lane_even, centre_even, along(np.concatenate(limits)), length_at[index] if stops else np.zeros(0))


def _clip(route: Route, bounds: Bounds, length_m: float, rng: np.random.Generator) -> Route | None:
    """The longest stretch inside the bounds, cut to a length at a random place."""
    x0, y0, x1, y1 = bounds
    x, y = route.lane.T
    inside = (x > x0) & (x < x1) & (y > y0) & (y < y1)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], inside.astype(int), [0]])))
    if not len(edges):
        return None
    starts, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - starts))
    start, end = int(starts[longest]), int(ends[longest])
    spare = (end - start) - int(length_m / STEP_M) - 1
    if spare > 0:
        start += int(rng.integers(spare + 1))
        end = start + int(length_m / STEP_M) + 1
    if end - start < 4:
        return None
    stops = route.stops - start * STEP_M
    keep = (stops > 5.0) & (stops < (end - start) * STEP_M - 5.0)
    return Route(route.lane[start:end], route.centre[start:end], route.limit[start:end], stops[keep])


def drive_times(rng: np.random.Generator, route: Route, stretch_s: float) -> tuple[Floats, Floats]:
    """Times (seconds) and distances (metres) of a car along a route; its clock lasts at least ``stretch_s``.

    Braking before bends and stop lines, standing at some of them. A route too short for the time is driven slower,
    down to 5 m/s, and what is still missing is spent standing at its end, as at a red light.
    """
    heading = np.unwrap(np.arctan2(*np.gradient(route.lane, axis=0).T))
    bend = np.abs(_smooth(np.gradient(heading)[:, None] / STEP_M, 9)[:, 0])
    speed = np.clip(np.sqrt(2.2 / np.maximum(bend, 1e-4)), 5.0, route.limit)
    ideal = float((STEP_M / speed).sum())
    if ideal < stretch_s:
        speed = np.maximum(speed * ideal / stretch_s, 5.0)
    dwell = np.zeros(len(speed))
    for stop in route.stops:
        if rng.uniform() < 0.5:
            k = min(int(stop / STEP_M), len(speed) - 1)
            speed[k] = 0.4
            dwell[k] = rng.uniform(1.5, 7.0)
    for order in (range(1, len(speed)), range(len(speed) - 2, -1, -1)):
        step = 1 if order.step > 0 else -1
        for k in order:
            speed[k] = min(speed[k], np.sqrt(speed[k - step] ** 2 + 2 * 2.2 * STEP_M))
    times = np.concatenate([[0.0], np.cumsum(STEP_M / (0.5 * (speed[1:] + speed[:-1])))])
    times = times + np.concatenate([[0.0], np.cumsum(dwell)[:-1]])
    distances = np.arange(len(speed)) * STEP_M
    halted = np.flatnonzero(dwell[:-1])
    times = np.insert(times, halted + 1, times[halted] + dwell[halted])
    distances = np.insert(distances, halted + 1, distances[halted])
    if times[-1] < stretch_s:
        times, distances = np.append(times, stretch_s + 1.0), np.append(distances, distances[-1])
    return np.asarray(times, np.float64), np.asarray(distances, np.float64)
