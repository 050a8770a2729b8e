from __future__ import annotations

import numpy as np
import pytest

from x2localizer import geo
from x2localizer.motion import CAR_LIMITS
from x2localizer.town.drive import Drive, draw_drive, open_film, region_bounds
from x2localizer.town.layers import FIELD_UNIT_M
from x2localizer.town.place import Bounds, core_regions
from x2localizer.town.town import Town


@pytest.fixture(scope="module")
def drives(town: Town) -> list[Drive]:
    attempts = [
        draw_drive(town, 10 * i + k, 35.0, region_bounds(town, region))
        for i, region in enumerate(core_regions(town.place))
        for k in range(4)
    ]
    drives = [drive for drive in attempts if drive is not None]
    assert len(drives) >= 12
    return drives


TIMES = np.arange(0.0, 35.01, 0.25)


def test_a_drive_stays_inside_its_region(town: Town) -> None:
    for i, region in enumerate(core_regions(town.place)):
        drive = draw_drive(town, i, 35.0, region_bounds(town, region))
        if drive is not None:
            lats, lons = town.place.to_degrees(*drive.places(TIMES)[:2])
            assert geo.region_contains(region, lats, lons).all()


def test_cars_drive_at_5_to_15_m_s_and_sometimes_stop(drives: list[Drive]) -> None:
    speeds = np.concatenate([drive.speeds(TIMES[2:-2]) for drive in drives])
    assert speeds.max() <= 15.5
    moving = speeds[speeds > 0.5]
    assert np.percentile(moving, 50) > 5.0
    assert (speeds < 0.5).mean() > 0.01
    assert (speeds < 0.5).mean() < 0.5


def test_cars_move_as_cars_do(town: Town, drives: list[Drive]) -> None:
    long = [drive for k in range(4) if (drive := draw_drive(town, 900 + k, 100.0)) is not None]
    assert long
    for drive in drives + long:
        times = np.arange(0.0, 35.0, 0.1)
        x, y, heading = drive.places(times)
        steps = np.hypot(np.diff(x), np.diff(y))
        speed = steps / 0.1
        heading = np.unwrap(heading)
        yaw = np.diff(heading) / 0.1
        assert (speed * np.abs(yaw)).max() < CAR_LIMITS.sideways_m_s2
        assert (np.abs(np.diff(speed)) / 0.1).max() < CAR_LIMITS.along_m_s2
        assert np.degrees(np.abs(yaw)).max() < CAR_LIMITS.yaw_deg_s
        bends = np.abs(np.diff(heading))[steps > 0.05] / steps[steps > 0.05]
        assert bends.max() < 1.0 / CAR_LIMITS.turning_circle_m


def test_a_car_does_not_slow_down_because_its_lane_ends(drives: list[Drive]) -> None:
    for drive in drives:
        times = drive.duration_s - np.arange(0.45, -0.01, -0.05)
        rates = np.abs(np.diff(drive.speeds(times))) / 0.05
        assert rates.max() < 1.1 * CAR_LIMITS.along_m_s2


def test_cars_turn(drives: list[Drive]) -> None:
    turned = [np.ptp(np.unwrap(drive.places(TIMES)[2])) for drive in drives]
    assert sum(angle > np.radians(50) for angle in turned) >= 3


def test_cars_keep_to_the_right_lane_on_asphalt(town: Town, drives: list[Drive]) -> None:
    layers, right, on_asphalt = town.layers, [], []
    for drive in drives:
        x, y, heading = drive.places(TIMES)
        rows, columns = (y / layers.metres_per_pixel).astype(int), (x / layers.metres_per_pixel).astype(int)
        on_asphalt.append((layers.margin[rows, columns] * FIELD_UNIT_M < 0.3).mean())
        for r, c, h in zip(rows, columns, heading, strict=True):
            road = town.plan.roads[layers.nearest_road[r, c]]
            along = layers.along[r, c] * FIELD_UNIT_M
            if 25 < along < road.length_m - 25:
                k = min(int(along / road.length_m * (len(road.points) - 1)), len(road.points) - 2)
                step = road.points[k + 1] - road.points[k]
                forward = step @ np.array([np.sin(h), -np.cos(h)]) > 0
                right.append(layers.lateral[r, c] * (1 if forward else -1) > 0)
    assert np.mean(on_asphalt) > 0.98
    assert np.mean(right) > 0.97


def test_time_runs_forward_and_lasts(drives: list[Drive]) -> None:
    for drive in drives:
        assert (np.diff(drive.times_s) >= 0).all()
        assert (np.diff(drive.distances_m) >= 0).all()
        assert drive.duration_s >= 35.0


def test_frames_move_with_the_car(town: Town, drives: list[Drive]) -> None:
    film = open_film(town, drives[0], 48, 96)
    first, later = film.image(0.0).astype(int), film.image(12.0).astype(int)
    assert first.shape == (48, 96, 3)
    assert np.abs(first - later).mean() > 5


def test_night_is_darker_than_day(town: Town) -> None:
    day, night = draw_drive(town, 1, 10.0), draw_drive(town, 1, 10.0, night=True)
    assert day is not None
    assert night is not None
    assert open_film(town, night, 48, 96).image(3.0).mean() < 0.6 * open_film(town, day, 48, 96).image(3.0).mean()


def test_a_place_without_roads_gives_no_drive(town: Town) -> None:
    assert draw_drive(town, 1, 35.0, Bounds(10.0, 10.0, 12.0, 12.0)) is None
