"""Routes: a walk over the road graph, the lane to drive, and the speed along it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from x2localizer.town.columns import X, Y
from x2localizer.town.place import Bounds, along_line
from x2localizer.town.plan import Plan
from x2localizer.types import Floats

STEP_M = 0.5
"""Distance between the points of a lane."""
SHARPEST = 0.7
"""Cosine of the sharpest turn a car takes, as the angle between two arms of a junction."""


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """The lane a car follows: points (k, 2) in map metres, STEP_M apart, and what limits its speed."""

    lane: Floats
    centre: Floats  # (k, 2) the middle of the road beside each point
    limit: Floats  # (k,) speed limit in metres per second
    stops: Floats  # distances of stop lines along the lane

    @property
    def length_m(self) -> float:
        """Length of the lane."""
        return (len(self.lane) - 1) * STEP_M


def draw_route(rng: np.random.Generator, plan: Plan, bounds: Bounds, length_m: float, least_m: float) -> Route | None:
    """A route of about ``length_m`` inside some bounds.

    The longest of several attempts; None if not even ``least_m`` can be driven there.
    """
    allowed = [i for i, road in enumerate(plan.roads) if bounds.encloses(road.points)]
    if not allowed:
        allowed = [i for i, road in enumerate(plan.roads) if bounds.contains(*road.points.T).mean() > 0.4]
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


class _Leg(NamedTuple):
    """A road of a walk, driven from node a to node b if ``forward``, else from b to a."""

    road: int
    forward: bool


def _walk(rng: np.random.Generator, plan: Plan, allowed: list[int], length_m: float) -> list[_Leg]:
    """Adjoining roads, never turning back, seldom twice the same; empty if no road is allowed."""
    if not allowed:
        return []
    arms: dict[int, list[_Leg]] = {}
    for i in allowed:
        arms.setdefault(plan.roads[i].a, []).append(_Leg(i, True))
        arms.setdefault(plan.roads[i].b, []).append(_Leg(i, False))
    lengths = np.array([plan.roads[i].length_m for i in allowed])
    first = allowed[int(rng.choice(len(allowed), p=lengths / lengths.sum()))]
    walk = [_Leg(first, bool(rng.integers(2)))]
    visits = {first: 1}
    total = plan.roads[first].length_m
    while total < length_m:
        road, forward = walk[-1]
        node = plan.roads[road].b if forward else plan.roads[road].a
        back = _direction(plan, _Leg(road, not forward))
        options = [arm for arm in arms[node] if arm.road != road and float(_direction(plan, arm) @ back) < SHARPEST]
        if not options:
            break
        weights = np.array([0.15 ** visits.get(arm.road, 0) for arm in options])
        choice = options[int(rng.choice(len(options), p=weights / weights.sum()))]
        walk.append(choice)
        visits[choice.road] = visits.get(choice.road, 0) + 1
        total += plan.roads[choice.road].length_m
    return walk


def _direction(plan: Plan, leg: _Leg) -> Floats:
    """Unit vector (2,) in which a leg leaves its first junction."""
    points = plan.roads[leg.road].points
    step = points[1] - points[0] if leg.forward else points[-2] - points[-1]
    return np.asarray(step / np.hypot(*step))


def _smooth(values: Floats, window: int) -> Floats:
    """Moving average along the first axis; the first and last value stay the same."""
    half = window // 2
    if half < 1 or len(values) < 3:
        return values
    if len(values) > half + 1:  # padded point-symmetrically, so a straight end stays straight
        before, after = 2 * values[:1] - values[half:0:-1], 2 * values[-1:] - values[-2 : -half - 2 : -1]
        padded = np.concatenate([before, values, after])
    else:
        padded = np.pad(values, [(half, half)] + [(0, 0)] * (values.ndim - 1), mode="edge")
    total = np.cumsum(np.concatenate([np.zeros_like(padded[:1]), padded]), axis=0)
    width = 2 * half + 1
    return np.asarray((total[width:] - total[:-width]) / width)


def _lane(rng: np.random.Generator, plan: Plan, walk: list[_Leg]) -> Route:
    """The right-hand lane along a walk, with corners rounded."""
    centres, offsets, limits, stops = [], [], [], []
    at = 0.0
    outer = bool(rng.integers(2))
    for i, forward in walk:
        road = plan.roads[i]
        points = road.points if forward else road.points[::-1]
        length = road.length_m
        here, _ = along_line(np.ascontiguousarray(points), np.arange(0.0, length, STEP_M))
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
    lane = _smooth(centre + np.stack([-tangent[:, Y], tangent[:, X]], 1) * offset, 9)
    length_at = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(lane, axis=0).T))])
    grid = np.arange(0.0, length_at[-1], STEP_M)

    def along(values: Floats) -> Floats:
        return np.interp(grid, length_at, values)

    lane_even = np.stack([along(lane[:, X]), along(lane[:, Y])], 1)
    centre_even = np.stack([along(centre[:, X]), along(centre[:, Y])], 1)
    index = np.minimum((np.array(stops) / STEP_M).astype(int), len(length_at) - 1)
    return Route(lane_even, centre_even, along(np.concatenate(limits)), length_at[index] if stops else np.zeros(0))


def _clip(route: Route, bounds: Bounds, length_m: float, rng: np.random.Generator) -> Route | None:
    """The longest stretch of a route inside the bounds, cut to a length at a random place; None if there is none."""
    inside = bounds.contains(*route.lane.T)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], inside.astype(int), [0]])))
    if not len(edges):
        return None
    starts, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - starts))
    start, end = int(starts[longest]), int(ends[longest])
    surplus = (end - start) - int(length_m / STEP_M) - 1
    if surplus > 0:
        start += int(rng.integers(surplus + 1))
        end = start + int(length_m / STEP_M) + 1
    if end - start < 4:
        return None
    stops = route.stops - start * STEP_M
    keep = (stops > 5.0) & (stops < (end - start) * STEP_M - 5.0)
    return Route(route.lane[start:end], route.centre[start:end], route.limit[start:end], stops[keep])


def drive_times(rng: np.random.Generator, route: Route, duration_s: float) -> tuple[Floats, Floats]:
    """Times (seconds) and distances (metres) of a car along a route, for at least ``duration_s`` seconds.

    The car brakes before bends and stop lines and waits at some of the latter. If the route is too short, it drives
    more slowly, down to 5 m/s, and then waits at the end, as at a red light.
    """
    heading = np.unwrap(np.arctan2(*np.gradient(route.lane, axis=0).T))
    bend = np.abs(_smooth(np.gradient(heading)[:, None] / STEP_M, 9)[:, 0])
    speed = np.clip(np.sqrt(2.2 / np.maximum(bend, 1e-4)), 5.0, route.limit)
    ideal = float((STEP_M / speed).sum())
    if ideal < duration_s:
        speed = np.maximum(speed * ideal / duration_s, 5.0)
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
    if times[-1] < duration_s:
        times, distances = np.append(times, duration_s + 1.0), np.append(distances, distances[-1])
    return np.asarray(times, np.float64), np.asarray(distances, np.float64)
