"""One's own drives as a data set: what is in it, that splits share no ground, and what is left out and why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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


def test_own_drives_become_a_sound_data_set(drives: Path, tmp_path: Path) -> None:
    rides = [RecordedDrive(str(drives / n / "drive.mp4"), drives / n / "drive.gpx") for n in ("1", "2")]
    imagery = drives / "town" / "aerial.tif"
    made = prepare_own(rides, imagery, tmp_path / "d", SETTINGS, val=0.0, test=0.0)
    assert made.clips["train"] + sum(made.left_out.values()) == 6
    assert made.left_out["shorter than a clip"] == 2
    assert made.clips["train"] >= 2
    assert check_dataset(tmp_path / "d").sound
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


def test_splits_share_no_ground(drives: Path, tmp_path: Path) -> None:
    rides = [RecordedDrive(str(drives / n / "drive.mp4"), drives / n / "drive.gpx") for n in ("1", "2")]
    try:
        prepare_own(rides, drives / "town" / "aerial.tif", tmp_path / "d", SETTINGS, val=0.0, test=0.4)
    except DatasetError:
        pytest.fail("some clip keeps its ground")
    data = open_dataset(tmp_path / "d")
    for a in data.regions("train"):
        for b in data.regions("test"):
            assert geo.region_overlap(a.region, b.region) == 0
    assert data.videos("test")


def test_what_cannot_be_used_is_told(drives: Path, tmp_path: Path) -> None:
    ride = RecordedDrive(str(drives / "1" / "drive.mp4"), drives / "1" / "drive.gpx", offset_s=-5000.0)
    with pytest.raises(DatasetError, match="without a recorded position"):
        prepare_own([ride], drives / "town" / "aerial.tif", tmp_path / "a", SETTINGS)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").touch()
    with pytest.raises(DatasetError, match="other files"):
        prepare_own([ride], drives / "town" / "aerial.tif", tmp_path / "b", SETTINGS)
    with pytest.raises(DatasetError, match="nothing to train on"):
        prepare_own([], drives / "town" / "aerial.tif", tmp_path / "c", SETTINGS)
