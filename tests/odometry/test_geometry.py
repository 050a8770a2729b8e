from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.street import Square
from x2localizer.errors import ConfigError
from x2localizer.odometry.camera import CameraProfile
from x2localizer.odometry.ground import Step, align
from x2localizer.odometry.turn import solve_turn
from x2localizer.types import Floats

SURE = np.diag([1e-3, 1e-3]) ** 2
"""Covariance of mount and horizon."""


def _points(
    rng: np.random.Generator, yaw: float, distance_m: float, mount: float, pitch: float = 0.0, count: int = 120
) -> Floats:
    """Points of a street in two frames: the camera turns by ``yaw`` on a circle while it drives."""
    depth = rng.uniform(6, 80, count)
    x, y = rng.uniform(-0.6, 0.6, count), rng.uniform(-0.4, 0.3, count)
    east, north = x * depth, depth
    way = yaw / 2 - mount
    east, north = east - distance_m * math.sin(way), north - distance_m * math.cos(way)
    east, north = east * math.cos(yaw) - north * math.sin(yaw), east * math.sin(yaw) + north * math.cos(yaw)
    return np.stack([x, y, east / north, y * depth / north + pitch], axis=1)


@pytest.mark.parametrize("yaw_deg", [-4.0, 0.0, 0.7, 4.0])
@pytest.mark.parametrize("distance_m", [-0.7, 0.0, 1.2])
def test_the_turn_is_exact(yaw_deg: float, distance_m: float) -> None:
    rng = np.random.default_rng(1)
    points = _points(rng, math.radians(yaw_deg), distance_m, mount=0.02, pitch=0.001)
    turn = solve_turn(points, 0.0, 0.02, SURE, 0.25 / 300, rng)
    assert turn is not None
    assert math.degrees(turn.yaw) == pytest.approx(yaw_deg, abs=0.005)
    assert turn.pitch == pytest.approx(0.001, abs=1e-4)
    assert turn.inliers.mean() > 0.95
    assert distance_m == 0.0 or turn.forward == np.sign(distance_m)


def test_another_car_does_not_change_the_turn() -> None:
    rng = np.random.default_rng(2)
    points = np.concatenate(
        [_points(rng, 0.03, 1.0, 0.0, count=90), _points(rng, -0.05, 0.2, 0.4, pitch=0.01, count=50)]
    )
    turn = solve_turn(points, 0.0, 0.0, SURE, 0.25 / 300, rng)
    assert turn is not None
    assert turn.yaw == pytest.approx(0.03, abs=2e-4)
    assert turn.inliers[:90].mean() > 0.95
    assert turn.inliers[90:].mean() < 0.3


def test_too_few_points_are_no_turn() -> None:
    rng = np.random.default_rng(3)
    assert solve_turn(_points(rng, 0.0, 1.0, 0.0, count=5), 0.0, 0.0, SURE, 1e-3, rng) is None
    assert solve_turn(np.zeros((0, 4)), 0.0, 0.0, SURE, 1e-3, rng) is None


def test_what_the_points_say_about_the_horizon() -> None:
    rng = np.random.default_rng(4)
    points = _points(rng, 0.0, 1.0, mount=0.0)
    points[:, 1::2] -= 0.01  # the horizon is taken for lower than it is
    turn = solve_turn(points, 0.0, 0.0, np.diag([0.03, 0.03]) ** 2, 0.25 / 300, rng)
    assert turn is not None
    correction = np.linalg.solve(turn.info + np.diag([1e-3] * 4), turn.vector)
    assert correction[3] == pytest.approx(-0.01, rel=0.05)
    assert correction[2] == pytest.approx(0.0, abs=2e-3)


@pytest.mark.parametrize("step_m", [0.0, 0.37, 1.4])
@pytest.mark.parametrize("expected_m", [0.3, 1.0])
def test_the_road_is_aligned(step_m: float, expected_m: float) -> None:
    square, lens = Square(), CameraProfile().lens(216, 384)
    before, after = (square.image(1.0, north, 0.0, seed)[:, :, 0] for seed, north in enumerate((-10.0, -10.0 + step_m)))
    row = 0.55 * 216 - 0.5
    road = align(before, after, lens, (row, row), Step(expected_m, 0.0, 0.0), 2.0, (-1.0, 4.0))
    assert road is not None
    assert road.distance_m == pytest.approx(step_m, abs=0.012)
    assert road.sideways_m == pytest.approx(0.0, abs=0.006)


def test_impossible_distances_are_not_taken() -> None:
    square, lens = Square(), CameraProfile().lens(216, 384)
    before, after = (square.image(1.0, north, 0.0, seed)[:, :, 0] for seed, north in enumerate((-10.0, -9.0)))
    row = 0.55 * 216 - 0.5
    for limits, banned_m in (((-0.2, 0.2), 0.0), ((2.0, 1.0), 0.0), ((-9.0, 9.0), 9.0)):
        assert align(before, after, lens, (row, row), Step(0.0, 0.0, 0.0), 2.0, limits, banned_m) is None


def test_a_lens() -> None:
    lens = CameraProfile(fov_deg=90.0, horizon=0.5, bonnet=0.25).lens(200, 400)
    assert lens.focal == pytest.approx(200.0)
    assert (lens.centre, lens.horizon, lens.bottom) == (199.5, 99.5, 150)
    assert CameraProfile().lens(200, 400).horizon_sd > lens.horizon_sd


@pytest.mark.parametrize(
    "values",
    [{"fov_deg": 5.0}, {"fov_deg": float("nan")}, {"height_m": 0.0}, {"height_m": 50.0}, {"height_sd_m": -1.0},
     {"horizon": 1.2}, {"bonnet": 0.7}],
)  # fmt: skip
def test_impossible_cameras_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        CameraProfile(**values)
