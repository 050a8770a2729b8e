"""Kernels of the belief against plain twins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from x2localizer.localize.track.ellipse import ellipse_of
from x2localizer.localize.track.kernels import (
    BIAS,
    HEADING,
    POSE,
    SCALE,
    TRUST,
    WEIGHT,
    X,
    Y,
    draw_again,
    gather,
    move,
    weigh_tiles,
)
from x2localizer.localize.track.movements import straightened
from x2localizer.localize.track.patches import METRES_AROUND, best_cell
from x2localizer.localize.track.starts import Starts
from x2localizer.localize.track.terms import log_odds
from x2localizer.types import Floats, Movement

WORLD = float(1 << 19)
EQUATOR_M = METRES_AROUND / WORLD


def _poses(count: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    poses = np.zeros((POSE, count))
    poses[X], poses[Y] = 1000 + rng.uniform(0, 8, count), 180_000 + rng.uniform(0, 8, count)
    poses[HEADING], poses[SCALE] = rng.uniform(0, 6, count), rng.uniform(0.9, 1.1, count)
    poses[BIAS], poses[TRUST] = rng.normal(0, 0.01, count), rng.integers(0, 2, count)
    return poses


@given(distance=st.floats(-20, 20), turn=st.floats(-1, 1), seconds=st.floats(-1, 1))
def test_poses_move_as_their_plain_twin(distance: float, turn: float, seconds: float) -> None:
    poses = _poses(5)
    plain = poses.copy()
    move(poses, distance, turn, seconds, 0.0, 0.0, EQUATOR_M, WORLD, 1)
    for i in range(5):
        x, y, heading, scale, bias = plain[:5, i]
        own_turn = turn - bias * seconds
        tile_m = EQUATOR_M / math.cosh(math.pi * (1 - 2 * y / WORLD))
        assert poses[X, i] == pytest.approx(x + distance * scale * math.sin(heading + own_turn / 2) / tile_m, abs=1e-9)
        assert poses[Y, i] == pytest.approx(y - distance * scale * math.cos(heading + own_turn / 2) / tile_m, abs=1e-9)
        assert poses[HEADING, i] == pytest.approx(heading + own_turn, abs=1e-9)


@given(distance=st.floats(0, 20), turn=st.floats(-1, 1), angle=st.floats(0, 6.28))
def test_a_turned_world_moves_turned(distance: float, turn: float, angle: float) -> None:
    poses = np.zeros((POSE, 2))
    poses[X], poses[Y], poses[SCALE] = 1000.0, WORLD / 2, 1.0
    poses[HEADING] = 0.3, 0.3 + angle
    move(poses, distance, turn, 0.5, 0.0, 0.0, EQUATOR_M, WORLD, 1)
    east, north = poses[X] - 1000.0, WORLD / 2 - poses[Y]
    turned = (
        math.cos(angle) * east[0] + math.sin(angle) * north[0],
        math.cos(angle) * north[0] - math.sin(angle) * east[0],
    )
    assert (east[1], north[1]) == pytest.approx(turned, abs=1e-9)


def test_there_and_back_is_where_it_was() -> None:
    poses = _poses(50)
    before = poses.copy()
    move(poses, 9.0, 0.4, 0.5, 0.0, 0.0, EQUATOR_M, WORLD, 1)
    move(poses, -9.0, -0.4, -0.5, 0.0, 0.0, EQUATOR_M, WORLD, 2)
    np.testing.assert_allclose(poses[:5], before[:5], atol=1e-6)


def test_straight_steps_become_one_and_turns_stay_apart() -> None:
    steps = [
        Movement(0.5 * k, 0.5 * (k + 1), 5.0, turn, 0.3, 0.4) for k, turn in enumerate((0.5, -0.5, 0.3, 30.0, 0.1))
    ]
    found = straightened(steps)
    assert [(m.start_s, m.end_s) for m in found] == [(0.0, 1.5), (1.5, 2.0), (2.0, 2.5)]
    assert found[0].distance_m == pytest.approx(15.0)
    assert found[0].turn_deg == pytest.approx(0.3)
    assert found[0].distance_sd_m == pytest.approx(0.3 * 3**0.5)
    gap = [steps[0], Movement(3.0, 3.5, 5.0, 0.0, 0.3, 0.4)]
    assert straightened(gap) == gap
    assert straightened([]) == []


def test_tiles_between_tiles_are_interpolated() -> None:
    corners, offsets = np.array([[1000, 180_000, 8, 8]]), np.array([0, 256])
    values = np.arange(256, dtype=np.float32)[:, None]
    poses = _poses(40, 3)
    poses[X], poses[Y] = 1000 + np.random.default_rng(1).uniform(0.6, 7, 40), 180_000 + np.linspace(0.6, 7, 40)
    expected = []
    for i in range(40):
        u, v = (poses[X, i] - 1000) * 2 - 1, (poses[Y, i] - 180_000) * 2 - 1
        expected.append(16 * v + u if poses[TRUST, i] else 0.0)  # a plane is interpolated exactly
    weigh_tiles(poses, np.zeros(40, np.int32), corners, offsets, values, WORLD, 1.0, 0.0)
    np.testing.assert_allclose(poses[WEIGHT], expected, atol=1e-3)


def test_tiles_between_headings_are_interpolated() -> None:
    corners, offsets = np.array([[1000, 180_000, 8, 8]]), np.array([0, 256])
    values = np.repeat(np.array([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]], np.float32), 256, 0)
    poses = np.zeros((POSE, 6))
    poses[X], poses[Y], poses[TRUST] = 1003.3, 180_004.1, 1.0
    poses[HEADING] = np.radians([0.0, 45.0, 67.5, 337.5, -45.0, 720.0 + 90.0])
    weigh_tiles(poses, np.zeros(6, np.int32), corners, offsets, values, WORLD, 1.0, 0.0)
    np.testing.assert_allclose(poses[WEIGHT], [0.0, 1.0, 1.5, 3.5, 7.0, 2.0], atol=1e-5)


def test_poses_are_drawn_in_proportion_to_their_weights() -> None:
    poses = _poses(4)
    weights = np.array([0.1, 0.0, 0.6, 0.3])
    out, patch = np.zeros((POSE, 10_000)), np.zeros(10_000, np.int32)
    draw_again(poses, np.arange(4, dtype=np.int32), np.cumsum(weights), np.zeros(5), out, patch, EQUATOR_M, WORLD, 7)
    np.testing.assert_allclose(np.bincount(patch, minlength=4) / 10_000, weights, atol=2e-4)
    np.testing.assert_allclose(out[:5, patch == 2], np.repeat(poses[:5, 2:3], (patch == 2).sum(), 1))


def test_many_copies_of_one_pose_are_scattered_wider() -> None:
    spread = np.array([0.0, 0.0, 0.003, 0.0, 0.0])
    few, many = (_drawn_scales(count, spread) for count in (4000, 1))
    assert float(few.std()) == pytest.approx(0.003, rel=0.1)  # each about once
    assert float(many.std()) == pytest.approx(5 * 0.003, rel=0.1)


def _drawn_scales(count: int, spread: Floats) -> Floats:
    """Scales of 4,000 poses drawn from some that were all alike."""
    poses, out, patch = _poses(count), np.zeros((POSE, 4000)), np.zeros(4000, np.int32)
    poses[SCALE] = 1.0
    weights = np.cumsum(np.full(count, 1.0 / count))
    draw_again(poses, np.zeros(count, np.int32), weights, spread, out, patch, EQUATOR_M, WORLD, 7)
    return np.asarray(out[SCALE])


def test_noise_has_the_spread_that_was_asked_for() -> None:
    poses = np.zeros((POSE, 50_000))
    poses[Y], poses[SCALE] = WORLD / 2, 1.0
    move(poses, 10.0, 0.0, 1.0, 0.5, 0.02, EQUATOR_M, WORLD, 3)
    assert float(poses[HEADING].std()) == pytest.approx(0.02, rel=0.03)
    away = np.hypot((poses[X] + 100) % WORLD - 100, poses[Y] - WORLD / 2) * EQUATOR_M
    assert float(away.std()) == pytest.approx(0.5, rel=0.03)
    assert float(away.mean()) == pytest.approx(10.0, abs=0.02)


def test_weights_are_gathered_by_cell_and_off_the_map() -> None:
    poses = _poses(300, 5)
    poses[X, :30] -= 100.0
    weights = np.random.default_rng(0).uniform(size=300)
    cells = np.zeros(256)
    corners, offsets = np.array([[1000, 180_000, 8, 8]]), np.array([0, 256])
    off = gather(poses, np.zeros(300, np.int32), weights, corners, offsets, WORLD, cells)
    assert off == pytest.approx(weights[:30].sum())
    expected = np.zeros(256)
    for i in range(30, 300):
        expected[int((poses[Y, i] - 180_000) * 2) * 16 + int((poses[X, i] - 1000) * 2)] += weights[i]
    np.testing.assert_allclose(cells, expected)


def test_the_best_place_is_where_neighbours_agree() -> None:
    corners, offsets = np.array([[0, 0, 4, 3], [90, 90, 5, 5]]), np.array([0, 48, 148])
    cells = np.full(148, 1e-4)
    cells[9] = 0.3  # alone, in the first patch
    cells[[48 + 33, 48 + 34, 48 + 43, 48 + 44]] = 0.1, 0.15, 0.15, 0.25
    assert best_cell(cells, offsets, corners) in {(1, row, column) for row in (3, 4) for column in (3, 4)}
    cells[9] = 0.7
    assert best_cell(cells, offsets, corners) == (0, 1, 1)


@given(seed=st.integers(0, 10_000))
def test_the_best_place_is_that_of_the_plain_twin(seed: int) -> None:
    cells = np.random.default_rng(seed).uniform(size=32)  # as many as are compared
    corners, offsets = np.array([[0, 0, 1, 4], [90, 90, 2, 2]]), np.array([0, 16, 32])
    sums = {}
    for patch, (_, _, width, height) in enumerate(corners):
        grid = np.pad(cells[offsets[patch] : offsets[patch + 1]].reshape(2 * height, 2 * width), 1)
        for row in range(2 * height):
            for column in range(2 * width):
                sums[patch, row, column] = float(grid[row : row + 3, column : column + 3].sum())
    assert sums[best_cell(cells, offsets, corners)] == pytest.approx(max(sums.values()))


@pytest.mark.parametrize(("count", "least", "most"), [(10, 0, 1), (40, 1, 1), (200, 5, 5)])
def test_starts_are_spread_evenly_over_all_streets_and_both_directions(count: int, least: int, most: int) -> None:
    starts = Starts(np.zeros(20), np.zeros(20), np.zeros(20), np.zeros(20, np.int64))
    number, direction = starts.evenly(count, np.random.default_rng(3))
    assert len(number) == len(direction) == count
    often = np.bincount(2 * number + direction, minlength=40)
    assert (often.min(), often.max()) == (least, most)
    assert direction.sum() * 2 == pytest.approx(count, abs=2)


def test_even_similarities_tell_nothing_and_sharp_ones_much() -> None:
    values, information = log_odds(np.zeros(100, np.float32), 0.05, 0.1)
    assert information == pytest.approx(0.0, abs=1e-5)
    np.testing.assert_allclose(values, 0.0, atol=1e-5)
    sharp = np.zeros(100, np.float32)
    sharp[3] = 1.0
    values, information = log_odds(sharp, 0.05, 0.1)
    assert information == pytest.approx(math.log(0.9 * 100 + 0.1), rel=0.01)
    assert values[4] == pytest.approx(math.log(0.1), abs=1e-3)


@given(major=st.floats(1, 50), share=st.floats(0.05, 0.9), angle=st.floats(0, 179))
def test_an_ellipse_has_the_axes_of_its_covariance(major: float, share: float, angle: float) -> None:
    minor, a = major * share, math.radians(angle)
    east, north = math.sin(a), math.cos(a)
    found = ellipse_of((
        major**2 * east**2 + minor**2 * north**2, (major**2 - minor**2) * east * north,
        major**2 * north**2 + minor**2 * east**2,
    ))  # fmt: skip
    assert found.major_m == pytest.approx(math.sqrt(5.991) * major, rel=1e-6)
    assert found.minor_m == pytest.approx(math.sqrt(5.991) * minor, rel=1e-4)
    assert min(abs(found.angle_deg - angle), 180 - abs(found.angle_deg - angle)) < 0.1
