"""Written GeoTIFFs: lossless, georeferenced, and the same bytes every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import rasterio

from x2localizer import geo
from x2localizer.errors import ImageryError, UserError
from x2localizer.sources.imagery import open_imagery
from x2localizer.sources.imagery.geotiff import write_geotiff
from x2localizer.types import Image, TileId

AT = TileId(16, 35210, 21490)


def picture(side: int = 1024) -> Image:
    return np.random.default_rng(6).integers(0, 256, (side, side + 40, 3), dtype=np.uint8)


def write(path: Path, image: Image, tags: dict[str, str]) -> Path:
    west, _, east, north = geo.mercator_bounds(AT.x, AT.y, AT.z)
    write_geotiff(path, image, crs="EPSG:3857", west=west, north=north, pixel=(east - west) / 256, tags=tags)
    return path


def test_pixels_place_and_tags_come_back(tmp_path: Path) -> None:
    image = picture()
    path = write(tmp_path / "new" / "a.tif", image, {"SOURCE": "town", "SEED": "7"})
    with rasterio.open(path) as file:
        np.testing.assert_array_equal(np.moveaxis(file.read(), 0, -1), image)
        assert file.tags()["SOURCE"] == "town" and file.tags()["SEED"] == "7"
        assert file.block_shapes == [(256, 256)] * 3 and file.overviews(1)[:2] == [2, 4]
        structure = file.tags(ns="IMAGE_STRUCTURE")
        assert (structure["COMPRESSION"], structure["PREDICTOR"], structure["LAYOUT"]) == (
            "DEFLATE",
            "2",
            "COG",
        )
    with rasterio.open(path, overview_level=0) as half:
        mean = image.reshape(512, 2, 532, 2, 3).mean(axis=(1, 3))
        assert np.abs(np.moveaxis(half.read(), 0, -1) - mean).max() <= 1.0
    with PIL.Image.open(path) as opened:  # any reader, not only GDAL
        assert opened.mode == "RGB"
        np.testing.assert_array_equal(np.asarray(opened), image)
    with open_imagery(path) as imagery:
        assert imagery.info.kind == "COG" and imagery.info.zoom == AT.z
        np.testing.assert_array_equal(imagery.tile(TileId(AT.z, AT.x + 1, AT.y + 2)).image, image[512:768, 256:512])


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    image = picture(600)
    first = write(tmp_path / "a.tif", image, {"A": "1", "B": "2"}).read_bytes()
    second = write(tmp_path / "b.tif", np.asfortranarray(image), {"B": "2", "A": "1"}).read_bytes()
    assert first == second
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tif", "b.tif"]


def test_a_small_picture_and_degrees(tmp_path: Path) -> None:
    image = picture(16)
    write_geotiff(tmp_path / "a.tif", image, crs="EPSG:4326", west=7.0, north=45.0, pixel=1e-5, tags={})
    with rasterio.open(tmp_path / "a.tif") as file:
        np.testing.assert_array_equal(np.moveaxis(file.read(), 0, -1), image)
        assert file.crs.to_epsg() == 4326
        assert file.bounds == pytest.approx((7.0, 45.0 - 16e-5, 7.0 + 56e-5, 45.0))


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ImageryError, match="EPSG:3857"):
        write_geotiff(tmp_path / "a.tif", picture(16), crs="EPSG:nope", west=0, north=0, pixel=1, tags={})
    with pytest.raises(ValueError, match="RGB"):
        write(tmp_path / "a.tif", picture(16)[..., :2], {})
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Cannot write"):
        write(tmp_path / "file" / "a.tif", picture(16), {})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
