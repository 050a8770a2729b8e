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

# How cars drive here: with some room to motion.CAR_LIMITS, which no drive exceeds.
TURNING_CIRCLE_M = 6.5
SIDEWAYS_M_S2 = 2.4
ALONG_M_S2 = 2.2
YAW_RAD_S = 0.7
SAMPLE_S = 0.05
"""Time between the samples of a drive."""


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
    limit, number = np.concatenate(limits), np.arange(len(lane), dtype=np.float64)
    table = _even(np.column_stack([lane, centre, limit, number]))
    for _ in range(8):
        if float(curvature(table[:, :2]).max()) <= 1.0 / TURNING_CIRCLE_M:
            break
        table[:, :2] = _rounded(table[:, :2])
        table = _even(table)
    at_stops = np.interp(np.array(stops) / STEP_M, table[:, 5], np.arange(len(table)) * STEP_M)
    return Route(table[:, :2].copy(), table[:, 2:4].copy(), table[:, 4].copy(), at_stops)


def _even(table: Floats) -> Floats:
    """A table of points, (k, columns) with x and y first, interpolated to points STEP_M apart."""
    length_at = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(table[:, :2], axis=0).T))])
    grid = np.arange(0.0, length_at[-1], STEP_M)
    return np.column_stack([np.interp(grid, length_at, column) for column in table.T])


def _rounded(lane: Floats) -> Floats:
    """A lane whose bends have at least the turning circle: too tight ones are smoothed until they have."""
    for _ in range(100):
        tight = np.flatnonzero(curvature(lane) > 1.0 / TURNING_CIRCLE_M)
        if not len(tight):
            break
        near = np.zeros(len(lane))
        for k in tight:
            near[max(0, k - 12) : k + 13] = 1.0
            share = _smooth(near[:, None], 9)
        lane = (1.0 - share) * lane + share * _smooth(lane, 11)
    return lane


def headings(line: Floats) -> Floats:
    """Headings along a polyline (k, 2), radians clockwise from north without jumps, (k,)."""
    step = np.gradient(line, axis=0)
    return np.unwrap(np.arctan2(step[:, X], -step[:, Y]))


def curvature(line: Floats) -> Floats:
    """Curvature along a polyline whose points need not be evenly spaced, per metre and without its sign, (k,)."""
    step_m = np.maximum(np.hypot(*np.gradient(line, axis=0).T), 1e-6)
    bend: Floats = np.abs(np.gradient(headings(line))) / step_m
    return bend


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
    more slowly, down to 5 m/s on straights, and then waits at the end, as at a red light.
    """
    bend = _widest(curvature(route.lane), 3)
    safe = np.minimum(np.sqrt(SIDEWAYS_M_S2 / np.maximum(bend, 1e-4)), YAW_RAD_S / np.maximum(bend, 1e-4))
    wanted = np.minimum(safe, route.limit)
    ideal = float((STEP_M / wanted).sum())
    if ideal < duration_s:
        wanted = np.minimum(np.maximum(wanted * ideal / duration_s, 5.0), safe)
    dwell = np.zeros(len(wanted))
    for stop in route.stops:
        if rng.uniform() < 0.5:
            k = min(int(stop / STEP_M), len(wanted) - 2)
            wanted[k] = 0.0
            dwell[k] = rng.uniform(1.5, 7.0)
    speed = _reachable(wanted)
    if float(_step_times(speed).sum() + dwell.sum()) < duration_s:
        wanted[-1] = 0.0
        speed = _reachable(wanted)
        dwell[-1] = duration_s + 1.0  # longer than is left
    return _sampled(speed, dwell)


def _widest(values: Floats, reach: int) -> Floats:
    """The largest value within ``reach`` places of each."""
    padded = np.pad(values, reach, mode="edge")
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1).max(1))


def _reachable(wanted: Floats) -> Floats:
    """Speeds that a car can have: it gathers and loses speed no faster than ALONG_M_S2."""
    speed = wanted.copy()
    gain = 2 * ALONG_M_S2 * STEP_M
    for k in range(1, len(speed)):
        speed[k] = min(speed[k], np.sqrt(speed[k - 1] ** 2 + gain))
    for k in range(len(speed) - 2, -1, -1):
        speed[k] = min(speed[k], np.sqrt(speed[k + 1] ** 2 + gain))
    return speed


def _step_times(speed: Floats) -> Floats:
    """Seconds from each point of a lane to the next, at constant acceleration in between."""
    return np.asarray(2.0 * STEP_M / np.maximum(speed[1:] + speed[:-1], 1e-3))


def _sampled(speed: Floats, dwell: Floats) -> tuple[Floats, Floats]:
    """Times every SAMPLE_S and distances at them, of a car with these speeds and waiting times at the points."""
    seconds = _step_times(speed)
    leaves = np.concatenate([[0.0], np.cumsum(seconds + dwell[1:])]) + dwell[0]  # when each point is left
    arrives = leaves - dwell
    times = np.append(np.arange(0.0, leaves[-1] - 1e-3, SAMPLE_S), leaves[-1])  # a sample past the end would slow it
    k = np.clip(np.searchsorted(leaves, times, "right") - 1, 0, len(seconds) - 1)
    since = np.clip(times - leaves[k], 0.0, seconds[k])
    gain = (speed[k + 1] - speed[k]) / seconds[k]
    distances = (k + 0.0) * STEP_M + speed[k] * since + 0.5 * gain * since**2
    distances[times >= arrives[-1]] = len(seconds) * STEP_M
    return times, np.maximum.accumulate(np.minimum(distances, len(seconds) * STEP_M))
