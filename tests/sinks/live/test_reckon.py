"""Positions between fixes: where odometry takes them, how their uncertainty grows, and when there are none."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from helpers.live_fixes import ELLIPSE, Drive, fix_at, movement_to, place_at
from x2localizer import geo
from x2localizer.localize.track.ellipse import ELLIPSE_95, ellipse_of
from x2localizer.sinks.live import Epoch, Reckoner
from x2localizer.sinks.live.reckon import LONGEST_S, WITHOUT_ELLIPSE_M, axes_of, covariance_of
from x2localizer.types import ErrorEllipse, Fix, Movement, Position


def _epochs(drive: Drive, rate_hz: float) -> list[Epoch]:
    reckoner = Reckoner(rate_hz)
    return [
        epoch
        for event in drive.events()
        for epoch in (reckoner.fix(event) if isinstance(event, Fix) else reckoner.motion(event))
    ]


def _error_m(epoch: Epoch) -> float:
    assert epoch.position is not None and epoch.time_s is not None
    true = place_at(epoch.time_s)
    return float(geo.distance_m(epoch.position.lat_deg, epoch.position.lon_deg, true.lat_deg, true.lon_deg))


@pytest.mark.parametrize("rate_hz", [1.0, 2.0, 3.0, 5.0, 10.0])
def test_epochs_come_at_a_steady_rate_and_at_the_right_place(rate_hz: float) -> None:
    epochs = _epochs(Drive(10), rate_hz)
    times = [epoch.time_s for epoch in epochs if epoch.time_s is not None]
    np.testing.assert_allclose(times, np.arange(len(times)) / rate_hz, atol=1e-6)
    assert len(times) == 10 * rate_hz + 1
    assert max(_error_m(epoch) for epoch in epochs) < 0.01
    assert {epoch.heading_deg for epoch in epochs} == {90.0}


def test_uncertainty_grows_between_fixes_and_falls_back_at_each() -> None:
    epochs = _epochs(Drive(2), 10.0)
    sds = [epoch.sd_m for epoch in epochs]
    for second in (0, 10):
        assert sds[second] == pytest.approx((4.0, 2.0), rel=1e-3), "what the fix says"
        grown = np.array(sds[second : second + 10])
        assert np.all(np.diff(grown, axis=0) > 0)
    assert not any(epoch.estimated for epoch in epochs)


def test_a_turn_is_followed() -> None:
    reckoner = Reckoner(1.0)
    reckoner.fix(replace(fix_at(0.0), heading_deg=350.0))
    for step in range(1, 91):  # a quarter of a circle to the right, of 15.7 m
        reckoner.motion(Movement((step - 1) / 90, step / 90, math.pi * 5.0 / 90, 1.0, 0.01, 0.01))
    [epoch] = reckoner.motion(Movement(1.0, 2.0, 0.0, 0.0, 0.01, 0.01))
    assert epoch.heading_deg == pytest.approx(80.0)
    assert epoch.position is not None
    east, north = geo.LocalMetres(place_at(0.0)).to_metres(epoch.position.lat_deg, epoch.position.lon_deg)
    assert float(np.hypot(east, north)) == pytest.approx(10.0 * math.sqrt(2), abs=0.01)
    assert math.degrees(math.atan2(float(east), float(north))) == pytest.approx(35.0, abs=0.1)


def test_there_is_no_position_while_lost_nor_long_after_a_fix() -> None:
    epochs = _epochs(Drive(6, lost=range(2, 4)), 10.0)
    without = [epoch.time_s for epoch in epochs if epoch.position is None]
    np.testing.assert_allclose(np.array(without, np.float64), np.arange(20, 40) / 10)
    reckoner = Reckoner(2.0)
    later = [*reckoner.fix(fix_at(0.0)), *(e for i in range(1, 200) for e in reckoner.motion(movement_to(i / 10)))]
    last = max(e.time_s for e in later if e.position is not None and e.time_s is not None)
    assert last == LONGEST_S
    assert [e.estimated for e in later[:5]] == [False, False, False, False, True]


def test_a_gap_in_the_odometry_ends_the_position_and_a_short_one_makes_it_vague() -> None:
    reckoner = Reckoner(10.0)
    reckoner.fix(fix_at(0.0))
    plain = reckoner.motion(movement_to(0.1))[-1]
    bridged = reckoner.motion(movement_to(0.5))[-1]
    assert _error_m(bridged) < 0.01
    assert bridged.sd_m[0] > math.hypot(plain.sd_m[0], 0.5)
    assert reckoner.motion(movement_to(2.0))[-1].position is None
    assert reckoner.fix(fix_at(3.0))[0].position is not None


def test_without_odometry_only_fixes_are_told() -> None:
    epochs = _epochs(Drive(5, lost=range(3, 4), odometry=False), 10.0)
    assert [epoch.time_s for epoch in epochs] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert [epoch.position is None for epoch in epochs] == [False, False, False, True, False, False]


def test_a_late_fix_is_moved_on_by_what_came_since() -> None:
    reckoner = Reckoner(10.0)
    reckoner.fix(fix_at(0.0))
    for tenth in range(1, 14):
        reckoner.motion(movement_to(tenth / 10))
    shifted = replace(fix_at(1.0), guess=Position(place_at(1.0).lat_deg + 1e-4, place_at(1.0).lon_deg))
    assert reckoner.fix(shifted) == [], "that time was told already"
    [epoch] = reckoner.motion(movement_to(1.4))
    assert epoch.position is not None
    assert epoch.position.lat_deg == pytest.approx(place_at(1.4).lat_deg + 1e-4, abs=1e-8)
    assert epoch.position.lon_deg == pytest.approx(place_at(1.4).lon_deg, abs=1e-7)
    assert epoch.age_s == pytest.approx(0.4)
    reckoner.fix(fix_at(1.2, sure=False))
    assert reckoner.motion(movement_to(1.5))[-1].position is None


def test_what_odometry_does_not_know_is_taken_from_the_fix_with_much_doubt() -> None:
    gyroscope, wheel = Reckoner(1.0), Reckoner(1.0)
    gyroscope.fix(fix_at(0.0))
    wheel.fix(fix_at(0.0))
    [turned] = gyroscope.motion(Movement(0.0, 1.0, 0.0, 10.0, math.inf, 0.1))
    assert turned.heading_deg == 100.0
    assert turned.sd_m[0] > 4.9
    [straight] = wheel.motion(Movement(0.0, 1.0, 10.0, 0.0, 0.1, math.inf))
    assert _error_m(straight) < 0.01
    assert straight.sd_m[1] > 4.0, "across the heading"


def test_a_clock_that_goes_back_or_stands_still_does_no_harm() -> None:
    reckoner = Reckoner(5.0)
    reckoner.fix(fix_at(1000.0))
    assert reckoner.motion(Movement(1000.0, 1000.0, 1.0, 0.0, 0.1, 0.1)) == []
    [epoch] = reckoner.fix(fix_at(3.0))
    assert epoch.time_s == 3.0
    assert [e.time_s for e in reckoner.motion(movement_to(3.2, 0.2))] == [3.2]
    jump = reckoner.motion(Movement(3.2, 1e6, 1.0, 0.0, 0.1, 0.1))
    assert len(jump) <= 101
    assert jump[-1].position is None


def test_ellipses_become_covariances_and_back() -> None:
    for angle in (0.0, 30.0, 90.0, 135.0, 179.0):
        ellipse = ErrorEllipse(24.0, 6.0, angle)
        east, mixed, north = covariance_of(ellipse)
        again = ellipse_of((east, mixed, north))
        assert (again.major_m, again.minor_m) == pytest.approx((24.0, 6.0))
        assert again.angle_deg == pytest.approx(angle)
        major, minor, direction = axes_of((east, mixed, north))
        assert (ELLIPSE_95 * major, ELLIPSE_95 * minor, direction) == pytest.approx((24.0, 6.0, angle), rel=1e-5)
    assert covariance_of(ELLIPSE) == pytest.approx((16.0, 0.0, 4.0), rel=1e-5)
    assert axes_of(covariance_of(None))[0] == pytest.approx(WITHOUT_ELLIPSE_M)


def test_a_fix_without_a_heading_is_not_carried_on() -> None:
    reckoner = Reckoner(10.0)
    assert reckoner.fix(replace(fix_at(0.0), heading_deg=None))[0].position is not None
    assert reckoner.motion(movement_to(0.1))[0].position is None
