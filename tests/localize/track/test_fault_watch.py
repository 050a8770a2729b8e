"""Odometry that fails on the way: it is doubted in time, and sound odometry is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.streets import ROUTE, StreetDrive, drive_along, write_streets
from x2localizer.config import TrackSettings
from x2localizer.gallery import index_roads, open_gallery
from x2localizer.geo import RIGHT_WITHIN_M
from x2localizer.localize.track.confidence import track_confidence
from x2localizer.localize.track.fault_watch import (
    DOUBT_S,
    MOST_DOUBT_S,
    NOISY_STEPS,
    STUCK_STEPS,
    FitWatch,
    SpeedWatch,
    TurnWatch,
)
from x2localizer.localize.track.movements import movements_between
from x2localizer.localize.track.snapshot import pack, restore
from x2localizer.localize.track.track_map import TrackMap
from x2localizer.localize.track.tracker import Tracker
from x2localizer.types import Fix, Movement

FAST = TrackSettings(start_poses=40_000, most_poses=40_000, unclear_poses=30_000, least_poses=2_000)


def step(time_s: float, speed: float, seconds: float = 0.5, sd_m: float = 0.05) -> Movement:
    return Movement(time_s - seconds, time_s, speed * seconds, 0.0, sd_m, 0.1)


def seen(speeds: list[float], sd_m: float = 0.05) -> SpeedWatch:
    watch = SpeedWatch()
    for number, speed in enumerate(speeds):
        watch.see(0.5 * number, [step(0.5 * number, speed, sd_m=sd_m)])
    return watch


@pytest.mark.parametrize(
    "speeds",
    [[12.0, 9.0, 6.0, 3.0, 0.0, 0.0], [0.0, 1.5, 3.0, 4.5, 6.0], [1.5, 0.0, 1.5], [12.0, 0.0, 12.0], [12.0] * 9, []],
)
def test_ordinary_driving_braking_and_stands_are_believed(speeds: list[float]) -> None:
    assert seen(speeds).doubted_s == math.inf


@pytest.mark.parametrize("factor", [3.0, 0.4])
def test_a_speed_that_jumps_is_doubted_for_a_while(factor: float) -> None:
    watch = seen([12.0, 12.0, *[12.0 * factor] * 4])
    assert watch.doubted_s == 2.5
    assert watch.doubts(DOUBT_S + 2.0)
    assert not watch.doubts(DOUBT_S + 2.5)


@pytest.mark.parametrize(
    "speeds", [[12.0, 26.0, 12.0, 12.0, 12.0], [5.0, 11.0, 12.0, 7.0, 8.0, 8.0], [9.0, 3.0, 0.0, 0.0]]
)
def test_a_speed_that_comes_back_is_believed(speeds: list[float]) -> None:
    assert seen(speeds).doubted_s == math.inf


def test_noise_that_odometry_admits_is_no_jump() -> None:
    assert seen([12.0, 20.0, 9.0], sd_m=3.0).doubted_s == math.inf
    assert seen([12.0, 20.0, 9.0], sd_m=math.inf).doubted_s == math.inf


def test_steps_of_no_time_are_left_out() -> None:
    watch = seen([12.0])
    watch.see(1.0, [Movement(0.5, 0.5, 4.0, 0.0, 0.1, 0.1), step(1.0, 12.0)])
    assert watch.doubted_s == math.inf


def turning(rates: list[float], speed: float = 9.0) -> TurnWatch:
    watch = TurnWatch()
    for second, rate in enumerate(rates):
        watch.see(float(second), [Movement(second - 1.0, float(second), speed, rate, 0.1, 0.1)])
    return watch


NOISE = np.random.default_rng(0).normal(0.0, 0.3, NOISY_STEPS + 1).tolist()


@pytest.mark.parametrize("stuck_at", [0.0, 0.7])
def test_turns_that_stick_are_doubted(stuck_at: float) -> None:
    assert not turning([*NOISE, *[stuck_at] * (STUCK_STEPS - 1)]).doubts(90.0)
    assert turning([*NOISE, *[stuck_at] * STUCK_STEPS]).doubts(90.0)


def test_turns_of_a_simulated_sensor_may_stay_the_same() -> None:
    clean = [0.0] * 10 + [30.0] * 3 + [0.0] * 90
    assert turning(clean).doubted_s == math.inf


def test_a_car_that_stands_has_no_turns_that_stick() -> None:
    watch = turning(NOISE)
    watch.see(99.0, [Movement(98.0, 99.0, 0.0, 0.0, 0.1, 0.1)] * 50)
    assert watch.doubted_s == math.inf


def test_a_guess_must_have_been_sure_before_it_can_be_contradicted() -> None:
    watch = FitWatch()
    watch.see(0.0, {"roads": -2.0})
    watch.was_sure = True
    watch.see(1.0, {"roads": 1.0, "tiles": -0.3})
    watch.see(2.0, {})
    assert not watch.doubts(2.0)
    watch.see(4.0, {"roads": 1.0, "tiles": -0.6})
    assert watch.doubts(4.0)
    assert watch.doubts(3.0 + DOUBT_S)
    assert not watch.doubts(4.0 + DOUBT_S)


def test_a_doubt_lasts_as_long_as_what_led_to_it() -> None:
    watch = FitWatch()
    watch.was_sure = True
    for second in range(10, 61):
        watch.see(float(second), {"tiles": -1.0})
    assert watch.doubts(109.0)
    assert not watch.doubts(111.0)
    for second in range(111, 400):
        watch.see(float(second), {"tiles": -1.0})
    assert watch.doubts(399.0 + MOST_DOUBT_S - 1.0)
    assert not watch.doubts(399.0 + MOST_DOUBT_S)


# On a drive ----------------------------------------------------------------------------------------------------------

FAULT_S = 150


@pytest.fixture(scope="module")
def streets(tmp_path_factory: pytest.TempPathFactory) -> TrackMap:
    folder: Path = tmp_path_factory.mktemp("streets")
    index_roads([write_streets(folder / "streets.geojson")], str(folder / "gallery"))
    return TrackMap.of(open_gallery(folder / "gallery"))


@pytest.fixture(scope="module")
def drive() -> StreetDrive:
    return drive_along(ROUTE, speed_m_s=12.0)


def new_tracker(streets: TrackMap) -> Tracker:
    return Tracker(
        streets, None, FAST, scale_sd=0.03, bias_sd_deg_s=0.05, confidence=track_confidence(None, TrackSettings())
    )


def driven_until(drive: StreetDrive, second: int) -> list[Movement]:
    """What noisy odometry says of the last second."""
    rng = np.random.default_rng(second)
    movements = movements_between(drive.record(), second - 1.0, float(second), FAST.step_s) if second else []
    return [replace(m, turn_deg=m.turn_deg + rng.normal(0.0, 0.05)) for m in movements]


def follow(tracker: Tracker, drive: StreetDrive, start: int, fault: Callable[[Movement], Movement]) -> list[Fix]:
    fixes = []
    for second in range(start, int(drive.times_s[-1])):
        driven = driven_until(drive, second)
        fixes.append(tracker.advance(second, float(second), [fault(m) if second >= FAULT_S else m for m in driven]))
    return fixes


@pytest.fixture(scope="module")
def found(streets: TrackMap, drive: StreetDrive) -> bytes:
    """A tracker that has found the drive, at the moment when its odometry fails."""
    tracker = new_tracker(streets)
    for second in range(FAULT_S):
        fix = tracker.advance(second, float(second), driven_until(drive, second))
    assert fix.status == "tracking"
    return pack(tracker)


def continued(streets: TrackMap, state: bytes) -> Tracker:
    tracker = new_tracker(streets)
    restore(tracker, state)
    return tracker


def test_a_drive_without_a_fault_is_not_doubted(streets: TrackMap, drive: StreetDrive, found: bytes) -> None:
    fixes = follow(continued(streets, found), drive, FAULT_S, lambda m: m)
    assert np.mean([fix.status == "tracking" for fix in fixes]) > 0.9


@pytest.mark.parametrize(
    "fault",
    [
        lambda m: replace(m, distance_m=3.0 * m.distance_m),
        lambda m: replace(m, distance_m=0.4 * m.distance_m),
        lambda m: replace(m, turn_deg=0.0),
    ],
    ids=["three times as far", "0.4 times as far", "no turns"],
)
def test_no_wrong_position_is_stated_after_a_fault(
    streets: TrackMap, drive: StreetDrive, found: bytes, fault: Callable[[Movement], Movement]
) -> None:
    fixes = follow(continued(streets, found), drive, FAULT_S, fault)
    stated = [(fix.time_s, fix.position) for fix in fixes if fix.position is not None]
    errors = [drive.error_m(time_s, place.lat_deg, place.lon_deg) for time_s, place in stated]
    assert all(error < RIGHT_WITHIN_M for error in errors)
    assert any(fix.status != "tracking" for fix in fixes)


def test_a_doubt_is_part_of_a_snapshot(streets: TrackMap, drive: StreetDrive, found: bytes) -> None:
    tracker = continued(streets, found)
    for second in range(FAULT_S, FAULT_S + 2):
        tracker = continued(streets, pack(tracker))  # also in the middle of a jump
        faster = [replace(m, distance_m=15.0) for m in driven_until(drive, second)]
        fix = tracker.advance(second, float(second), faster)
    assert fix.confidence == 0.0
    again = continued(streets, pack(tracker))
    assert again.advance(FAULT_S + 2, FAULT_S + 2.0, driven_until(drive, FAULT_S + 2)).confidence == 0.0
