from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from helpers.command_line import x2l, x2l_process
from x2localizer import __version__
from x2localizer.sources.tracks import read_track
from x2localizer.sources.video import open_video
from x2localizer.types import Floats


def test_version() -> None:
    assert x2l_process("--version").strip() == f"x2l {__version__}"


@pytest.mark.parametrize(
    "words",
    [(), ("town",), ("town", "build"), ("town", "drive"), ("town", "show"), ("town", "dataset"), ("check",), ("bench",),
     ("bench", "town"), ("inspect",), ("demo",)],
)  # fmt: skip
def test_every_verb_explains_itself(words: tuple[str, ...]) -> None:
    text = x2l(*words, "--help")
    assert "Usage" in text
    if len(words) == 2 or words in (("check",), ("inspect",), ("demo",)):
        assert "Example" in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("town", "drive", "NOWHERE"), "is not a town"),
        (("town", "show", "NOWHERE"), "holds no town"),
        (("town", "dataset", "--preset", "qick", "--out", "NOWHERE"), "Did you mean 'quick'"),
        (("town", "build", "--set", "tilse=20", "--out", "NOWHERE"), "Did you mean 'tiles'"),
        (("town", "build", "--set", "tiles=2", "--out", "NOWHERE"), "greater than or equal to 9"),
        (("town", "drive", "NOWHERE", "--size", "big"), "even pixels"),
        (("town", "drive", "NOWHERE", "--size", "9998x9998"), "2160x3840"),
        (("inspect", ""), "nothing to inspect"),
        (("inspect", "a[/b].gpx"), "a[/b].gpx"),
        (("inspect", "NOWHERE.mp4"), "NOWHERE.mp4"),
        (("inspect", "NOWHERE.tif"), "NOWHERE.tif"),
        (("inspect", "NOWHERE.gpx"), "NOWHERE.gpx"),
    ],
)
def test_bad_input_is_two_lines_and_no_traceback(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    text = x2l(*(word.replace("NOWHERE", str(tmp_path / "NOWHERE")) for word in words), code=2)
    flat = "".join(text.split("\n"))
    assert told in flat.replace(str(tmp_path) + "/", "") or told in flat
    assert "error: " in text
    assert "next: " in text
    assert "Traceback" not in text


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    for run in (x2l, x2l_process):
        text = run("--debug", "town", "show", str(tmp_path), code=1)
        assert "Traceback" in text
        assert "UserError" in text


def test_a_wrong_option_names_it() -> None:
    text = x2l("town", "build", "--sede", "3", code=2)
    assert "--sede" in text
    assert "Traceback" not in text


def test_check_exits_with_one_for_what_is_no_data_set(tmp_path: Path) -> None:
    text = x2l("check", str(tmp_path), "--json", code=1)
    (line,) = [line for line in text.splitlines() if line.startswith("{")]
    assert json.loads(line)["sound"] is False


@pytest.mark.slow
def test_from_a_town_to_pictures(tmp_path: Path) -> None:
    town = tmp_path / "town"
    x2l("town", "build", "--seed", "3", "--out", str(town), "--set", "tiles=16", "--set", "pixels_per_tile=64")
    x2l("town", "drive", str(town), "--seed", "1", "--seconds", "12", "--fps", "2", "--size", "96x160")
    shown = x2l("town", "show", str(town))
    for name in ("map.png", "drives/1/sheet.png"):
        with Pillow.open(town / name) as picture:
            assert np.asarray(picture.convert("L")).std() > 20  # there is something to see
    for name in ("drives/1/drive.mp4", "drives/1/drive.gpx"):
        assert (town / name).stat().st_size > 1000
    truth, video = read_track(town / "drives/1/drive.gpx"), open_video(town / "drives/1/drive.mp4")
    with video:
        for frame in video:
            assert truth.at(frame.time_s) is not None
        assert video.info.start_time == truth.start_time
    assert "map.png" in shown
    told = x2l("inspect", str(town / "drives/1/drive.mp4"), "--picture", str(tmp_path / "sheet.png"))
    assert "160 x 96" in told
    assert (tmp_path / "sheet.png").stat().st_size > 1000
    assert "EPSG:3857" in x2l("inspect", str(town / "aerial.tif"))
    assert "positions" in x2l("inspect", str(town / "drives/1/drive.gpx"))
    first = _pictures(town / "drives/1/drive.mp4")
    x2l("town", "drive", str(town), "--seed", "1", "--seconds", "12", "--fps", "2", "--size", "96x160")
    again = _pictures(town / "drives/1/drive.mp4")
    assert again.shape == first.shape
    # The encoder may choose other bits for the same pictures, depending on what was in memory.
    assert np.abs(again - first).mean() < 0.5


def _pictures(path: Path) -> Floats:
    with open_video(path) as video:
        return np.stack([frame.image for frame in video]).astype(np.float64)


@pytest.mark.slow
def test_the_bench_of_the_loader_reads_made_and_real_pictures(tiny_dataset: Path) -> None:
    for words in ((), ("--data", str(tiny_dataset))):
        values = json.loads(x2l("bench", "loader", "--json", "--seconds", "0.1", *words))
        assert set(values) == {
            "frames_per_s", "tiles_per_s", "regions_per_s", "pair_batches_per_s", "video_batches_per_s",
        }  # fmt: skip
        assert all(value > 0 for value in values.values())


@pytest.mark.slow
def test_bench_gives_one_json_object() -> None:
    values = json.loads(x2l("bench", "town", "--json", "--seconds", "0.2"))
    assert {"frames_per_s_48x96", "frames_per_s_216x384", "town_s", "regions_per_s"} <= set(values)
    assert all(value > 0 for value in values.values())
