"""How well the place along a road can be known."""

from __future__ import annotations

import math

import pytest

from x2localizer.localize.track.reckoning import UNKNOWN_M, Reckoning
from x2localizer.types import Movement


def _go(reckoning: Reckoning, metres: float, turn_deg: float = 0.0, *, fit: float = 1.0) -> None:
    """Drive on in steps of 5 m."""
    steps = max(1, round(metres / 5.0))
    for k in range(steps):
        movement = Movement(0.5 * k, 0.5 * (k + 1), metres / steps, turn_deg / steps, 0.05, 0.1)
        reckoning.move(movement, fit)


def _turned(scale_sd: float = 0.03) -> Reckoning:
    """Just after a turn of 90 degrees."""
    reckoning = Reckoning(scale_sd)
    _go(reckoning, 15.0, 90.0)
    _go(reckoning, 50.0)
    return reckoning


def test_a_straight_road_tells_nothing() -> None:
    reckoning = Reckoning(0.03)
    _go(reckoning, 2000.0)
    assert reckoning.sd_m == pytest.approx(UNKNOWN_M)


@pytest.mark.parametrize("turn_deg", [90.0, -90.0, 45.0])
def test_a_turn_tells_the_place(turn_deg: float) -> None:
    reckoning = Reckoning(0.03)
    _go(reckoning, 500.0)
    _go(reckoning, 15.0, turn_deg)
    _go(reckoning, 50.0)
    assert reckoning.sd_m < 20.0


def test_a_wide_bend_is_no_turn() -> None:
    reckoning = Reckoning(0.03)
    _go(reckoning, 2000.0, 120.0)  # a radius of nearly 1 km
    assert reckoning.sd_m == pytest.approx(UNKNOWN_M)


def test_after_a_turn_doubt_grows_with_the_distance() -> None:
    reckoning, found = _turned(), []
    for _ in range(4):
        _go(reckoning, 500.0)
        found.append(reckoning.sd_m)
    assert found == sorted(found)
    assert found[0] == pytest.approx(math.hypot(8.0, 1.5 * 0.03 * 500.0), rel=0.15)
    assert found[3] > 80.0
    assert _turned(0.1).sd_m == pytest.approx(_turned(0.03).sd_m, rel=0.2)


def test_turns_that_lie_apart_tell_the_scale() -> None:
    once, often = _turned(), _turned()
    for _ in range(6):
        _go(often, 200.0)
        _go(often, 15.0, 90.0)
        _go(often, 50.0)
    for reckoning in (once, often):
        _go(reckoning, 1000.0)
    assert often.sd_m < 0.6 * once.sd_m


def test_a_turn_that_the_map_does_not_have_tells_nothing() -> None:
    reckoning = Reckoning(0.03)
    _go(reckoning, 15.0, 90.0, fit=0.3)
    _go(reckoning, 50.0, fit=0.4)
    assert reckoning.sd_m == pytest.approx(UNKNOWN_M)
    _go(reckoning, 10.0)  # the belief has found out where the car is
    assert reckoning.sd_m < 20.0


def test_a_turn_that_was_never_understood_is_forgotten() -> None:
    reckoning = Reckoning(0.03)
    _go(reckoning, 15.0, 90.0, fit=0.3)
    _go(reckoning, 1500.0, fit=0.3)
    _go(reckoning, 10.0)
    assert reckoning.sd_m > 80.0


def test_frames_tell_the_place_by_their_weight() -> None:
    found = []
    for weight in (0.0, 0.05, 0.5):
        reckoning = Reckoning(0.03)
        for _ in range(30):
            _go(reckoning, 10.0)
            reckoning.see(weight)
        found.append(reckoning.sd_m)
    assert found[0] == pytest.approx(UNKNOWN_M)
    assert found[2] < found[1] < 40.0


def test_odometry_without_distance_is_doubted_at_once() -> None:
    reckoning = _turned()
    reckoning.move(Movement(0.0, 1.0, 0.0, 0.0, math.inf, 0.1))
    assert reckoning.sd_m == pytest.approx(UNKNOWN_M, rel=0.01)
    assert math.isfinite(reckoning.sd_m)


def test_it_stays_sound_over_a_very_long_way() -> None:
    reckoning = _turned()
    for _ in range(2000):
        reckoning.move(Movement(0.0, 1.0, 500.0, 0.0, 0.05, 0.1))
    assert reckoning.sd_m == pytest.approx(UNKNOWN_M)
    _go(reckoning, 15.0, 90.0)
    _go(reckoning, 50.0)
    assert 5.0 < reckoning.sd_m < 20.0
    _go(reckoning, 1000.0)
    assert 30.0 < reckoning.sd_m < 80.0


def test_it_remembers_little_however_long_the_drive() -> None:
    reckoning = Reckoning(0.03)
    for k in range(3000):
        reckoning.move(Movement(k, k + 1.0, 0.0 if k % 3 else 6.0, 1.0, 0.05, 0.1))
    assert len(reckoning._lately) < 100
