"""Videos that start at another time than their tracks: labels must follow ``--offset``."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.command_line import x2l
from helpers.recorded_drives import SPEED_M_S, city, drive, place
from x2localizer import geo
from x2localizer.datasets.dataset import Dataset, open_dataset

SIZES = ("--set", "frame_height=32", "--set", "frame_width=64", "--set", "tile_px=32", "--val", "0", "--test", "0")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two drives whose videos start 12 s and 30 s after their tracks, and imagery."""
    folder = tmp_path_factory.mktemp("recorded")
    city(folder / "city.tif", 2000.0)
    drive(folder, "a", 200.0, 300.0, 40, late_s=12)
    drive(folder, "b", 200.0, 1500.0, 40, late_s=30)
    return folder


def _prepare(recorded: Path, out: Path, *more: str, code: int = 0) -> str:
    words = [
        word for name in "ab" for word in ("--video", f"{recorded}/{name}.mp4", "--track", f"{recorded}/{name}.csv")
    ]
    return x2l(
        "prepare", "own", *words, "--imagery", f"{recorded}/city.tif", "--out", str(out), *SIZES, *more, code=code
    )


def _error_m(data: Dataset, ride: str, north_m: float, late_s: float) -> float:
    """The largest distance of a drive's labels from where its camera was."""
    (video,) = [row for row in data.videos("train") if row.ride_id == ride]
    worst = 0.0
    for frame in data.frames(video.video_id):
        true = place(200.0 + SPEED_M_S * (late_s + frame.time_s), north_m)
        worst = max(worst, float(geo.distance_m(frame.lat_deg, frame.lon_deg, true.lat_deg, true.lon_deg)))
    return worst


def test_each_drive_may_have_its_own_offset(recorded: Path, tmp_path: Path) -> None:
    _prepare(recorded, tmp_path / "d", "--offset", "12", "--offset", "30")
    data = open_dataset(tmp_path / "d")
    assert _error_m(data, "drive000", 300.0, 12.0) < 2.0
    assert _error_m(data, "drive001", 1500.0, 30.0) < 2.0


def test_one_offset_is_for_all_drives_and_none_is_zero(recorded: Path, tmp_path: Path) -> None:
    _prepare(recorded, tmp_path / "one", "--offset", "12")
    data = open_dataset(tmp_path / "one")
    assert _error_m(data, "drive000", 300.0, 12.0) < 2.0
    assert _error_m(data, "drive001", 1500.0, 12.0) < 2.0
    _prepare(recorded, tmp_path / "none")
    assert _error_m(open_dataset(tmp_path / "none"), "drive000", 300.0, 0.0) < 2.0


def test_another_number_of_offsets_is_an_error(recorded: Path, tmp_path: Path) -> None:
    text = _prepare(recorded, tmp_path / "d", *("--offset", "1", "--offset", "2", "--offset", "3"), code=2)
    assert "2 videos and 3 offsets" in text
    assert not (tmp_path / "d").exists()
