"""Aerial imagery in files: the right pixels, and where there are none they are marked as invalid."""

from __future__ import annotations

import socket
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import rasterio
from affine import Affine
from rasterio.enums import ColorInterp, Resampling

from helpers.imagery_files import AT, Pixels, first_rows, noise, on_grid, on_tiles, write
from x2localizer import geo
from x2localizer.errors import ImageryError
from x2localizer.sources.imagery import Access, open_imagery, raster_file, raster_open, write_geotiff
from x2localizer.types import Position, Region, TileId

# Pixels that lie on the grid of the tiles come back as they are.


def test_coinciding_pixels_come_back_exactly(tmp_path: Path) -> None:
    pixels = noise()
    with open_imagery(on_grid(tmp_path / "a.tif", pixels)) as imagery:
        for column, row in [(0, 0), (2, 1), (3, 3)]:
            tile = imagery.tile(TileId(12, AT.x + column, AT.y + row))
            np.testing.assert_array_equal(tile.image, first_rows(pixels, column, row))
            assert tile.valid.all() and tile.id == TileId(12, AT.x + column, AT.y + row)
            assert tile.centre == geo.tile_centre(tile.id)
        region = imagery.region(Region(12, AT.x + 1, AT.y + 1, 3))
        np.testing.assert_array_equal(region.image, first_rows(pixels, 1, 1, 768))
        lat, lon = geo.from_tile_coordinates(AT.x + 1.0, AT.y + 2.0, 12)
        square = imagery.square(Position(float(lat), float(lon)), 12)
        np.testing.assert_array_equal(square.image, np.moveaxis(pixels[:, 384:640, 128:384], 0, -1))
        assert square.size_m == pytest.approx(geo.tile_size_m(float(lat), 12))


@pytest.mark.parametrize("overviews", [False, True])
def test_coarser_tiles_are_averages(tmp_path: Path, overviews: bool) -> None:
    pixels = noise()
    path = on_grid(tmp_path / "a.tif", pixels)
    if overviews:
        with rasterio.open(path, "r+") as file:
            file.build_overviews([2, 4], Resampling.average)
    with open_imagery(path) as imagery:
        tile = imagery.tile(TileId(10, AT.x // 4, AT.y // 4))
    mean = pixels.reshape(3, 256, 4, 256, 4).mean(axis=(2, 4)).transpose(1, 2, 0)
    assert tile.valid.all()
    assert np.abs(tile.image - mean).max() <= 1.0


def test_finer_tiles_are_interpolated(tmp_path: Path) -> None:
    ramp = np.broadcast_to(np.arange(256, dtype=np.uint8)[None, None, :], (3, 256, 256)).copy()
    with open_imagery(on_grid(tmp_path / "a.tif", ramp)) as imagery:
        tile = imagery.tile(TileId(14, AT.x * 4 + 1, AT.y * 4))
    expected = 64 + (np.arange(256) + 0.5) / 4 - 0.5
    assert np.abs(tile.image[100, :, 0] - expected).max() <= 1.0


def test_overviews_are_read_for_coarse_tiles(tmp_path: Path) -> None:
    path = on_grid(tmp_path / "a.tif", np.full((3, 1024, 1024), 10, np.uint8))
    with rasterio.open(path, "r+") as file:
        file.build_overviews([2, 4], Resampling.average)
        file.write(np.full((3, 1024, 1024), 200, np.uint8))  # the overviews keep the old colour
    with open_imagery(path) as imagery:
        assert imagery.tile(TileId(12, AT.x, AT.y)).image.max() == 200
        assert imagery.tile(TileId(10, AT.x // 4, AT.y // 4)).image.max() == 10


# Where there is no data.


def test_outside_is_not_valid_and_black(tmp_path: Path) -> None:
    with open_imagery(on_grid(tmp_path / "a.tif", noise())) as imagery:
        for tile in (
            TileId(12, 10, 10),
            TileId(12, AT.x - 1, AT.y),
            TileId(12, AT.x, 5000),
            TileId(12, 0, -3),
        ):
            picture = imagery.tile(tile)
            assert picture.image.shape == (256, 256, 3) and picture.valid.shape == (256, 256)
            assert not picture.valid.any() and not picture.image.any() and picture.coverage == 0.0
        assert not imagery.square(Position(89.0, 0.0), 12).valid.any()
        edge = imagery.tile(TileId(11, AT.x // 2 - 1, AT.y // 2))
        assert not edge.valid.any()
        assert imagery.damaged == 0
        with pytest.raises(ValueError, match="pixels"):
            imagery.tile(AT, 0)
    with pytest.raises(ValueError, match="closed"):
        imagery.tile(AT)


def masked_file(kind: str, path: Path) -> tuple[Path, Pixels]:
    """A file whose southern half and one block have no data, in one of the ways there are to say so."""
    pixels = noise().clip(1)
    holds = np.zeros((1024, 1024), np.bool_)
    holds[:384] = True
    holds[100:110, 50:70] = False
    holds[200, 200] = False
    if kind == "nodata":
        pixels = np.where(holds, pixels, 0)
        pixels[1, 5, 5] = 0  # one band alone is a colour
        return on_grid(path, pixels, nodata=0), holds
    if kind == "alpha":
        alpha = np.where(holds, 255, 0).astype(np.uint8)[None]
        return on_grid(path, np.concatenate([pixels, alpha]), photometric="RGB", alpha="YES"), holds
    if kind == "mask":
        with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
            on_grid(path, pixels)
            with rasterio.open(path, "r+") as file:
                file.write_mask(holds)
        return path, holds
    floats = np.where(holds, pixels.astype(np.float32), np.nan)
    if kind == "NaN":
        return on_grid(path, floats), holds
    if kind == "NaN among nodata":
        floats[:, 500:] = -9999.0
        return on_grid(path, floats, nodata=-9999.0), holds
    assert kind == "many bands with a mask"
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        on_grid(path, np.concatenate([pixels] * 3))
        with rasterio.open(path, "r+") as file:
            file.write_mask(holds)
    return path, holds


@pytest.mark.parametrize("kind", ["nodata", "alpha", "mask", "NaN", "NaN among nodata", "many bands with a mask"])
def test_no_data_is_marked(tmp_path: Path, kind: str) -> None:
    path, holds = masked_file(kind, tmp_path / "a.tif")
    with open_imagery(path) as imagery:
        for column, row in [(0, 0), (1, 1), (2, 2)]:
            tile = imagery.tile(TileId(12, AT.x + column, AT.y + row))
            expected = first_rows(holds[None], column, row)[..., 0]
            np.testing.assert_array_equal(tile.valid, expected)
            assert not tile.image[~tile.valid].any()
        coarse = imagery.tile(TileId(10, AT.x // 4, AT.y // 4))
        assert coarse.valid[:96].mean() > 0.99 and not coarse.valid[97:].any()
        assert coarse.valid[50, 50] or kind == "NaN among nodata"  # one of its 16 pixels lacks data
        with rasterio.open(path) as file:
            if file.dtypes[0] == "uint8":
                stored = first_rows(file.read((1, 2, 3)), 0, 0)
                tile = imagery.tile(AT)
                np.testing.assert_array_equal(tile.image[tile.valid], stored[tile.valid])


def test_a_file_without_any_data_opens(tmp_path: Path) -> None:
    for dtype in ("uint8", "uint16", "float32"):
        path = on_grid(tmp_path / f"{dtype}.tif", np.zeros((3, 256, 256), dtype), nodata=0)
        with open_imagery(path) as imagery:
            assert not imagery.tile(AT).valid.any()


@pytest.mark.parametrize("nodata", [-9999, 300])
def test_a_nodata_value_that_the_type_cannot_hold_is_none(tmp_path: Path, nodata: int) -> None:
    pixels = noise(side=256)
    path = on_grid(tmp_path / "a.tif", pixels)
    xml = f"""<VRTDataset rasterXSize="256" rasterYSize="256"><SRS>EPSG:3857</SRS>
      <GeoTransform>{", ".join(str(v) for v in on_tiles().to_gdal())}</GeoTransform>
      <VRTRasterBand dataType="Byte" band="1"><NoDataValue>{nodata}</NoDataValue><SimpleSource>
      <SourceFilename relativeToVRT="0">{path}</SourceFilename><SourceBand>1</SourceBand></SimpleSource>
      </VRTRasterBand></VRTDataset>"""
    (tmp_path / "a.vrt").write_text(xml)
    with open_imagery(tmp_path / "a.vrt") as imagery:
        assert imagery.info.kind == "VRT"
        tile = imagery.tile(AT)
        assert tile.valid.all()
        np.testing.assert_array_equal(tile.image[..., 2], pixels[0])


# Colours.


def test_grey_is_repeated_and_many_bands_are_chosen_by_name(tmp_path: Path) -> None:
    pixels = noise(6, 256)
    with open_imagery(on_grid(tmp_path / "grey.tif", pixels[:1])) as imagery:
        np.testing.assert_array_equal(imagery.tile(AT).image, np.repeat(pixels[0][..., None], 3, axis=-1))
    with open_imagery(on_grid(tmp_path / "first.tif", pixels)) as imagery:
        assert imagery.info.bands == 6
        np.testing.assert_array_equal(imagery.tile(AT).image, first_rows(pixels[:3], 0, 0))
    path = on_grid(tmp_path / "named.tif", pixels, photometric="MINISBLACK")
    names = [ColorInterp.undefined] * 6
    names[4], names[2], names[1] = ColorInterp.red, ColorInterp.green, ColorInterp.blue
    with rasterio.open(path, "r+") as file:
        file.colorinterp = names
    with open_imagery(path) as imagery:
        np.testing.assert_array_equal(imagery.tile(AT).image, first_rows(pixels[[4, 2, 1]], 0, 0))


def test_a_palette_is_looked_up(tmp_path: Path) -> None:
    indexes = np.random.default_rng(3).integers(0, 4, (1, 1024, 1024), dtype=np.uint8)
    colours = {0: (9, 8, 7, 255), 1: (255, 0, 0, 255), 2: (0, 200, 50, 255), 3: (1, 2, 3, 255)}
    path = on_grid(tmp_path / "a & b.tif", indexes, photometric="palette", nodata=3)
    with rasterio.open(path, "r+") as file:
        file.write_colormap(1, colours)
        file.build_overviews([2], Resampling.nearest)
    table = np.array([colours[i][:3] for i in range(4)], np.uint8)
    table[3] = 0
    with open_imagery(path) as imagery:
        tile = imagery.tile(AT)
        np.testing.assert_array_equal(tile.image, table[indexes[0, :256, :256]])
        np.testing.assert_array_equal(tile.valid, indexes[0, :256, :256] != 3)
        assert imagery.tile(TileId(11, AT.x // 2, AT.y // 2)).valid.any()
    entries = "".join(f'<Entry c1="{r}" c2="{g}" c3="{b}" c4="{a}"/>' for r, g, b, a in colours.values())
    xml = f"""<VRTDataset rasterXSize="1024" rasterYSize="1024"><SRS>EPSG:3857</SRS>
      <GeoTransform>{", ".join(str(v) for v in on_tiles().to_gdal())}</GeoTransform>
      <VRTRasterBand dataType="Byte" band="1"><NoDataValue>3</NoDataValue><ColorInterp>Palette</ColorInterp>
      <ColorTable>{entries}</ColorTable><SimpleSource><SourceFilename relativeToVRT="1">a &amp; b.tif
      </SourceFilename><SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>"""
    (tmp_path / "a.vrt").write_text(xml.replace("\n      </Source", "</Source"))
    with open_imagery(tmp_path / "a.vrt") as imagery:
        np.testing.assert_array_equal(imagery.tile(AT).image, tile.image)
        np.testing.assert_array_equal(imagery.tile(AT).valid, tile.valid)


@pytest.mark.parametrize("dtype", ["uint16", "int16", "float32", "float64"])
@pytest.mark.parametrize("overviews", [False, True])
def test_deep_pixels_are_stretched_alike_in_all_tiles(tmp_path: Path, dtype: str, overviews: bool) -> None:
    ramp = np.linspace(1000, 9000, 1024)
    pixels = np.stack([np.broadcast_to(ramp, (1024, 1024))] * 3).astype(dtype)
    path = on_grid(tmp_path / "a.tif", pixels)
    if overviews:
        with rasterio.open(path, "r+") as file:
            file.build_overviews([2], Resampling.average)
    low, high = np.percentile(ramp, (2, 98))
    with open_imagery(path) as imagery:
        row = np.concatenate([imagery.tile(TileId(12, AT.x + i, AT.y)).image[7, :, 0] for i in range(4)])
    expected = ((ramp - low) / (high - low) * 255).clip(0, 255)
    assert np.abs(row - expected).max() <= 2.0


# Formats.


def test_mbtiles(tmp_path: Path) -> None:
    pixels = noise()
    path = on_grid(tmp_path / "a.mbtiles", pixels, driver="MBTiles", TILE_FORMAT="PNG")
    with rasterio.open(path, "r+") as file:
        file.build_overviews([2], Resampling.average)
    with open_imagery(path) as imagery:
        assert imagery.info.kind == "MBTiles" and imagery.info.zoom == 12
        assert list(imagery.tiles(12)) == list(Region(12, AT.x, AT.y, 4).tiles())
        tile = imagery.tile(TileId(12, AT.x + 1, AT.y + 2))
        np.testing.assert_array_equal(tile.image, first_rows(pixels, 1, 2))
        assert imagery.tile(TileId(11, AT.x // 2, AT.y // 2)).valid.all()


def test_a_file_in_an_archive(tmp_path: Path) -> None:
    """An address of GDAL's, and its palette is found there too."""
    indexes = np.random.default_rng(3).integers(0, 2, (1, 256, 256), dtype=np.uint8)
    path = on_grid(tmp_path / "a.tif", indexes, photometric="palette")
    with rasterio.open(path, "r+") as file:
        file.write_colormap(1, {0: (10, 20, 30, 255), 1: (200, 100, 50, 255)})
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(path, "a.tif")
    path.unlink()
    for address in (f"zip://{tmp_path}/a.zip!/a.tif", f"/vsizip/{tmp_path}/a.zip/a.tif"):
        with open_imagery(address) as imagery:
            tile = imagery.tile(AT)
            np.testing.assert_array_equal(tile.image[..., 0], np.where(indexes[0], 200, 10))
    with pytest.raises(ImageryError, match="address"):
        open_imagery(f"zip://{tmp_path}/a.zip!/other.tif")


def test_each_thread_opens_its_own(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tif", noise(), "EPSG:32631", Affine(1.0, 0.0, 500000.0, 0.0, -1.0, 5400000.0))

    def pictures() -> list[Pixels]:
        with open_imagery(path) as imagery:
            return [imagery.tile(tile).image for tile in imagery.tiles(imagery.info.zoom)]

    alone = pictures()
    with ThreadPoolExecutor(4) as pool:
        for together in pool.map(lambda _: pictures(), range(4)):
            np.testing.assert_array_equal(together, alone)


def test_what_the_file_says_of_itself(tmp_path: Path) -> None:
    with open_imagery(str(on_grid(tmp_path / "a.tif", noise()))) as imagery:
        info = imagery.info
        assert (info.kind, info.crs, info.bands, info.zoom) == ("GeoTIFF", "EPSG:3857", 3, 12)
        lat, lon = geo.from_tile_coordinates(np.array([AT.x, AT.x + 4.0]), np.array([AT.y + 4.0, AT.y]), 12)
        assert info.bounds == pytest.approx((lon[0], lat[0], lon[1], lat[1]), abs=1e-9)
        assert list(imagery.tiles(12)) == list(Region(12, AT.x, AT.y, 4).tiles())
        assert list(imagery.tiles(10)) == [TileId(10, AT.x // 4, AT.y // 4)]
        assert list(imagery.tiles(9)) == []
        assert list(imagery.tiles(9, min_coverage=0.25)) == [TileId(9, AT.x // 8, AT.y // 8)]


# What users may get wrong.


def bad_file(kind: str, folder: Path) -> str:
    path = folder / "a.tif"
    if kind == "no such file":
        return str(path)
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("this is not a picture")
    elif kind == "cut off":
        on_grid(path, noise())
        path.write_bytes(path.read_bytes()[:100])
    elif kind == "no place":
        write(path, noise(side=256), None, None)
    elif kind == "no coordinate system":
        write(path, noise(side=256), None, on_tiles())
    elif kind == "engineering coordinates":
        write(path, noise(side=256), 'LOCAL_CS["site",UNIT["metre",1]]', on_tiles())
    elif kind == "complex numbers":
        on_grid(path, noise(side=256).astype(np.complex64))
    elif kind == "complex integers":  # of radar; numpy has no such numbers
        layout = {"width": 256, "height": 256, "count": 1, "crs": "EPSG:3857", "transform": on_tiles()}
        with rasterio.open(path, "w", driver="GTiff", dtype="complex_int16", **layout):
            pass
    elif kind == "empty folder":
        return str(folder)
    return str(path)


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("no such file", "no imagery at"),
        ("empty", "is empty"),
        ("text", "cannot be read as aerial imagery"),
        ("cut off", "cannot be read as aerial imagery"),
        ("no place", "-a_ullr"),
        ("no coordinate system", "-a_srs"),
        ("engineering coordinates", "-a_srs"),
        ("complex numbers", "not a picture"),
        ("complex integers", "not a picture"),
        ("empty folder", "no map tiles"),
    ],
)
@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_bad_input_says_what_to_do(
    tmp_path: Path, kind: str, what: str, capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    path = bad_file(kind, tmp_path)
    recwarn.clear()
    with pytest.raises(ImageryError) as error:
        open_imagery(path)
    assert what in str(error.value) and error.value.remedy
    assert capfd.readouterr() == ("", "") and not recwarn.list


@pytest.mark.parametrize("z", [-1, 25, 99])
def test_zooms_without_tiles_are_refused(tmp_path: Path, z: int) -> None:
    with (
        open_imagery(on_grid(tmp_path / "a.tif", noise(side=256))) as imagery,
        pytest.raises(ImageryError, match="zoom"),
    ):
        imagery.tiles(z)


@pytest.fixture
def silent_server() -> Iterator[int]:
    """The port of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_server_that_never_answers_is_an_error(
    tmp_path: Path, silent_server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (raster_open, raster_file):
        monkeypatch.setattr(module, "HTTP_SILENCE_S", 1)
    half = geo.WEB_MERCATOR_HALF_M
    window = f"<UpperLeftX>{-half}</UpperLeftX><UpperLeftY>{half}</UpperLeftY><LowerRightX>{half}</LowerRightX>"
    (tmp_path / "map.xml").write_text(
        f'<GDAL_WMS><Service name="TMS"><ServerUrl>http://127.0.0.1:{silent_server}/${{z}}/${{x}}/${{y}}.png</ServerUrl>'
        f"</Service><DataWindow>{window}<LowerRightY>{-half}</LowerRightY><TileLevel>12</TileLevel></DataWindow>"
        "<Projection>EPSG:3857</Projection><BandsCount>3</BandsCount></GDAL_WMS>"
    )
    began_s = time.monotonic()
    with pytest.raises(ImageryError, match="--network"):
        open_imagery(tmp_path / "map.xml")
    with (
        open_imagery(tmp_path / "map.xml", access=Access(network=True)) as imagery,
        pytest.raises(ImageryError, match="sent nothing"),
    ):
        imagery.tile(AT)
    assert time.monotonic() - began_s < 30


def test_tms_is_for_folders(tmp_path: Path) -> None:
    with pytest.raises(ImageryError, match="tms"):
        open_imagery(on_grid(tmp_path / "a.tif", noise(side=256)), tms=True)


def test_damage_is_confined_and_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pixels = noise()
    path = on_grid(tmp_path / "a.tif", pixels, compress="deflate")
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2000] = bytes(2000)
    path.write_bytes(data)
    with open_imagery(path) as imagery:
        whole = imagery.region(Region(12, AT.x, AT.y, 4))
        assert imagery.damaged == 1
        assert 0.75 < whole.coverage < 1.0
        np.testing.assert_array_equal(whole.image[whole.valid], np.moveaxis(pixels, 0, -1)[whole.valid])
        assert not whole.image[~whole.valid].any()
        assert imagery.tile(AT).valid.all() and imagery.damaged == 1
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("crs", "corner", "pixel"),
    [("EPSG:4326", 200.0, 1.0), ("EPSG:3857", 1e12, 1.0), ("EPSG:4978", 0.0, 1.0), ("EPSG:3857", 0.0, 1e-30)],
)
def test_a_georeference_that_makes_no_sense_is_a_clear_error(
    tmp_path: Path, crs: str, corner: float, pixel: float
) -> None:
    path = tmp_path / "odd.tif"
    grey = np.full((32, 32, 3), 90, np.uint8)
    write_geotiff(path, grey, crs=crs, west=corner, north=corner, pixel=pixel, tags={})
    with pytest.raises(ImageryError, match="not a place on the globe"):
        open_imagery(path)
