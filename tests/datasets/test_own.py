"""One's own drives as a dataset: what is in it, that splits share no ground, and what is left out and why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.command_line import x2l
from helpers.recorded_drives import city, drive
from x2localizer import geo
from x2localizer.config import DatasetSettings
from x2localizer.datasets.check import check_dataset
from x2localizer.datasets.dataset import open_dataset
from x2localizer.datasets.own import RecordedDrive, prepare_own
from x2localizer.errors import DatasetError
from x2localizer.sources.imagery import open_imagery
from x2localizer.sources.tracks import read_track
from x2localizer.town.folder import save_drive, save_town
from x2localizer.town.town import Town

SETTINGS = DatasetSettings(frame_height=32, frame_width=64, tile_px=32)


@pytest.fixture(scope="module")
def drives(town: Town, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    save_town(town, folder / "town")
    for number in (1, 2):
        save_drive(town, folder / str(number), number, 80.0, fps=1.0, height=64, width=128)
    return folder


def test_own_drives_become_a_sound_dataset(drives: Path, tmp_path: Path) -> None:
    rides = [RecordedDrive(str(drives / n / "drive.mp4"), drives / n / "drive.gpx") for n in ("1", "2")]
    imagery = drives / "town" / "aerial.tif"
    made = prepare_own(rides, imagery, tmp_path / "d", SETTINGS, val=0.0, test=0.0)
    assert made.clips["train"] + sum(made.left_out.values()) == 6
    assert made.left_out["shorter than a clip"] == 2
    assert made.clips["train"] >= 2
    assert {finding.what for finding in check_dataset(tmp_path / "d").findings} == {
        "splits without a clip of 8 keyframes"  # val and test, which were not asked for
    }
    data = open_dataset(tmp_path / "d")
    video = data.videos("train")[0]
    keys = data.keyframes(video.video_id)
    assert len(keys) == 8
    assert [key.time_s for key in keys] == pytest.approx([5.0 * k for k in range(8)], abs=0.01)
    track = read_track(drives / str(int(video.ride_id[5:]) + 1) / "drive.gpx")
    truth = track.at(36.0 * int(video.video_id[-4:]) + keys[3].time_s)
    assert truth is not None
    assert float(geo.distance_m(keys[3].lat_deg, keys[3].lon_deg, truth.lat_deg, truth.lon_deg)) < 1.0
    with open_imagery(imagery) as opened:
        expected = opened.square(keys[3].position, 19, 32).image.astype(float)
    assert float(np.abs(data.picture(keys[3].tile).astype(float) - expected).mean()) < 4.0


def _record(folder: Path, roads: list[tuple[float, float, int]]) -> list[RecordedDrive]:
    """Straight drives: metres east and north of their start, and seconds."""
    return [
        RecordedDrive(*drive(folder, f"d{number}", east_m, north_m, seconds))
        for number, (east_m, north_m, seconds) in enumerate(roads)
    ]


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return city(tmp_path_factory.mktemp("field") / "city.tif", 3000.0)


def test_splits_share_no_ground_and_none_is_empty(field: Path, tmp_path: Path) -> None:
    """Three roads, two of them on top of each other in the east-west direction: strips must run along them."""
    rides = _record(tmp_path, [(0.0, 0.0, 260), (0.0, 100.0, 260), (0.0, 1200.0, 80), (100.0, 2400.0, 80)])
    made = prepare_own(rides, field, tmp_path / "d", SETTINGS)
    assert made.clips == {"train": 14, "val": 2, "test": 2}
    assert made.left_out == {"shorter than a clip": 4}
    data = open_dataset(tmp_path / "d")
    for one, other in (("train", "val"), ("train", "test"), ("val", "test")):
        for a in data.regions(one):
            for b in data.regions(other):
                assert geo.region_overlap(a.region, b.region) == 0
    assert check_dataset(tmp_path / "d").findings == []


def test_too_little_driving_is_refused_before_anything_is_written(field: Path, tmp_path: Path) -> None:
    rides = _record(tmp_path, [(0.0, 0.0, 80), (0.0, 20.0, 80)])
    with pytest.raises(DatasetError) as refused:
        prepare_own(rides, field, tmp_path / "d", SETTINGS)
    assert "4 clips of 35 s are too few" in refused.value.what
    assert "0 val" in refused.value.what
    assert "Left out: 2 shorter than a clip." in refused.value.what
    assert "at least 2 more minutes of driving, 357 m or more away" in refused.value.remedy
    assert not (tmp_path / "d").exists()
    made = prepare_own(rides, field, tmp_path / "d", SETTINGS, val=0.0, test=0.0)  # the same folder, fewer splits
    assert made.clips == {"train": 4}


def test_an_interrupted_run_can_be_started_again(field: Path, tmp_path: Path) -> None:
    rides = _record(tmp_path, [(0.0, 0.0, 400)])

    def interrupt(text: str) -> None:
        if "clips written" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare_own(rides, field, tmp_path / "d", SETTINGS, val=0.2, test=0.2, progress=interrupt)
    assert (tmp_path / "d" / "frames").exists()
    with pytest.raises(DatasetError, match=r"has no dataset\.json"):
        open_dataset(tmp_path / "d")
    lines: list[str] = []
    made = prepare_own(rides, field, tmp_path / "d", SETTINGS, val=0.2, test=0.0, progress=lines.append)
    assert made.clips["val"] > 0
    assert f"{rides[0].video}: 10 clips read" in lines
    names = {path.name for path in (tmp_path / "d").iterdir()} - {".lock"}
    assert names == {
        "dataset.json",
        "regions.parquet",
        "videos.parquet",
        "frames.parquet",
        "regions",
        "frames",
        "tiles",
    }
    assert not (tmp_path / "d" / "frames" / "test").exists()
    with pytest.raises(DatasetError, match="other files"):
        prepare_own(rides, field, tmp_path / "d", SETTINGS)


def test_the_check_refuses_what_cannot_be_trained_on(field: Path, tmp_path: Path) -> None:
    rides = _record(tmp_path, [(0.0, 0.0, 80)])
    prepare_own(rides, field, tmp_path / "d", SETTINGS, val=0.0, test=0.0)
    report = check_dataset(tmp_path / "d")
    assert not report.sound
    error, note = report.findings
    assert (error.level, error.what) == ("error", "splits without a clip of 8 keyframes")
    assert error.examples[0].startswith("val: training needs it")
    assert (note.level, note.examples) == ("note", ("test",))


def test_the_command_reports_progress_and_counts(field: Path, tmp_path: Path) -> None:
    (ride,) = _record(tmp_path, [(0.0, 0.0, 80)])
    words = ("prepare", "own", "--video", ride.video, "--track", str(ride.track), "--imagery", str(field))
    text = x2l(*words, "--out", str(tmp_path / "d"), "--val", "0", "--test", "0")
    assert "d0.mp4: reading the track and the video" in text  # also where there is no terminal
    assert "2 train clips of 35 s" in text
    assert "no validation clips" in text
    text = x2l(*words, "--out", str(tmp_path / "e"), code=2)
    assert "too few" in text
    assert "more minutes" in text


def test_what_cannot_be_used_is_reported(drives: Path, tmp_path: Path) -> None:
    ride = RecordedDrive(str(drives / "1" / "drive.mp4"), drives / "1" / "drive.gpx", offset_s=-5000.0)
    with pytest.raises(DatasetError, match="without a recorded position"):
        prepare_own([ride], drives / "town" / "aerial.tif", tmp_path / "a", SETTINGS)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").touch()
    with pytest.raises(DatasetError, match="other files"):
        prepare_own([ride], drives / "town" / "aerial.tif", tmp_path / "b", SETTINGS)
    with pytest.raises(DatasetError, match="nothing to train on"):
        prepare_own([], drives / "town" / "aerial.tif", tmp_path / "c", SETTINGS)
