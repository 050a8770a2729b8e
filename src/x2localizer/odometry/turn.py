"""How a camera turned between two frames, from points at unknown distances.

A car drives on circles: while it turns by an angle, it moves along a chord that lies half that angle off its heading.
Once the turn is taken out, points of the world move on lines through one point of the horizon, the one the car moves
toward. So each point, near or far, gives one equation for the turn and the change of pitch, and points of other cars
disagree with the rest.

Image coordinates here are (x, y) over the focal length: x from straight ahead to the right, y from the horizon down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from x2localizer.types import Bools, Floats

LEAST_POINTS = 8
TRIALS = 80
LARGEST_PITCH = 0.03
"""Radians of pitch between two frames beyond which a solution is wrong."""
_ROUNDS = 6
_SLACK = 0.08
"""How far points may be off their lines for each unit that the horizon may be off its row."""
_CENTRE = 0.02
"""Points closer to the point of travel than this hardly have a line."""


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """The turn between two frames; angles in radians.

    yaw: clockwise is positive.
    pitch: how far the horizon moved down in the frame, over the focal length.
    info, vector: what the points say about corrections of (yaw, pitch, mount, horizon), as an information matrix (4, 4)
        and an information vector (4,); the horizon's is that of the row that points are counted from.
    inliers: which points agree, (n,).
    forward: 1, or -1 if the points approach the point of travel, as in reverse.
    outward: how far each point moved away from the point of travel, (n,); negative in reverse.
    """

    yaw: float
    pitch: float
    info: Floats
    vector: Floats
    inliers: Bools
    forward: int
    outward: Floats


class _Equations(NamedTuple):
    """For each point: its distance from its line (n,), the derivatives of that, and its motion along the line (n,).

    slopes: derivatives by yaw, pitch, mount and horizon, (n, 4).
    """

    residual: Floats
    slopes: Floats
    outward: Floats


def _equations(points: Floats, yaw: float, pitch: float, mount: float) -> _Equations:
    x, y, x_after, y_after = points.T
    cos, sin = math.cos(yaw), math.sin(yaw)
    depth = np.maximum(cos + x * sin, 0.1)
    turned_x, turned_y = (x * cos - sin) / depth, y / depth
    dx, dy = x_after - turned_x, y_after - pitch - turned_y
    from_x, from_y = turned_x - math.tan(-0.5 * yaw - mount), turned_y  # from the point of travel
    length = np.hypot(from_x, from_y) + _CENTRE
    along_yaw = from_x * turned_x * turned_y - from_y * (1 + turned_x**2)
    along_yaw += turned_x * turned_y * dx - (0.5 + turned_x**2) * dy
    slopes = np.stack([along_yaw, -from_x, dy, dx], axis=1) / length[:, None]
    return _Equations((from_x * dy - from_y * dx) / length, slopes, (from_x * dx + from_y * dy) / length)


def solve_turn(
    points: Floats, yaw: float, mount: float, cov: Floats, noise: float, rng: np.random.Generator,
    largest_yaw: float = 0.2,
) -> Turn | None:  # fmt: skip
    """The turn that most points agree with; None if too few do.

    points: places in the previous frame and in this one, (n, 4).
    yaw: the turn that is expected, radians.
    mount: how far the camera looks to the right of the car's heading, radians.
    cov: covariance of the mount and of the horizon that ``points`` are counted from, (2, 2).
    noise: standard deviation of a point's place.
    largest_yaw: radians that the car can turn between the frames.
    """
    if len(points) < LEAST_POINTS:
        return None
    slack = _SLACK * math.sqrt(float(cov[1, 1]))
    yaw, pitch = _best_trial(_equations(points, yaw, 0.0, mount), yaw, noise + slack, largest_yaw, rng)
    trial = _equations(points, yaw, pitch, mount)
    moving = (np.abs(trial.residual) < 3 * noise + slack) & (np.abs(trial.outward) > 4 * noise)
    forward = -1 if moving.sum() > 5 and (trial.outward[moving] < 0).mean() > 0.6 else 1
    solution = _refined(points, np.array([yaw, pitch, 0.0, 0.0]), mount, cov, noise, slack, forward)
    yaw, pitch = float(solution[0]), float(solution[1])
    final = _at(points, solution, mount)
    inliers = (np.abs(final.residual) < 3 * noise) & (forward * final.outward > -3 * noise)
    if inliers.sum() < LEAST_POINTS or abs(pitch) > LARGEST_PITCH or abs(yaw) > 1.2 * largest_yaw:
        return None
    spread = max(1.48 * float(np.median(np.abs(final.residual[inliers]))), 0.3 * noise)
    slopes = final.slopes[inliers]
    info = slopes.T @ slopes / spread**2
    vector = info @ np.array([0.0, 0.0, solution[2], solution[3]]) - slopes.T @ final.residual[inliers] / spread**2
    return Turn(yaw, pitch, info, vector, inliers, forward, final.outward)


def _at(points: Floats, solution: Floats, mount: float) -> _Equations:
    """The equations at a solution (yaw, pitch, correction of the mount, correction of the horizon)."""
    yaw, pitch, mount_step, horizon_step = (float(value) for value in solution)
    return _equations(points - np.array([0.0, horizon_step, 0.0, horizon_step]), yaw, pitch, mount + mount_step)


def _best_trial(
    start: _Equations, yaw: float, noise: float, largest_yaw: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Yaw and pitch of the pair of points that most others agree with, or those expected if no pair does better."""
    residual, a, b = start.residual, start.slopes[:, 0], start.slopes[:, 1]
    i, j = rng.integers(len(residual), size=(2, TRIALS))
    determinant = a[i] * b[j] - a[j] * b[i]
    solvable = np.abs(determinant) > 0.05
    i, j, determinant = i[solvable], j[solvable], determinant[solvable]
    yaws = np.append((residual[j] * b[i] - residual[i] * b[j]) / determinant, 0.0)
    pitches = np.append((a[j] * residual[i] - a[i] * residual[j]) / determinant, 0.0)
    possible = (np.abs(yaw + yaws) <= largest_yaw) & (np.abs(pitches) < LARGEST_PITCH)
    possible[-1] = True
    yaws, pitches = yaws[possible], pitches[possible]
    left = residual + yaws[:, None] * a + pitches[:, None] * b  # (trials, n)
    score = (1.0 / (1.0 + (left / (2.5 * noise)) ** 2)).sum(axis=1) - 0.5 * (pitches / 0.01) ** 2
    best = int(np.argmax(score))
    return yaw + float(yaws[best]), float(pitches[best])


def _refined(
    points: Floats, solution: Floats, mount: float, cov: Floats, noise: float, slack: float, forward: int
) -> Floats:
    """A solution by weighted least squares; points far from their line, or moving the wrong way, hardly count."""
    scale = 3.0 * noise + slack
    prior = np.diag([1e-3, 1e-1, 0.0, 0.0])
    prior[2:, 2:] = noise**2 * np.linalg.inv(cov)
    for _ in range(_ROUNDS):
        now = _at(points, solution, mount)
        weight = 1.0 / (1.0 + (now.residual / scale) ** 2) ** 2
        weight = np.where(forward * now.outward < -3 * noise, 0.05 * weight, weight)
        weighted = (now.slopes * weight[:, None]).T
        pull = prior @ np.array([0.0, 0.0, solution[2], solution[3]])
        solution = solution - np.linalg.solve(weighted @ now.slopes + prior, weighted @ now.residual + pull)
        scale = max(1.2 * noise, 0.7 * scale)
    return solution
