"""Folders of map tiles: stored tiles come back unchanged, other zooms and places are made from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from x2localizer import geo
from x2localizer.errors import ImageryError
from x2localizer.sources.imagery import open_imagery
from x2localizer.types import Image, Position, Region, TileId

Z, X, Y = 15, 16000, 11000
AT = TileId(Z, X, Y)
"""The north-west tile of the folders."""


def smooth(side: int) -> Image:
    """Noise without jumps, so that interpolation has something to agree on; shape (side, side, 3)."""
    coarse = np.random.default_rng(4).integers(0, 256, (side // 16, side // 16, 3), dtype=np.uint8)
    return np.asarray(PIL.Image.fromarray(coarse).resize((side, side), PIL.Image.Resampling.BICUBIC))


def store(
    folder: Path, picture: Image, at: TileId = AT, suffix: str = ".png", side: int = 256, tms: bool = False
) -> Path:
    """Cut a picture into tiles from ``at`` on."""
    world = 1 << at.z
    for row in range(picture.shape[0] // side):
        for column in range(picture.shape[1] // side):
            y = at.y + row
            path = folder / f"{at.z}/{(at.x + column) % world}/{world - 1 - y if tms else y}{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            cut = picture[row * side : (row + 1) * side, column * side : (column + 1) * side]
            PIL.Image.fromarray(cut).save(path, lossless=True)
    return folder


@pytest.mark.parametrize("suffix", [".png", ".webp", ".PNG"])
@pytest.mark.parametrize("tms", [False, True])
def test_stored_tiles_come_back_exactly(tmp_path: Path, suffix: str, tms: bool) -> None:
    picture = smooth(1024)
    with open_imagery(store(tmp_path, picture, suffix=suffix, tms=tms), tms=tms) as imagery:
        assert (imagery.info.kind, imagery.info.crs, imagery.info.zoom) == ("XYZ folder", "EPSG:3857", Z)
        assert imagery.info.bands == 3
        assert list(imagery.tiles(Z)) == list(Region(Z, X, Y, 4).tiles())
        tile = imagery.tile(TileId(Z, X + 2, Y + 1))
        np.testing.assert_array_equal(tile.image, picture[256:512, 512:768])
        assert tile.valid.all() and tile.id == TileId(Z, X + 2, Y + 1)
        np.testing.assert_array_equal(imagery.region(Region(Z, X, Y, 4)).image, picture)
        lat, lon = geo.from_tile_coordinates(X + 1.0, Y + 2.25, Z)
        square = imagery.square(Position(float(lat), float(lon)), Z)
        np.testing.assert_array_equal(square.image, picture[448:704, 128:384])


def test_jpeg_and_metres(tmp_path: Path) -> None:
    picture = np.full((256, 256, 3), (90, 120, 60), np.uint8)
    with open_imagery(store(tmp_path, picture, suffix=".jpg")) as imagery:
        assert np.abs(imagery.tile(TileId(Z, X, Y)).image.astype(int) - picture).max() <= 3
        lat = geo.tile_centre(TileId(Z, X, Y)).lat_deg
        assert imagery.info.metres_per_pixel == pytest.approx(geo.tile_size_m(lat, Z) / 256)
        west, south, east, north = imagery.info.bounds
        lats, lons = geo.from_tile_coordinates(np.array([X, X + 1.0]), np.array([Y + 1.0, Y]), Z)
        assert (west, south, east, north) == pytest.approx((lons[0], lats[0], lons[1], lats[1]), abs=1e-9)


def test_gdal2tiles_marks_its_flipped_rows(tmp_path: Path) -> None:
    picture = smooth(512)
    store(tmp_path, picture, tms=True)
    (tmp_path / "tilemapresource.xml").write_text("<TileMap/>")
    with open_imagery(tmp_path) as imagery:
        np.testing.assert_array_equal(imagery.tile(TileId(Z, X, Y)).image, picture[:256, :256])
    with open_imagery(tmp_path, tms=False) as imagery:
        assert not imagery.tile(TileId(Z, X, Y)).valid.any()


def test_coarser_zooms_are_averages(tmp_path: Path) -> None:
    picture = smooth(1024)
    with open_imagery(store(tmp_path, picture)) as imagery:
        for up in (1, 2):
            step = 1 << up
            mean = picture.reshape(1024 // step, step, 1024 // step, step, 3).mean(axis=(1, 3))
            tile = imagery.tile(TileId(Z - up, X >> up, Y >> up))
            assert tile.valid.all()
            assert np.abs(tile.image - mean[:256, :256]).max() <= 1.0
        far = imagery.tile(TileId(Z - 4, X >> 4, Y >> 4))
        assert far.coverage == pytest.approx(1 / 16, abs=0.01)
        assert list(imagery.tiles(Z - 3)) == []
        assert list(imagery.tiles(Z - 3, min_coverage=0.2)) == [TileId(Z - 3, X >> 3, Y >> 3)]


def test_finer_zooms_are_interpolated_without_seams(tmp_path: Path) -> None:
    ramp = np.broadcast_to((np.arange(512) / 2).astype(np.uint8)[None, :, None], (512, 512, 3)).copy()
    with open_imagery(store(tmp_path, ramp)) as imagery:
        region = Region(Z + 2, X * 4 + 2, Y * 4 + 2, 4)
        row = imagery.region(region).image[300, :, 0].astype(float)
    expected = (128 + (np.arange(1024) + 0.5) / 4 - 0.5) / 2
    assert np.abs(row - expected).max() <= 1.5
    with open_imagery(store(tmp_path, smooth(512))) as imagery:
        alone = np.hstack([imagery.tile(tile).image for tile in region.tiles()[:4]])
        np.testing.assert_array_equal(alone, imagery.region(region).image[:256])


def test_other_sizes_choose_the_level_by_resolution(tmp_path: Path) -> None:
    fine, coarse = np.full((512, 512, 3), 200, np.uint8), np.full((256, 256, 3), 50, np.uint8)
    store(store(tmp_path, fine), coarse, TileId(Z - 1, X // 2, Y // 2))
    with open_imagery(tmp_path) as imagery:
        asked = TileId(Z - 1, X // 2, Y // 2)
        assert imagery.tile(asked).image.max() == 50
        assert imagery.tile(asked, 128).image.max() == 50
        assert imagery.tile(asked, 512).image.min() == 200
        assert imagery.tile(asked, 257).image.min() == 200
        assert imagery.tile(TileId(Z + 1, X * 2, Y * 2)).image.min() == 200


def test_tiles_of_512_pixels(tmp_path: Path) -> None:
    picture = smooth(1024)
    with open_imagery(store(tmp_path, picture, side=512)) as imagery:
        assert imagery.info.zoom == Z + 1
        np.testing.assert_array_equal(imagery.tile(TileId(Z, X, Y), 512).image, picture[:512, :512])
        np.testing.assert_array_equal(imagery.tile(TileId(Z + 1, X * 2 + 1, Y * 2)).image, picture[:256, 256:512])


def test_a_square_between_pixels_is_where_it_should_be(tmp_path: Path) -> None:
    rows, columns = np.mgrid[:768, :768] + 0.5
    spot = np.exp(-((columns - 400.3) ** 2 + (rows - 395.8) ** 2) / (2 * 4.0**2))
    picture = np.repeat(np.rint(250 * spot).astype(np.uint8)[..., None], 3, axis=-1)
    store(tmp_path, picture)
    lat, lon = geo.from_tile_coordinates(X + 390.4 / 256, Y + 410.7 / 256, Z)
    with open_imagery(tmp_path) as imagery:
        for up in (0, 1):
            image = imagery.square(Position(float(lat), float(lon)), Z - up).image[..., 0].astype(float)
            centres = np.arange(256) + 0.5
            found = (image.sum(0) @ centres / image.sum(), image.sum(1) @ centres / image.sum())
            expected = (128 + (400.3 - 390.4) / 2**up, 128 + (395.8 - 410.7) / 2**up)
            assert found == pytest.approx(expected, abs=0.1)


def test_missing_tiles_and_transparency_are_not_valid(tmp_path: Path) -> None:
    picture = np.full((512, 512, 4), 255, np.uint8)
    picture[:101, :201, 3] = 0
    picture[:101, :201, :3] = 33  # hidden colours do not show
    store(tmp_path, picture)
    (tmp_path / f"{Z}/{X + 1}/{Y + 1}.png").unlink()
    with open_imagery(tmp_path) as imagery:
        assert imagery.info.bands == 4
        whole = imagery.region(Region(Z, X, Y, 2))
        expected = picture[..., 3] > 0
        expected[256:, 256:] = False
        np.testing.assert_array_equal(whole.valid, expected)
        assert not whole.image[~expected].any() and (whole.image[expected] == 255).all()
        half = imagery.tile(TileId(Z - 1, X // 2, Y // 2))
        np.testing.assert_array_equal(half.valid[:50, :100], False)
        assert half.valid[51:, :100].all() and not half.valid[128:, 128:].any()
        for tile in (half, imagery.tile(TileId(Z - 1, X // 2, Y // 2), 300)):
            assert (tile.image[tile.valid] >= 254).all() and not tile.image[~tile.valid].any()
        assert not imagery.tile(TileId(Z, X + 9, Y)).valid.any()
        assert not imagery.tile(TileId(Z, X, -1)).valid.any()
        assert not imagery.square(Position(0.0, 0.0), Z).valid.any()
        assert imagery.damaged == 0


def test_damaged_tiles_are_counted_once_and_not_valid(tmp_path: Path) -> None:
    picture = smooth(512)
    store(tmp_path, picture)
    whole = (tmp_path / f"{Z}/{X}/{Y}.png").read_bytes()
    for row, data in ((0, whole[: len(whole) // 2]), (1, b"not a picture")):
        (tmp_path / f"{Z}/{X}/{Y + row}.png").write_bytes(data)
    with open_imagery(tmp_path) as imagery:
        for _ in range(2):
            assert not imagery.tile(TileId(Z, X, Y)).valid.any()
            assert not imagery.tile(TileId(Z, X, Y + 1)).valid.any()
            assert imagery.tile(TileId(Z, X + 1, Y)).valid.all()
        assert imagery.damaged == 2
    PIL.Image.new("RGB", (64, 64)).save(tmp_path / f"{Z}/{X + 1}/{Y + 1}.png")
    with open_imagery(tmp_path) as imagery:
        assert imagery.region(Region(Z, X, Y, 2)).coverage == 0.25
        assert imagery.damaged == 3


def test_the_antimeridian_is_no_seam(tmp_path: Path) -> None:
    picture = smooth(512)
    world = 1 << Z
    with open_imagery(store(tmp_path, picture, TileId(Z, world - 1, Y))) as imagery:
        west, _, east, _ = imagery.info.bounds
        assert (west, east) == pytest.approx((180 - 360 / world, 180 + 360 / world))
        assert list(imagery.tiles(Z)) == list(Region(Z, world - 1, Y, 2).tiles())
        np.testing.assert_array_equal(imagery.region(Region(Z, world - 1, Y, 2)).image, picture)
        lat, _ = geo.from_tile_coordinates(0.0, Y + 1.0, Z)
        square = imagery.square(Position(float(lat), 180.0), Z)
        np.testing.assert_array_equal(square.image, picture[128:384, 128:384])


def test_the_whole_globe(tmp_path: Path) -> None:
    picture = smooth(1024)
    with open_imagery(store(tmp_path, picture, TileId(2, 0, 0))) as imagery:
        assert imagery.info.bounds == pytest.approx((-180, -geo.MAX_LATITUDE_DEG, 180, geo.MAX_LATITUDE_DEG), abs=1e-9)
        assert len(list(imagery.tiles(2))) == 16
        np.testing.assert_array_equal(imagery.region(Region(2, 3, 0, 2)).image[:, 256:], picture[:512, :256])
        assert imagery.tile(TileId(0, 0, 0)).valid.all()


@pytest.mark.parametrize("names", [[], ["15/notes.txt"], ["15/16000/99999999.png"], ["a.tif"], ["z/x/y.png"]])
def test_a_folder_without_tiles(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ImageryError, match="no map tiles"):
        open_imagery(tmp_path)


def test_a_folder_of_unreadable_tiles(tmp_path: Path) -> None:
    store(tmp_path, smooth(512))
    for path in tmp_path.rglob("*.png"):
        path.write_bytes(b"")
    with pytest.raises(ImageryError, match="cannot be read as pictures"):
        open_imagery(tmp_path)


def test_a_zoom_far_too_coarse_is_refused(tmp_path: Path) -> None:
    with (
        open_imagery(store(tmp_path, smooth(256))) as imagery,
        pytest.raises(ImageryError, match="coarser levels"),
    ):
        imagery.tile(TileId(3, X >> 12, Y >> 12))
