"""GAMa: its lists, and its folders in a tiny tree of the same shape."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow
from typer.testing import CliRunner

from x2localizer import geo
from x2localizer.cli import app
from x2localizer.datasets.check import check_dataset
from x2localizer.datasets.dataset import open_dataset
from x2localizer.datasets.gama import keyframe_numbers, prepare_gama, region_of_track, report_lists
from x2localizer.datasets.gama_lists import read_lists
from x2localizer.datasets.rides import linked
from x2localizer.errors import DatasetError
from x2localizer.evaluate.rides import long_rides

START_MS = 1_500_000_000_000
TRAIN = [f"a{ride:03d}-{clip:08d}" for ride in range(30) for clip in range(2)]
VAL = ["b1c66a42-00000001", "b1c66a42-00000002", "b1c66a42-00000003", "b2000000-00000001"]
FRAMES = dict.fromkeys(TRAIN, 12) | dict(zip(VAL, (38, 37, 38, 6), strict=True))


def _picture(path: Path, side: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Pillow.fromarray(np.full((side, side, 3), 90, np.uint8)).save(path)


def _places(video: str) -> list[tuple[float, float]]:
    """Northward at 8 m/s; stands still at first, so that places repeat."""
    east = 0.0093 * int(video[1:4]) if video in TRAIN else 0.5
    return [(40.7 + 7e-5 * max(0, i - 2), -73.9 + east) for i in range(FRAMES[video])]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Public folders of GAMa and BDD100K in one: a few videos, each a little ragged."""
    seconds, gallery = [], []
    for video in [*TRAIN, *VAL]:
        side = "val" if video in VAL else "train"
        points = _places(video)
        late = 60_000 * int(video[-1]) if video != VAL[2] else 600_000
        locations = [
            {"timestamp": START_MS + late + 1000 * i + (i % 3), "latitude": lat, "longitude": lon, "speed": 8.0,
             "course": -1 if i == 0 else 0.0}
            for i, (lat, lon) in enumerate(points)
        ]  # fmt: skip
        info = {"rideID": video, "startTime": START_MS + late, "endTime": START_MS + late + 40_000}
        path = tmp_path / "info" / side / f"{video}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(info | {"locations": locations}))
        for i, (lat, lon) in enumerate(points):
            for kind in ("Ground", "Aerial"):
                _picture(tmp_path / kind / side / video / f"{i + 1}_{lat}_{lon}.jpg", 16)
            if side == "val":
                x, y = (int(v) for v in geo.tile_coordinates(lat, lon, 19))
                seconds.append(f"{video} {i + 1} {x}_{y}")
                gallery.append(f"{x}_{y} {video}")
        _picture(tmp_path / "GAMa" / f"{side}_hr" / f"{video}.jpeg", 28)
    (tmp_path / "train_day.list").write_text("".join(f"{video} 1202\n" for video in TRAIN))
    (tmp_path / "val_day_vid.list").write_text("\n".join(VAL) + "\n")
    (tmp_path / "val_gps_day.list").write_text("\n".join(seconds) + "\n")
    (tmp_path / "gallery_gps.list").write_text("\n".join(sorted(set(gallery))) + "\n")
    return tmp_path


def test_a_tree_becomes_a_sound_dataset(tree: Path) -> None:
    out = tree / "data"
    report = prepare_gama(tree, tree, out, held_out=0.5)
    assert report.counts["train videos"] == 60
    assert report.counts["val trajectories that fit 7 x 7 tiles"] == 4
    between = report.found["training videos between train and val, left out of both"]
    assert report.counts["videos in our train"] + report.counts["videos in our val"] + between == 60
    assert min(between, report.counts["videos in our train"], report.counts["videos in our val"]) > 0
    assert report.found["videos of fewer than 8 frames: not trained on"] == 1
    checked = check_dataset(out, full=True)
    assert checked.sound, checked.to_text()
    data = open_dataset(out)
    assert [row.video_id for row in data.videos("test")] == VAL
    frames = data.frames(VAL[0])
    assert [row.image_path.split("/")[-1].split("_")[0] for row in frames] == [str(i) for i in range(1, 39)]
    assert [row.index for row in frames if row.keyframe >= 0] == list(range(0, 40, 5))
    assert frames[4].time_s == pytest.approx(4.001)  # BDD100K's clock, not one frame per second
    assert frames[0].heading_deg is None
    assert frames[1].heading_deg == 0.0
    assert frames[1].speed_m_s == 8.0
    assert data.picture(frames[3].image).shape == (16, 16, 3)
    assert data.picture(frames[3].tile).shape == (16, 16, 3)
    region = data.regions("test")[0].region
    assert geo.region_contains(region, frames[0].lat_deg, frames[0].lon_deg)


def test_clips_of_a_ride_within_two_minutes_are_linked(tree: Path) -> None:
    prepare_gama(tree, tree, tree / "data")
    data = open_dataset(tree / "data")
    assert [[row.video_id for row in chain] for chain in linked(data.videos("test"))] == [VAL[:2]]
    (ride,) = long_rides(data, "test")
    assert ride.has_gap
    assert len(ride.truth) == 38 + 37
    assert ride.times_s[38] == pytest.approx(60.0, abs=0.1)


def test_what_is_missing_is_reported_and_nothing_is_dropped_silently(tree: Path) -> None:
    ground = tree / "Ground" / "val" / VAL[0]
    first = sorted(ground.iterdir())[0]
    (ground / "thumbs.db").write_text("no picture")
    (ground / f"7_{_places(VAL[0])[0][0] + 0.001}_-73.9.jpg").write_bytes(first.read_bytes())
    (ground / "99_0.0_0.0.jpg").write_bytes(first.read_bytes())
    (tree / "Aerial" / "val" / VAL[0] / first.name).unlink()
    (tree / "info" / "val" / f"{VAL[1]}.json").write_text("{ broken")
    (tree / "info" / "val" / f"{VAL[3]}.json").unlink()
    (tree / "GAMa" / "val_hr" / f"{VAL[2]}.jpeg").unlink()
    sorted((tree / "Ground" / "val" / VAL[1]).iterdir())[5].unlink()
    (tree / "train_day.list").open("a").write("a999-00000000 1202\n")
    found = prepare_gama(tree, tree, tree / "data").found
    assert found["files whose name is not INDEX_LAT_LON.jpg"] == 1
    assert found["frames with the number of another"] == 1
    assert found["frames at an impossible position"] == 1
    assert found["frames without a tile"] == 1
    assert found["damaged info files of BDD100K"] == 1
    assert found["videos without BDD100K's info: one frame per second is assumed"] == 2
    assert found["videos without a region"] == 1
    assert found["val videos with fewer frames than the list has"] == 1
    checked = check_dataset(tree / "data")
    assert checked.sound, checked.to_text()
    assert any(finding.what == "frames without a tile" for finding in checked.findings)
    assert found["videos without frames"] == 1
    manifest = json.loads((tree / "data" / "dataset.json").read_text())
    assert manifest["ragged"] == dict(found)


def test_keyframes_of_any_length() -> None:
    assert keyframe_numbers(38) == list(range(0, 40, 5))
    assert keyframe_numbers(36) == keyframe_numbers(40) == list(range(0, 40, 5))
    assert keyframe_numbers(49) == [0, 7, 14, 21, 27, 34, 41, 48]
    assert keyframe_numbers(9) == [0, 1, 2, 3, 5, 6, 7, 8]
    assert keyframe_numbers(3) == [0, 1, 2]


def test_a_region_holds_the_tiles_of_its_track() -> None:
    for span in range(1, 8):
        x = 154379.0 + np.array([0.1, span - 0.1])
        lats, lons = geo.from_tile_coordinates(x, np.full(2, 197218.5), 19)
        region = region_of_track(lats, lons)
        assert geo.region_contains(region, lats, lons).all()
        assert region.y == 197215


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("val_gps_day.list", "b1c66a42-00000001 one 1_2", "line 2"),
        ("val_gps_day.list", "b1c66a42-00000001 1 9999999_2", "not on the map"),
        ("gallery_gps.list", "1_2", "1 words instead of 2"),
        ("val_day_vid.list", "../../etc/passwd", "a path"),
        ("val_day_vid.list", VAL[0], "twice"),
        ("train_day.list", f"{TRAIN[0]} 3", "twice"),
    ],
)
def test_a_bad_line_is_named(tree: Path, name: str, line: str, message: str) -> None:
    lines = (tree / name).read_text().splitlines()
    (tree / name).write_text("\n".join([lines[0], line, *lines[1:]]))
    with pytest.raises(DatasetError, match=message):
        read_lists(tree)


def test_lists_that_disagree_are_reported(tree: Path) -> None:
    with (tree / "val_day_vid.list").open("a") as file:
        file.write(f"b9-1\n{TRAIN[0]}\n")
    with (tree / "val_gps_day.list").open("a") as file:
        file.write(f"b8-1 1 5_5\nb8-1 1 5_5\n{VAL[0]} 60 9_9\n")
    found = report_lists(read_lists(tree)).found
    assert found["val videos without a second"] == 2
    assert found["seconds of a video that is not in val"] == 1
    assert found["videos in train and in val"] == 1
    assert found["seconds that are listed twice"] == 1
    assert found["val trajectories wider than 7 tiles"] == 1


def test_the_command_and_its_errors(tree: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke(app, ["prepare", "gama", "--report", "--gama", str(tree)])
    assert "val videos" + 43 * " " + "4" in run.output
    run = CliRunner().invoke(app, ["prepare", "gama", "--gama", str(tree), "--out", str(tree / "data")])
    assert run.exit_code == 0, run.output
    again = CliRunner().invoke(app, ["prepare", "gama", "--gama", str(tree), "--out", str(tree / "data")])
    assert "contains other files" in str(again.exception)
    nowhere = CliRunner().invoke(app, ["prepare", "gama", "--gama", str(tree / "info"), "--report"])
    assert "val_day_vid.list" in str(nowhere.exception)
    (tree / "lists-only").mkdir()
    for file in tree.glob("*.list"):
        (tree / "lists-only" / file.name).write_text(file.read_text())
    bare = ["prepare", "gama", "--gama", str(tree / "lists-only"), "--out", str(tree / "empty")]
    assert "No video of the lists has frames" in str(CliRunner().invoke(app, bare).exception)
