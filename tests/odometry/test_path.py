from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from helpers.command_line import x2l
from helpers.street import Square, straight
from x2localizer.errors import TrackError
from x2localizer.evaluate.odometry import Driven, summarize
from x2localizer.geo import LocalMetres
from x2localizer.odometry.path import compare, path_of, write_rates
from x2localizer.sources.motion import MotionRecord
from x2localizer.sources.motion.read import read_motion
from x2localizer.sources.tracks import Track, write_gpx
from x2localizer.sources.video.writer import VideoWriter
from x2localizer.types import Floats, Position

ORIGIN = Position(48.0, 11.0)


def _record(seconds: float = 60.0, speed: float = 10.0, yaw_rate: float = 6.0) -> MotionRecord:
    times = np.linspace(0.0, seconds, int(seconds * 10) + 1)
    return MotionRecord.of_rates(times, np.full(len(times), speed), np.full(len(times), yaw_rate), scale_sd=0.03)


def _track(times_s: Floats, path: Floats) -> Track:
    lats, lons = LocalMetres(ORIGIN).to_degrees(path[:, 0], path[:, 1])
    return Track(times_s, lats, lons, datetime(2025, 6, 1, tzinfo=UTC))


def test_a_circle_closes() -> None:
    path = path_of(_record())
    assert path[0] == pytest.approx((0.0, 0.0))
    assert path[-1] == pytest.approx((0.0, 0.0), abs=1e-6)
    assert path[150] == pytest.approx((600 / 2 / np.pi, 600 / 2 / np.pi), rel=1e-3)  # a quarter: ahead, to the right


def test_a_path_beside_itself_has_no_drift() -> None:
    record = _record(yaw_rate=2.0)
    turned = path_of(record) @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    result = compare(record, _track(record.times_s, turned))
    assert result.path_m == pytest.approx(result.truth_m, abs=0.05)
    assert result.drift_per_100m < 0.01
    assert result.heading_drift_deg_min == pytest.approx(0.0, abs=0.05)
    assert result.distance_m == pytest.approx(600.0, rel=1e-3)


def test_drift_is_measured() -> None:
    record, truth = _record(yaw_rate=0.1), _record(yaw_rate=0.0)
    result = compare(record, _track(truth.times_s, path_of(truth)))
    assert result.heading_drift_deg_min == pytest.approx(5.8, abs=0.4)
    assert result.drift_per_100m == pytest.approx(100 * np.radians(3.0), rel=0.1)


def test_a_truth_of_another_time_is_an_error() -> None:
    record = _record(10.0)
    with pytest.raises(TrackError, match="covers no moment"):
        compare(record, _track(record.times_s + 100.0, path_of(record)))


def test_rates_add_up_to_the_record(tmp_path: Path) -> None:
    record = _record(yaw_rate=3.0)
    write_rates(tmp_path / "motion.csv", record)
    rows = np.genfromtxt(tmp_path / "motion.csv", delimiter=",", names=True)
    again = read_motion(tmp_path / "motion.csv")
    assert again.distances_m == pytest.approx(record.distances_m, abs=0.01)
    assert again.headings_deg == pytest.approx(record.headings_deg, abs=0.01)
    assert again.heading_vars == pytest.approx(record.heading_vars, rel=0.02, abs=0.02)
    assert rows["speed_sd_m_s"] == pytest.approx(0.3, abs=1e-3)


def test_the_figures_of_a_bench() -> None:
    truth = _record()
    exact = Driven(truth, truth.distances_m, truth.headings_deg, 5.0)
    figures = summarize([exact])
    assert (figures["turn_deg_median"], figures["distance_percent_p90"]) == (0.0, 0.0)
    off = Driven(truth, 1.1 * truth.distances_m, truth.headings_deg + 0.1 * truth.times_s, 5.0)
    figures = summarize([off])
    assert figures["turn_deg_median"] == pytest.approx(3.0)
    assert figures["distance_percent_median"] == pytest.approx(100 * 0.1 / 1.1)
    assert figures["normalised_turn"] == pytest.approx(1.0 / (0.3 * 10**0.5))
    assert figures["normalised_distance"] > 2.0


def test_the_speed_of_a_standing_car() -> None:
    record = _record(speed=0.2)
    figures = summarize([Driven(record, np.zeros_like(record.times_s), record.headings_deg, 5.0)])
    assert figures["standing_m_s"] == pytest.approx(0.2)
    assert np.isnan(figures["distance_percent_median"])


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A drive of 60 m along a street, with its track."""
    folder = tmp_path_factory.mktemp("drive")
    street, places = Square(sides_m=(11.0, 70.0)), straight(76, 0.8)
    with VideoWriter(folder / "drive.mp4", 384, 216, 10) as video:
        for frame in street.frames(places):
            video.write(frame.image, frame.time_s)
    times = np.linspace(0.0, 7.5, 76)
    write_gpx(folder / "drive.gpx", _track(times, np.array(places)[:, :2]))
    return folder


def test_the_command(drive: Path, tmp_path: Path) -> None:
    text = x2l("odometry", str(drive / "drive.mp4"), "--truth", str(drive / "drive.gpx"), "--out", str(tmp_path))
    assert "drift per 100 m" in text
    rows = np.genfromtxt(tmp_path / "motion.csv", delimiter=",", names=True)
    assert np.median(rows["speed_m_s"]) == pytest.approx(8.0, rel=0.08)
    assert np.isfinite(rows["yaw_rate_sd_deg_s"]).all()
    with Pillow.open(tmp_path / "path.png") as picture:
        assert picture.width > 400


def test_the_command_without_truth_as_json(drive: Path, tmp_path: Path) -> None:
    text = x2l("odometry", str(drive / "drive.mp4"), "--out", str(tmp_path), "--horizon", "0.55", "--json")
    values = json.loads(text.splitlines()[-1])
    assert values["distance_m"] == pytest.approx(59.0, rel=0.06)
    assert abs(values["turn_deg"]) < 1.5
    assert (tmp_path / "path.png").is_file()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("NOWHERE.mp4",), "There is no video"),
        (("DRIVE", "--fov", "400"), "field of view of 400"),
        (("DRIVE", "--camera-height", "-1"), "is not possible"),
        (("DRIVE", "--truth", "NOWHERE.gpx"), "NOWHERE.gpx"),
        (("DARK",), "no movement that can be measured"),
    ],
)
def test_bad_input(words: tuple[str, ...], problem: str, drive: Path, tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "dark.mp4", 384, 216, 10) as video:
        for k in range(8):
            video.write(np.zeros((216, 384, 3), np.uint8), 0.1 * k)
    names = {"DRIVE": str(drive / "drive.mp4"), "DARK": str(tmp_path / "dark.mp4")}
    text = x2l("odometry", *(names.get(word, word) for word in words), "--out", str(tmp_path / "out"), code=2)
    assert problem in "".join(text.split("\n"))
    assert "next: " in text


def test_every_window_ends_at_its_time() -> None:
    record = _record(40.0)
    driven = Driven(record, record.distances_m, record.headings_deg, 5.0)
    shorter = replace(
        driven, headings_deg=np.where(record.times_s >= 35.0, record.headings_deg + 1, record.headings_deg)
    )
    assert summarize([shorter])["turn_deg_p90"] == 1.0
