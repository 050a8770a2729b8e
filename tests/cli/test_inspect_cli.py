"""``x2l inspect`` and ``x2l town dataset --help``: what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rasterio
from affine import Affine
from PIL import Image as Pillow

from helpers.command_line import x2l
from helpers.imagery_files import noise, on_grid
from x2localizer.config import preset_names
from x2localizer.sources.tracks import TELEMETRY_SUFFIXES, TRACK_SUFFIXES
from x2localizer.sources.video import VideoWriter


def _words(text: str) -> str:
    """What a table says, without its lines."""
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize(
    ("width", "height", "shape"), [(64, 128, "portrait: frames are squeezed"), (128, 64, "landscape")]
)
def test_portrait_video_is_named(tmp_path: Path, width: int, height: int, shape: str) -> None:
    with VideoWriter(tmp_path / "v.mp4", width, height, 10) as writer:
        writer.write(np.full((height, width, 3), 90, np.uint8))
    text = _words(x2l("inspect", str(tmp_path / "v.mp4")))
    assert f"{width} x {height}" in text
    assert shape in text


def test_imagery_says_how_much_it_covers(tmp_path: Path) -> None:
    text = _words(x2l("inspect", str(on_grid(tmp_path / "a.tif", noise()))))
    assert "100% of its bounds" in text
    text = _words(x2l("inspect", str(on_grid(tmp_path / "b.tif", np.zeros((3, 256, 256), np.uint8)))))
    assert "it is empty or black" in text


def test_huge_imagery_without_overviews_is_answered_in_seconds(tmp_path: Path) -> None:
    side = 400_000
    layout = {"width": side, "height": side, "count": 1, "dtype": "uint8", "nodata": 0, "BIGTIFF": "YES"}
    transform = Affine(0.1, 0.0, 1e6, 0.0, -0.1, 6e6)
    tiles = {"tiled": True, "blockxsize": 512, "blockysize": 512, "sparse_ok": True}
    with rasterio.open(
        tmp_path / "a.tif", "w", driver="GTiff", crs="EPSG:3857", transform=transform, **layout, **tiles
    ):
        pass
    text = _words(x2l("inspect", str(tmp_path / "a.tif"), "--picture", str(tmp_path / "a.png")))
    assert "nothing found (sampled at 576 places" in text
    assert "gdaladdo" in text
    with Pillow.open(tmp_path / "a.png") as picture:
        assert picture.width > 1000


def test_tracks_are_known_by_every_suffix_that_the_reader_takes(tmp_path: Path) -> None:
    assert not TRACK_SUFFIXES & TELEMETRY_SUFFIXES
    (tmp_path / "ride.txt").write_text("time_s,lat,lon\n0,48,11\n1,48.0001,11\n")
    assert "positions" in x2l("inspect", str(tmp_path / "ride.txt"))


def test_the_help_names_every_preset() -> None:
    text = _words(x2l("town", "dataset", "--help"))
    assert ", ".join(preset_names("dataset")) in text
    assert "small" in text
