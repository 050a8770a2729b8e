"""Imagery in all coordinate systems: what a tile shows lies where the tile says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import rasterio
from affine import Affine
from pyproj import CRS, Transformer
from rasterio.control import GroundControlPoint
from rasterio.enums import Resampling
from rasterio.warp import reproject

from helpers.imagery_files import Pixels, noise, write
from x2localizer import geo
from x2localizer.sources.imagery import Imagery, open_imagery
from x2localizer.sources.imagery.footprint import Footprint
from x2localizer.types import Position, Region, Tile, TileId

# A spot at a known latitude and longitude is found where the tile says it is.


@dataclass(frozen=True)
class Scene:
    name: str
    crs: str
    lat: float
    lon: float
    pixel: float = 1.0  # units of the system
    stretch: float = 1.0  # width of a pixel over its height
    angle_deg: float = 0.0
    points: bool = False  # placed by ground control points


SCENES = [
    Scene("UTM", "EPSG:32631", 48.7, 3.02),
    Scene("UTM far from its meridian", "EPSG:32633", 59.3, 24.7),
    Scene("UTM rotated", "EPSG:32631", 48.7, 3.02, angle_deg=33.0),
    Scene("UTM by control points", "EPSG:32631", 48.7, 3.02, points=True),
    Scene("degrees", "EPSG:4326", -33.86, 151.2, 1e-5),
    Scene("grads from Paris", "EPSG:4807", 48.7, 3.02, 1e-5),
    Scene("Lambert conic", "EPSG:2154", 44.8, -0.57),
    Scene("Lambert conic in feet", "EPSG:2263", 40.7, -74.0, 3.0),
    Scene("New Zealand", "EPSG:2193", -43.5, 172.6),
    Scene("polar stereographic 78 north", "EPSG:3413", 78.2, 15.6),
    Scene("polar stereographic 84 north", "EPSG:3413", 84.0, -120.0),
    Scene("polar stereographic 78 south", "EPSG:3031", -77.85, 166.67),
    Scene("degrees 84 north", "EPSG:4326", 84.0, 15.0, 1e-5, stretch=9.0),
    Scene("UTM 60 at the antimeridian", "EPSG:32760", -16.8, 180.0),
    Scene("UTM 1 at the antimeridian", "EPSG:32701", -16.8, -179.9995),
    Scene("UTM 1 at 78 north", "EPSG:32601", 78.0, 179.9999),
    Scene("degrees past 180", "EPSG:4326", -16.8, 180.0, 1e-5),
    Scene("Web Mercator past the antimeridian", "EPSG:3857", 65.0, 180.0),
]
SIDE = 400


def spot_file(path: Path, scene: Scene, at: Position) -> Path:
    """A raster around a scene with one soft bright spot at a place."""
    to_crs = Transformer.from_crs("EPSG:4326", scene.crs, always_xy=True)
    x, y = to_crs.transform(scene.lon, scene.lat)
    spot_x, spot_y = to_crs.transform(at.lon_deg, at.lat_deg)
    turn = {"EPSG:4326": 360.0, "EPSG:3857": 2 * geo.WEB_MERCATOR_HALF_M}.get(scene.crs)
    if turn:  # the file continues past the antimeridian
        spot_x += turn * round((x - spot_x) / turn)
    cos, sin = np.cos(np.radians(scene.angle_deg)), np.sin(np.radians(scene.angle_deg))
    wide, high = scene.pixel * scene.stretch, scene.pixel
    a, b, d, e = wide * cos, high * sin, wide * sin, -high * cos
    place = Affine(a, b, x - SIDE / 2 * (a + b), d, e, y - SIDE / 2 * (d + e))
    back = ~place
    column, row = back.a * spot_x + back.b * spot_y + back.c, back.d * spot_x + back.e * spot_y + back.f
    assert 20 < column < SIDE - 20 and 20 < row < SIDE - 20
    centres = np.arange(SIDE) + 0.5
    spot = np.exp(-((centres[None, :] - column) ** 2 + (centres[:, None] - row) ** 2) / (2 * 4.0**2))
    pixels = np.repeat(np.rint(20 + 230 * spot).astype(np.uint8)[None], 3, axis=0)
    if not scene.points:
        return write(path, pixels, scene.crs, place)
    points = [
        GroundControlPoint(r, c, place.a * c + place.b * r + place.c, place.d * c + place.e * r + place.f)
        for r in (0, SIDE // 2, SIDE)
        for c in (0, SIDE // 2, SIDE)
    ]
    return write(path, pixels, scene.crs, None, gcps=points)


def spot_pixel(tile: Tile) -> tuple[float, float]:
    """Where the spot is, as (column, row) from the corner of the picture, in pixels."""
    light = np.where(tile.valid, tile.image[..., 0].astype(float) - 20, 0).clip(0)
    centres = np.arange(light.shape[0]) + 0.5
    return float((light.sum(0) * centres).sum() / light.sum()), float((light.sum(1) * centres).sum() / light.sum())


@pytest.mark.parametrize("scene", SCENES, ids=[scene.name for scene in SCENES])
def test_a_spot_is_where_it_should_be(tmp_path: Path, scene: Scene) -> None:
    local = geo.LocalMetres(Position(scene.lat, scene.lon))
    lat, lon = local.to_degrees(31.0, -47.0)
    spot = Position(float(lat), float(lon))
    with open_imagery(spot_file(tmp_path / "spot.tif", scene, spot)) as imagery:
        zoom = imagery.info.zoom
        lat, lon = local.to_degrees(11.0, -20.0)
        centre = Position(float(lat), float(lon))
        square = imagery.square(centre, zoom)
        x, y = (float(v) for v in geo.tile_coordinates(spot.lat_deg, spot.lon_deg, zoom))
        centre_x, centre_y = (float(v) for v in geo.tile_coordinates(centre.lat_deg, centre.lon_deg, zoom))
        world = 1 << zoom
        east = (x - centre_x + world / 2) % world - world / 2
        assert spot_pixel(square) == pytest.approx((128 + 256 * east, 128 + 256 * (y - centre_y)), abs=0.5)
        region = geo.region_around(spot, zoom, 3)
        picture = imagery.region(region)
        expected = ((x - region.x) % world * 256, (y - region.y) * 256)
        assert spot_pixel(picture) == pytest.approx(expected, abs=0.5)
        # The same pixels tile by tile: the antimeridian is no seam.
        tiles = [imagery.tile(tile) for tile in region.tiles()]
        rows = [np.hstack([tile.image for tile in tiles[i : i + 3]]) for i in (0, 3, 6)]
        masks = [np.hstack([tile.valid for tile in tiles[i : i + 3]]) for i in (0, 3, 6)]
        assert (np.vstack(masks) != picture.valid).mean() < 0.002
        both = np.vstack(masks) & picture.valid
        assert np.abs(np.vstack(rows)[both].astype(int) - picture.image[both]).max() <= 8
        expect_info(imagery, scene, tiles)


def expect_info(imagery: Imagery, scene: Scene, tiles: list[Tile]) -> None:
    """What the file says of itself agrees with the scene and with the tiles."""
    west, south, east, north = imagery.info.bounds
    assert -180 <= west < 180 and west < east < west + 0.2 and south < scene.lat < north
    assert (scene.lon - west) % 360 < east - west
    if scene.crs not in {"EPSG:4326", "EPSG:4807", "EPSG:3857"}:  # 2263 counts 3 feet to the pixel
        metres = 0.9144 if scene.crs == "EPSG:2263" else 1.0
        assert imagery.info.metres_per_pixel == pytest.approx(metres, rel=0.04)
    whole = set(imagery.tiles(imagery.info.zoom))
    touched = set(imagery.tiles(imagery.info.zoom, min_coverage=0.0))
    assert whole <= touched
    assert {tile.id for tile in tiles if tile.valid.any()} <= touched
    if scene.crs in {"EPSG:4326", "EPSG:3857"}:
        assert {tile.id for tile in tiles if tile.valid.all()} <= whole


# The fast path against its naive twin.


@pytest.mark.parametrize(
    ("crs", "place"),
    [
        ("EPSG:32631", Affine(1.2, 0.0, 500000.0, 0.0, -1.2, 5400000.0)),
        ("EPSG:4326", Affine(1.5e-5, 0.0, 3.0, 0.0, -1e-5, 48.75)),
        ("EPSG:3413", Affine(2.0, 0.3, 1200000.0, 0.2, -2.0, -600000.0)),
    ],
)
def test_tiles_agree_with_warping_the_whole_file(tmp_path: Path, crs: str, place: Affine) -> None:
    small = np.random.default_rng(1).integers(0, 256, (3, 40, 40), dtype=np.uint8)
    pixels = np.kron(small, np.ones((1, 20, 20), np.uint8))
    pixels[:, 300:340, 500:520] = 0
    random = np.random.default_rng(2)
    with open_imagery(write(tmp_path / "a.tif", pixels, crs, place, nodata=0)) as imagery:
        for zoom in (imagery.info.zoom - 2, imagery.info.zoom, imagery.info.zoom + 1):
            tiles = list(imagery.tiles(zoom, min_coverage=0.0))
            for index in random.choice(len(tiles), min(4, len(tiles)), replace=False):
                expect_naive(imagery.tile(tiles[index], 128), pixels, crs, place)


def expect_naive(tile: Tile, pixels: Pixels, crs: str, place: Affine) -> None:
    assert tile.id is not None
    size = tile.valid.shape[0]
    west, _, east, north = geo.mercator_bounds(tile.id.x, tile.id.y, tile.id.z)
    step = (east - west) / size
    footprint = Transformer.from_crs("EPSG:3857", crs, always_xy=True)
    x, y = footprint.transform([west + step * 64, west + step * 65], [north - step * 64] * 2)
    back = ~place
    ratio = np.hypot(back.a * (x[1] - x[0]) + back.b * (y[1] - y[0]), back.d * (x[1] - x[0]) + back.e * (y[1] - y[0]))
    warped = np.zeros((3, size, size), np.float32)
    reproject(
        np.where((pixels == 0).all(axis=0), np.nan, pixels.astype(np.float32)),
        warped,
        src_transform=place,
        src_crs=crs,
        src_nodata=np.nan,
        dst_transform=Affine(step, 0.0, west, 0.0, -step, north),
        dst_crs="EPSG:3857",
        dst_nodata=np.nan,
        resampling=Resampling.average if ratio >= 1.5 else Resampling.bilinear,
        # GDAL would guess these from the box around the turned tile, and blur.
        xscale=min(1.0, 1 / ratio),
        yscale=min(1.0, 1 / ratio),
    )
    naive = np.moveaxis(warped, 0, -1)
    valid = np.isfinite(naive).all(axis=-1)
    assert (valid != tile.valid).mean() < 0.005
    both = valid & tile.valid
    assert (tile.image[~tile.valid] == 0).all()
    if both.any():
        assert np.abs(tile.image[both] - naive[both]).mean() < 1.0


def test_only_windows_are_read(tmp_path: Path) -> None:
    """120 GB of pixels, nearly all of them never written."""
    side = 200_000
    place = Affine(0.5, 0.0, 400000.0, 0.0, -0.5, 5400000.0)
    path = tmp_path / "huge.tif"
    with rasterio.open(
        path, "w", driver="GTiff", width=side, height=side, count=3, dtype="uint8", crs="EPSG:32631",
        transform=place, tiled=True, sparse_ok=True, bigtiff="YES", compress="deflate", nodata=0,
    ) as file:  # fmt: skip
        file.write(np.full((3, 512, 512), 77, np.uint8), window=rasterio.windows.Window(102400, 102400, 512, 512))
    lon, lat = Transformer.from_crs("EPSG:32631", "EPSG:4326", always_xy=True).transform(
        400000 + 0.5 * 102656, 5400000 - 0.5 * 102656
    )
    with open_imagery(path) as imagery:
        tile = imagery.square(Position(lat, lon), 18)
        assert tile.valid.all() and (tile.image == 77).all()
        assert not imagery.square(Position(lat + 0.01, lon), 18).valid.any()


def test_a_turned_raster_stays_sharp(tmp_path: Path) -> None:
    """Against a twin that looks up every pixel by itself."""
    pixels = noise(side=512)
    place = Affine(0.8, 0.6, 500000.0, 0.6, -0.8, 5400000.0)
    with open_imagery(write(tmp_path / "a.tif", pixels, "EPSG:32631", place)) as imagery:
        west, south, east, north = imagery.info.bounds
        tile = imagery.square(Position((south + north) / 2, (west + east) / 2), 17, 256)
        x, y = geo.tile_coordinates(tile.centre.lat_deg, tile.centre.lon_deg, 17)
    offsets = (np.arange(256) + 0.5) / 256 - 0.5
    lat, lon = geo.from_tile_coordinates(*np.meshgrid(x + offsets, y + offsets), 17)
    east_m, north_m = Transformer.from_crs(4326, 32631, always_xy=True).transform(lon, lat)
    back = ~place
    column = back.a * east_m + back.b * north_m + back.c - 0.5
    row = back.d * east_m + back.e * north_m + back.f - 0.5
    left, top = np.floor(column).astype(int), np.floor(row).astype(int)
    right, low = (column - left)[..., None], (row - top)[..., None]
    stored = np.moveaxis(pixels, 0, -1).astype(float)
    above = stored[top, left] * (1 - right) + stored[top, left + 1] * right
    below = stored[top + 1, left] * (1 - right) + stored[top + 1, left + 1] * right
    assert tile.valid.all()
    assert np.abs(tile.image - (above * (1 - low) + below * low)).mean() < 0.5


def test_bounds_hold_curved_edges_and_a_pole_near_the_edge(tmp_path: Path) -> None:
    place = Affine(4000.0, 0.0, -1e6, 0.0, -4000.0, -8e5)  # the edges are arcs on the map
    with open_imagery(write(tmp_path / "a.tif", noise(side=500), "EPSG:3413", place)) as imagery:
        lat = Transformer.from_crs(3413, 4326, always_xy=True).transform(0.0, -8e5)[1]
        assert imagery.info.bounds[3] == pytest.approx(lat, abs=0.02)
    place = Affine(4000.0, 0.0, -1e6, 0.0, -4000.0, 10000.0)  # the pole lies 2.5 pixels inside
    with open_imagery(write(tmp_path / "b.tif", noise(side=500), "EPSG:3413", place)) as imagery:
        west, _, east, north = imagery.info.bounds
        assert (west, east) == (-180.0, 180.0) and north == pytest.approx(geo.MAX_LATITUDE_DEG)


@pytest.mark.parametrize("x_m", [-geo.WEB_MERCATOR_HALF_M + 0.1, 0.0, geo.WEB_MERCATOR_HALF_M - 0.1])
def test_resolution_is_the_same_at_the_antimeridian(x_m: float) -> None:
    footprint = Footprint(CRS("EPSG:4326"), Affine(1e-5, 0.0, 179.9, 0.0, -1e-5, 0.1), 20000, 20000)
    degree_m = geo.WEB_MERCATOR_HALF_M / 180
    assert footprint.pixels_per_step(x_m, 0.0, 1e-5 * degree_m) == pytest.approx((1.0, 1.0), rel=1e-3)


def test_the_whole_globe_and_a_pole(tmp_path: Path) -> None:
    columns = np.broadcast_to(np.linspace(0, 255, 720), (3, 360, 720)).astype(np.uint8)
    for west in (-180.0, 0.0, -180.0 - 1e-10):
        place = Affine(0.5, 0.0, west, 0.0, -0.5, 90.0)
        with open_imagery(write(tmp_path / "globe.tif", columns, "EPSG:4326", place)) as imagery:
            assert len(list(imagery.tiles(3, min_coverage=0.9))) == len(set(imagery.tiles(3))) == 64
            assert imagery.info.bounds[0] == pytest.approx(west) and imagery.info.bounds[2] == pytest.approx(west + 360)
            across = imagery.region(Region(3, 7, 3, 2), 64)
            assert across.valid.all()
            middle = across.image[10, 62:66, 0].astype(int)
            assert middle.max() - middle.min() > 200 if west < 0 else middle.max() - middle.min() < 5
            assert imagery.region(Region(1, 0, 0, 2), 64).valid.all()
    polar = write(tmp_path / "pole.tif", noise(side=512), "EPSG:3413", Affine(4000.0, 0.0, -1e6, 0.0, -4000.0, 1e6))
    with open_imagery(polar) as imagery:
        west, _, east, north = imagery.info.bounds
        assert (west, east) == (-180.0, 180.0) and north == pytest.approx(geo.MAX_LATITUDE_DEG)
        assert imagery.tile(TileId(0, 0, 0)).valid[:10].all()
