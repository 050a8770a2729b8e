"""KITTI's raw recordings of a car's GPS and inertial unit, as motion and as a track."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from x2localizer.errors import MotionError, TrackError
from x2localizer.sources.motion import read_motion
from x2localizer.sources.oxts import CLOCK, COLUMNS, LATITUDE, LONGITUDE, SPEED, YAW_RATE
from x2localizer.sources.tracks import read_track
from x2localizer.types import Floats

COUNT, SPACING_S = 50, 0.1036


def _rows() -> Floats:
    """A car that drives north at 10 m/s and turns left by 0.1 radians a second."""
    rows = np.zeros((COUNT, COLUMNS))
    rows[:, LATITUDE], rows[:, LONGITUDE] = 49.0 + np.arange(COUNT) * 1e-5, 8.4
    rows[:, SPEED], rows[:, YAW_RATE] = 10.0, 0.1
    return rows


def _file(path: Path, rows: Floats) -> Path:
    np.savetxt(path, rows)
    return path


def _drive(folder: Path, clock: bool = True) -> Path:
    """A folder as KITTI has it."""
    data = folder / "oxts" / "data"
    data.mkdir(parents=True)
    for number, row in enumerate(_rows()):
        np.savetxt(data / f"{number:010d}.txt", row[None])
    if clock:
        lines = [f"2011-09-30 12:05:{5 + k * SPACING_S:012.9f}" for k in range(COUNT)]
        (folder / "oxts" / CLOCK).write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("part", [".", "oxts", "oxts/data"])
def test_a_folder_gives_motion_with_its_own_times(tmp_path: Path, part: str) -> None:
    record = read_motion(_drive(tmp_path) / part)
    assert record.duration_s == pytest.approx((COUNT - 1) * SPACING_S)
    assert record.start_time is not None
    assert record.start_time.isoformat() == "2011-09-30T12:05:05+00:00"
    movement = record.between(1.0, 2.0)
    assert movement is not None
    assert movement.distance_m == pytest.approx(10.0)
    assert movement.turn_deg == pytest.approx(-np.degrees(0.1))  # left is negative


def test_positions_are_a_track_with_the_same_times(tmp_path: Path) -> None:
    track = read_track(_drive(tmp_path))
    assert len(track) == COUNT
    place = track.at(10 * SPACING_S)
    assert place is not None
    assert (place.lat_deg, place.lon_deg) == pytest.approx((49.0001, 8.4))


def test_a_file_of_rows_is_read_at_ten_a_second_or_as_told(tmp_path: Path) -> None:
    path = _file(tmp_path / "drive.txt", _rows())
    record = read_motion(path)
    assert record.duration_s == pytest.approx((COUNT - 1) / 10)
    assert record.scale_sd == 0.05  # nobody said how far apart the rows are
    told = read_motion(path, rate_hz=20.0)
    assert told.duration_s == pytest.approx((COUNT - 1) / 20)
    assert told.scale_sd == 0.03
    assert read_track(path).duration_s == pytest.approx((COUNT - 1) / 10)


def test_damage_is_named(tmp_path: Path) -> None:
    path = _file(tmp_path / "drive.txt", _rows())
    path.write_text(path.read_text() + "1 2 3\n")
    with pytest.raises(MotionError, match=f"Line {COUNT + 1}"):
        read_motion(path)
    with pytest.raises(TrackError, match="not 30 numbers"):
        read_track(path)
    with pytest.raises(MotionError, match="too few"):
        read_motion(_file(tmp_path / "one.txt", _rows()[:1]))


def test_times_must_be_as_many_as_rows_and_be_times(tmp_path: Path) -> None:
    drive = _drive(tmp_path)
    clock = drive / "oxts" / CLOCK
    lines = clock.read_text().splitlines()
    clock.write_text("\n".join(lines[:-1]))
    with pytest.raises(MotionError, match="49 times"):
        read_motion(drive)
    clock.write_text("\n".join([*lines[:-1], "noon"]))
    with pytest.raises(TrackError, match="not a time: noon"):
        read_track(drive)


def test_a_folder_without_rows_is_not_a_recording(tmp_path: Path) -> None:
    with pytest.raises(MotionError, match="Cannot read"):
        read_motion(tmp_path)
