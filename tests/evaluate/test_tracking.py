"""Tracking of long drives: figures of known fixes, odometry and codes of rides, and the protocol on a small dataset."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from x2localizer import geo
from x2localizer.cli import app
from x2localizer.config import TrackSettings
from x2localizer.datasets.dataset import open_dataset
from x2localizer.datasets.motion import motion_path, read_record, write_film, write_record
from x2localizer.encoders import Bundle
from x2localizer.errors import ConfigError, DatasetError
from x2localizer.evaluate import recordings, tracking, tracking_tables
from x2localizer.evaluate import tracked as tracked_rides_module
from x2localizer.evaluate.recordings import ride_codes, ride_motion, ride_odometry, tracked_rides
from x2localizer.evaluate.rides import Followed, Ride
from x2localizer.evaluate.tracked import ARMS, Arm, Tracked, arms_named
from x2localizer.evaluate.tracking import degraded
from x2localizer.evaluate.workers import in_workers
from x2localizer.sources.roads import Roads
from x2localizer.town.drive import draw_drive, open_film
from x2localizer.town.town import Town
from x2localizer.types import Position, Region

PLACE = Position(41.0, -40.0)
FEW = TrackSettings(most_poses=4000, least_poses=1000)


def _ride(times_s: np.ndarray, name: str = "a") -> Ride:
    return Ride(name, Region(19, 0, 0, 7), (), times_s, (PLACE,) * len(times_s), False)


def _tracked(right: np.ndarray, sure: np.ndarray) -> Tracked:
    followed = Followed(np.where(right, 10.0, 500.0), np.where(sure, 0.95, 0.2), sure)
    return Tracked(followed, (), 5.0, 1000.0, 2, np.zeros(0))


# Figures -------------------------------------------------------------------------------------------------------------


def test_seconds_count_again_after_a_gap() -> None:
    times = np.concatenate([np.arange(100.0), 150.0 + np.arange(100.0)])
    since = tracking_tables.since_start_s(times)
    assert since[:100].tolist() == list(range(100))
    assert since[100:].tolist() == list(range(100))
    assert tracking_tables.since_start_s(np.array([5.0, 6.0, 8.9])).tolist() == [0.0, 1.0, pytest.approx(3.9)]


def test_frames_count_from_60_s_after_a_start_or_gap() -> None:
    times = np.concatenate([np.arange(100.0), 150.0 + np.arange(100.0)])
    since = tracking_tables.since_start_s(times)
    right = since >= 60  # wrong only where frames do not count yet
    found = tracking_tables.figures([_ride(times)], [_tracked(right, right)])
    assert found.settled is not None
    assert found.within is not None
    assert (found.settled.mean, found.settled_median_m) == (100.0, 10.0)
    assert found.within.mean == 40.0
    assert (found.sure, found.sure_right, found.first_sure_s) == (40.0, 100.0, 60.0)
    assert (found.off_map, found.off_map_frames) == (None, 0)
    short = tracking_tables.figures([_ride(np.arange(30.0))], [_tracked(np.ones(30, np.bool_), np.ones(30, np.bool_))])
    assert (short.settled, short.settled_median_m) == (None, None)


def test_the_first_seconds_of_a_drive_are_counted_by_themselves() -> None:
    times = np.concatenate([np.arange(50.0), 90.0 + np.arange(50.0)])
    right = (times >= 5) & (times < 90)  # the seconds after a gap are no start
    found = tracking_tables.figures([_ride(times)], [_tracked(right, right)])
    assert found.early is not None
    assert found.early.mean == 50.0


def test_drives_on_the_map_are_told_from_those_off_it() -> None:
    apart = tracking_tables.told_apart(np.array([0.9, 0.8, 0.8]), np.array([0.1, 0.8]))
    assert apart is not None
    assert apart.mean == pytest.approx(100 * (2 * 3 - 2 * 0.5) / 6)
    assert apart.low <= apart.mean <= apart.high
    assert tracking_tables.told_apart(np.array([0.9]), np.zeros(0)) is None


def test_day_and_night_are_counted_apart() -> None:
    times, yes, no = np.arange(100.0), np.ones(100, np.bool_), np.zeros(100, np.bool_)
    half = np.arange(100) < 50
    results = tracking.Results(
        [_ride(times, "day"), _ride(times, "night")], [False, True],
        {"sensors, roads": [_tracked(yes, yes), _tracked(no, half)]},
        [False, True, True], {"sensors, roads": [_tracked(no, no), _tracked(no, half), _tracked(no, no)]},
    )  # fmt: skip
    (row,) = tracking_tables.track_rows(results)
    assert row.every.sure == 75.0
    assert row.searches_per_min == pytest.approx(60 * 4 / 200)
    assert row.every.sure_right == pytest.approx(100 * 100 / 150)
    assert (row.day.off_map, row.night.off_map) == (0.0, 25.0)
    assert row.every.off_map == pytest.approx(50 / 3)
    assert row.day.settled is not None
    assert row.night.settled is not None
    assert (row.day.settled.mean, row.night.settled.mean) == (100.0, 0.0)
    assert (row.day.settled_median_m, row.night.settled_median_m) == (10.0, 500.0)
    assert [round(share, 2) for _, share, _ in row.reliability] == [0.0, 0.67]
    assert set(tracking_tables.panels([row])) == {"by day", "at night"}
    values = json.loads(json.dumps(tracking_tables.to_values([row])))
    (again,) = tracking_tables.from_values(values)
    assert tracking_tables.table_text([again]) == tracking_tables.table_text([row])
    text = tracking_tables.table_text([row])
    assert "| sensors, roads | 75.0% | 66.7% | 100.0% | 100.0% | 50.0% | 0.0% |" in text
    assert "| 0.00% | 25.00% |" in text


def test_figures_without_rides_at_night_are_left_out() -> None:
    yes = np.ones(100, np.bool_)
    results = tracking.Results([_ride(np.arange(100.0))], [False], {"a": [_tracked(yes, yes)]}, [], {"a": []})
    (row,) = tracking_tables.track_rows(results)
    assert (row.night.within, row.night.sure, row.night.first_sure_s) == (None, None, None)
    assert set(row.curves) == {"day"}
    assert "-" in tracking_tables.table_text([row])


# Arms and maps -------------------------------------------------------------------------------------------------------


def test_arms_are_found_by_name() -> None:
    assert arms_named() == ARMS
    assert arms_named(["sensors, tiles"]) == (Arm(roads=False),)
    assert {arm.source for arm in arms_named(["video"])} == {"video"}
    assert len(arms_named(["degraded", "smoothed"])) == 2
    with pytest.raises(ConfigError, match="no arm 'wheels'"):
        arms_named(["wheels"])


def test_degraded_roads_are_always_the_same() -> None:
    rng = np.random.default_rng(3)
    lines = PLACE.lat_deg + rng.normal(0, 0.01, (200, 2, 1)), PLACE.lon_deg + rng.normal(0, 0.01, (200, 2, 1))
    points = np.concatenate(lines, 2).reshape(-1, 2)
    roads = Roads(points, np.arange(201) * 2, np.ones(200, np.int8), np.zeros(200, np.bool_))
    first, second = degraded(roads), degraded(roads)
    assert len(first) == 180
    assert np.array_equal(first.points_deg, second.points_deg)
    away = geo.distance_m(*first.points_deg[:, None].T, *points[None].T).T.min(1)  # to the point that it comes from
    assert away.max() < 5.2
    assert np.median(away) == pytest.approx(5.0, abs=0.1)


def test_work_in_processes_is_the_same_as_in_this_one() -> None:
    numbers = [3.0, -1.0, 2.5, 8.0]
    assert (
        sorted(in_workers(abs, numbers, 1)) == sorted(in_workers(abs, numbers, 2)) == list(enumerate(map(abs, numbers)))
    )


# Recordings ----------------------------------------------------------------------------------------------------------


def test_a_gap_has_no_odometry(tiny_dataset: Path) -> None:
    data = open_dataset(tiny_dataset)
    for ride in tracked_rides(data, "test"):
        odometry = ride_odometry(data, ride, "sensors", 0.5)
        empty = [number for number, movements in enumerate(odometry.movements) if not movements]
        starts = np.flatnonzero(np.concatenate([[True], np.diff(ride.times_s) > 3.0])).tolist()
        assert empty == starts
        assert len(starts) == len(ride.videos)
        for number, movements in enumerate(odometry.movements):
            if movements:
                assert movements[-1].end_s == pytest.approx(ride.times_s[number])
        assert odometry.scale_sd > 0


def test_a_dataset_without_motion_is_an_error(tiny_dataset: Path) -> None:
    data = open_dataset(tiny_dataset)
    clip = data.videos("test")[0]
    with pytest.raises(DatasetError, match="no motion of"):
        ride_motion(data, clip, "sensors")
    with pytest.raises(DatasetError, match="no film of"):
        ride_motion(data, clip, "video")


def test_odometry_of_a_film_is_computed_once(
    tiny_dataset: Path, town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(shutil.copytree(tiny_dataset, tmp_path / "data"))
    data = open_dataset(root)
    video = tracked_rides(data, "test")[0].videos[0]
    drive = draw_drive(town, 4, 30.0)
    assert drive is not None
    film, times = open_film(town, drive, 96, 176), np.arange(30) / 6
    write_film(root, video, times, (film.image(10.0 + float(t)) for t in times), drive.fov_deg)
    reported: list[int] = []
    recordings.make_video_motion(data, [video], lambda what, done, total: reported.append(done), 1)
    assert reported == [1]
    kept = read_record(motion_path(root, video, "video"))
    assert kept is not None
    monkeypatch.setattr(recordings, "video_motion", None)  # it must not be needed again
    recordings.make_video_motion(data, [video], lambda what, done, total: reported.append(done), 1)
    assert reported == [1]
    assert np.array_equal(ride_motion(data, video, "video").distances_m, kept.distances_m)


def test_codes_of_a_ride_are_kept(tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    data = open_dataset(tiny_dataset)
    ride = tracked_rides(data, "test")[0]
    codes = ride_codes(data, ride, tiny_bundle, tmp_path)
    assert codes.shape == (len(ride.times_s), tiny_bundle.spec.dim)
    assert np.isfinite(codes).all()
    (file,) = tmp_path.iterdir()
    np.save(file, codes + 1)
    assert np.array_equal(ride_codes(data, ride, tiny_bundle, tmp_path), codes + 1)


# The protocol --------------------------------------------------------------------------------------------------------


def test_every_arm_follows_every_drive_once(
    tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(shutil.copytree(tiny_dataset, tmp_path / "data"))
    data = open_dataset(root)
    rides = tracked_rides(data, "test")
    for ride in rides:
        for video in ride.videos:  # as odometry by video would be kept
            record = ride_motion(data, video, "sensors")
            write_record(motion_path(root, video, "video"), replace(record, scale_sd=0.05))
    found = tracking.run_tracking(
        tiny_bundle, data, "test", tmp_path / "work", foreign=data, settings=FEW, workers=1, most_rides=1
    )
    assert list(found.found) == list(found.foreign) == [arm.name for arm in ARMS]
    assert [ride.ride_id for ride in found.rides] == [rides[0].ride_id]
    for results in (*found.found.values(), *found.foreign.values()):
        (tracked,) = results
        assert len(tracked.followed.errors_m) == len(tracked.evidence) == len(rides[0].times_s)
        assert np.isfinite(tracked.followed.errors_m).all()
        assert tracked.ms_per_step > 0
        assert tracked.searches >= 1
    by_roads = found.found["sensors, roads"][0]
    monkeypatch.setattr(tracked_rides_module, "track", None)  # it must not be needed again
    again = tracking.run_tracking(
        tiny_bundle, data, "test", tmp_path / "work", foreign=data, settings=FEW, workers=1, most_rides=1
    )
    for arm, (one,) in again.found.items():
        assert np.array_equal(one.followed.errors_m, found.found[arm][0].followed.errors_m)
        assert one.evidence == found.found[arm][0].evidence
    assert {evidence.has_tiles for evidence in by_roads.evidence} == {False}
    assert np.array_equal(by_roads.followed.errors_m, found.foreign["sensors, roads"][0].followed.errors_m)


def test_a_dataset_without_roads_or_film_has_fewer_arms(
    tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(tiny_dataset, tmp_path / "data"))
    shutil.rmtree(root / "roads")
    found = tracking.run_tracking(
        tiny_bundle, open_dataset(root), "test", tmp_path / "work", settings=FEW, workers=1, most_rides=1
    )
    assert list(found.found) == ["sensors, tiles"]
    with pytest.raises(DatasetError, match="no odometry or no roads"):
        tracking.run_tracking(
            tiny_bundle, open_dataset(root), "test", tmp_path / "work", arms=arms_named(["video"]), workers=1
        )


def test_the_protocol_from_the_command_line(tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["evaluate", str(tiny_bundle.root), "--protocol", "tracking", "--data", str(tiny_dataset)]
    words += ["--arms", "sensors, roads", "--arms", "sensors, tiles", "--foreign-arms", "sensors, roads"]
    words += ["--foreign", str(tiny_dataset), "--rides", "1", "--workers", "1", "--set", "road_weight=0"]
    words += [word for name in ("start", "most", "unclear") for word in ("--set", f"{name}_poses=4000")]
    run = CliRunner().invoke(app, [*words, "--work", str(tmp_path / "work"), "--out", str(out)])
    assert run.exit_code == 0, run.output
    values = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert [row["arm"] for row in values["rows"]] == ["sensors, tiles", "sensors, roads"]
    assert (values["rides"], values["foreign_rides"]) == (1, 1)
    assert values["rows"][0]["every"]["off_map"] is None
    figures = values["rows"][1]["every"]
    assert figures["frames"] == figures["off_map_frames"] > 100
    assert values["settings"]["road_weight"] == 0.0
    assert figures["sure"] == 0.0  # roads without a weight say nothing
    assert "| sensors, roads |" in (out / "table.md").read_text(encoding="utf-8")
    assert (out / "curves.png").is_file()
    wrong = CliRunner().invoke(app, [*words, "--set", "rode_weight=0"])
    assert "road_weight" in str(wrong.exception)  # the nearest key
