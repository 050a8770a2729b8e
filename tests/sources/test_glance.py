"""The whole of some imagery: read where that is cheap, sampled where it is not, never for minutes."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import rasterio
from affine import Affine
from rasterio.windows import Window

from helpers.imagery_files import noise, on_grid, on_tiles, write
from x2localizer.errors import ImageryError
from x2localizer.sources.imagery import glance, open_imagery
from x2localizer.sources.imagery.raster_bands import measure_stretch
from x2localizer.sources.imagery.raster_blocks import Blocks
from x2localizer.types import Position


def _huge(path: Path, side: int = 400_000) -> Path:
    """A file without overviews of which one square of 2,000 pixels is stored; reading all of it takes an hour."""
    layout = {"width": side, "height": side, "count": 3, "dtype": "uint8", "crs": "EPSG:3857", "transform": on_tiles()}
    tiles = {"tiled": True, "blockxsize": 512, "blockysize": 512, "sparse_ok": True, "BIGTIFF": "YES"}
    transform = Affine(0.1, 0.0, 1e6, 0.0, -0.1, 6e6)
    with rasterio.open(path, "w", driver="GTiff", **(layout | tiles | {"transform": transform})) as file:
        file.write(np.full((3, 2000, 2000), 90, np.uint8), window=Window(side // 2, side // 2, 2000, 2000))
    return path


def test_small_imagery_is_shown_whole(tmp_path: Path) -> None:
    pixels = noise()
    pixels[:, :, :512] = 0
    with open_imagery(on_grid(tmp_path / "a.tif", pixels)) as imagery:
        whole = glance(imagery, 256)
    assert whole.places == 0
    assert whole.image.shape == (256, 256, 3)
    assert whole.coverage == pytest.approx(0.5, abs=0.01)
    assert whole.image[:, :120].max() == 0
    assert whole.image[:, 136:].min() > 0


@pytest.mark.parametrize(("wide", "high"), [(1024, 256), (256, 1024), (1024, 8)])
def test_the_picture_has_the_shape_of_the_bounds(tmp_path: Path, wide: int, high: int) -> None:
    with open_imagery(on_grid(tmp_path / "a.tif", noise(side=1024)[:, :high, :wide])) as imagery:
        whole = glance(imagery, 256)
    longer = max(wide, high)
    assert whole.image.shape == (max(1, 256 * high // longer), max(1, 256 * wide // longer), 3)
    assert whole.coverage > 0.95


def test_huge_imagery_is_sampled(tmp_path: Path) -> None:
    with open_imagery(_huge(tmp_path / "a.tif")) as imagery:
        whole = glance(imagery)
    assert whole.places == 576
    assert whole.coverage < 0.01
    assert whole.image.shape == (504, 504, 3)


def test_samples_show_what_is_there(tmp_path: Path) -> None:
    pixels = np.zeros((3, 1024, 1024), np.uint8)
    pixels[0, :512] = 200
    with open_imagery(on_grid(tmp_path / "a.tif", pixels)) as imagery:
        whole = glance(imagery, 512, most_pixels=1000)
    assert whole.places == 576
    assert whole.coverage == pytest.approx(0.5, abs=0.05)
    assert whole.image[10, 10].tolist() == [200, 0, 0]
    assert whole.image[-10, 10].tolist() == [0, 0, 0]


def test_overviews_make_large_imagery_cheap(tmp_path: Path) -> None:
    path = on_grid(tmp_path / "a.tif", noise(side=2048))
    with rasterio.open(path, "r+") as file:
        file.build_overviews([2, 4, 8], rasterio.enums.Resampling.average)
    with open_imagery(path) as imagery:
        assert glance(imagery, 256, most_pixels=100_000).places == 0
        assert glance(imagery, 1024, most_pixels=100_000).places == 576


def test_imagery_across_the_antimeridian(tmp_path: Path) -> None:
    transform = Affine(0.0001, 0.0, 179.95, 0.0, -0.0001, 10.0)
    path = write(tmp_path / "a.tif", np.full((3, 500, 1000), 90, np.uint8), "EPSG:4326", transform)
    with open_imagery(path) as imagery:
        assert glance(imagery).coverage > 0.98
        assert glance(imagery, most_pixels=10).coverage > 0.98


def test_tiles_far_apart_in_a_folder(tmp_path: Path) -> None:
    """A picture of the whole would be made of more tiles than a read allows."""
    for x in range(16_000, 16_400, 10):
        (tmp_path / f"15/{x}").mkdir(parents=True)
        PIL.Image.fromarray(np.full((256, 256, 3), 90, np.uint8)).save(tmp_path / f"15/{x}/11000.png")
    with open_imagery(tmp_path) as imagery:
        whole = glance(imagery)
    assert whole.places > 0
    assert 0 < whole.coverage < 0.3


def test_mbtiles_of_few_tiles_and_wide_bounds(tmp_path: Path) -> None:
    path = on_grid(tmp_path / "a.mbtiles", noise(), driver="MBTiles", TILE_FORMAT="PNG")
    with open_imagery(path) as imagery:
        west, south, east, north = imagery.info.bounds
    with sqlite3.connect(path) as file:
        wide = f"{west},{south - 20},{east + 60},{north}"
        file.execute("UPDATE metadata SET value = ? WHERE name = 'bounds'", (wide,))
    file.close()
    with open_imagery(path) as imagery:
        assert imagery.info.bounds[2] > east + 50
        assert glance(imagery).places > 0


def test_one_read_is_bounded_in_pixels(tmp_path: Path) -> None:
    with open_imagery(_huge(tmp_path / "a.tif")) as imagery:
        west, south, east, north = imagery.info.bounds
        with pytest.raises(ImageryError, match=r"billion of its pixels.*gdaladdo"):
            imagery.square(Position((south + north) / 2, (west + east) / 2), 10, 256, 2.0)


def test_large_blocks_are_sampled_at_fewer_places(tmp_path: Path) -> None:
    """64 bytes to a pixel and 256 x 1,024 pixels to a block: each place takes 64 MB, not 64 pixels."""
    layout = {"interleave": "pixel", "blockxsize": 1024, "blockysize": 256, "compress": "deflate"}
    path = on_grid(tmp_path / "a.tif", np.ones((16, 1024, 1024), np.float32), **layout)
    with open_imagery(path) as imagery:
        west, south, east, north = imagery.info.bounds
        middle = Position((south + north) / 2, (west + east) / 2)
        assert imagery.pixels_behind(middle, imagery.info.zoom, 8, 8 / 256) == pytest.approx(1024 * 263 * 16, rel=0.01)
        assert glance(imagery, most_pixels=1000).places < 130


def test_sampling_is_broken_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["x2localizer.sources.imagery.glance"], "LONGEST_S", 0.0)
    with open_imagery(on_grid(tmp_path / "a.tif", noise())) as imagery:
        whole = glance(imagery, most_pixels=1000)
    assert whole.places == 1
    assert whole.coverage == 1.0


@pytest.mark.parametrize(
    ("blocks", "windows", "rows"),
    [
        (Blocks(20_000, 20_000, 256, 256, 3, 2), 144, 64),
        (Blocks(20_000, 20_000, 4096, 4096, 3, 2), 16, 64),
        (Blocks(20_000, 20_000, 20_000, 1, 800, 8), 1, 16),
    ],
)
def test_a_stretch_is_measured_on_what_can_be_afforded(blocks: Blocks, windows: int, rows: int) -> None:
    class Counted:
        width, height = blocks.width, blocks.height
        seen: list[Window] = []  # noqa: RUF012 - one file for each test

        def read(self, colours: tuple[int, ...], window: Window, masked: bool) -> np.ma.MaskedArray:
            self.seen.append(window)
            return np.ma.MaskedArray(np.arange(100.0))

    measure_stretch(Counted(), (1, 2, 3), blocks)
    assert len(Counted.seen) == windows
    assert {window.height for window in Counted.seen} == {rows}
