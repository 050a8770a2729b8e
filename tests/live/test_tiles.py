"""A gallery as a map of tiles, against its pictures and the imagery it was made of."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from helpers.driven_town import write_roads
from helpers.gallery_files import PX, write_noise
from x2localizer.encoders import Bundle
from x2localizer.gallery import Gallery, index, index_roads, open_gallery
from x2localizer.live.tiles import COARSER, MapTile, MapTiles, map_bounds, road_lines
from x2localizer.sources.imagery import open_imagery
from x2localizer.town.town import Town
from x2localizer.types import Image, TileId

X, Y = 160_000, 200_000
"""The north-west tile; a multiple of 8, so that blocks begin there."""


def _decoded(tile: MapTile) -> Image:
    picture = Pillow.open(io.BytesIO(tile.data))
    assert f"image/{str(picture.format).lower()}" == tile.media_type
    return np.asarray(picture.convert("RGBA"))


def _apart(a: Image, b: Image) -> float:
    """The mean difference of the colours of two pictures."""
    return float(np.abs(a[..., :3].astype(float) - b[..., :3].astype(float)).mean())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_bundle: Bundle) -> Path:
    """Two blocks of tiles, one beside the other, with a hole in the first."""
    made = tmp_path_factory.mktemp("map")
    index(write_noise(made / "a.tif", X, Y, 16, hole=(2, 3)), tiny_bundle, made / "g")
    return made


@pytest.fixture
def gallery(folder: Path) -> Gallery:
    return open_gallery(folder / "g")


def test_a_tile_is_the_picture_of_a_block(gallery: Gallery) -> None:
    tiles = MapTiles(gallery)
    z = tiles.picture_zoom
    assert z == 16
    shown = _decoded(tiles.tile(z, X // 8, Y // 8))
    picture = gallery.pictures([(X, Y)])[X, Y]
    held = shown[..., 3] == 255
    assert _apart(shown[held], picture[held]) < 6.0
    assert not held[2 * 32 : 3 * 32, 3 * 32 : 4 * 32].any(), "the tile without data is transparent"
    assert held.mean() == 63 / 64
    tiles.close()


def test_coarser_tiles_are_made_of_finer_ones(gallery: Gallery) -> None:
    tiles = MapTiles(gallery)
    z = tiles.picture_zoom
    coarse = _decoded(tiles.tile(z - 1, X // 16, Y // 16))
    parts = np.concatenate([
        np.concatenate([_decoded(tiles.tile(z, X // 8 + right, Y // 8 + down)) for right in (0, 1)], 1)
        for down in (0, 1)
    ])  # fmt: skip
    half = parts.reshape(256, 2, 256, 2, 4).mean((1, 3))
    held = (half[..., 3] == 255) & (coarse[..., 3] == 255)
    assert held.mean() > 0.95
    assert _apart(coarse[held], half[held]) < 8.0
    assert not _decoded(tiles.tile(z - COARSER - 1, 0, 0)).any(), "beyond that there is nothing"
    tiles.close()


def test_finer_tiles_are_cut_from_the_imagery(folder: Path, gallery: Gallery) -> None:
    tiles = MapTiles(gallery)
    assert tiles.zooms[1] >= 16
    shown = _decoded(tiles.tile(19, X + 5, Y + 6))
    with open_imagery(folder / "a.tif") as imagery:
        assert _apart(shown, imagery.tile(TileId(19, X + 5, Y + 6)).image) < 8.0
    assert not _decoded(tiles.tile(19, X + 3, Y + 2))[40:-40, 40:-40, 3].any(), "the hole stays one"
    tiles.close()


def test_without_the_imagery_its_pictures_are_enlarged(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "g", tmp_path / "g")
    (folder / "a.tif").rename(folder / "away.tif")
    try:
        tiles = MapTiles(open_gallery(tmp_path / "g"))
        assert tiles.zooms == (11, 16)
        picture = _decoded(tiles.tile(16, X // 8, Y // 8))
        shown = _decoded(tiles.tile(17, X // 4 + 1, Y // 4 + 1))
        assert _apart(shown[::2, ::2], picture[128:, 128:]) < 12.0
    finally:
        (folder / "away.tif").rename(folder / "a.tif")


@pytest.mark.parametrize(
    ("z", "x", "y"), [(16, 0, 0), (16, -5, 7), (16, 3, -1), (16, 3, 1 << 16), (-1, 0, 0), (30, 0, 0)]
)
def test_where_there_is_nothing_tiles_are_transparent(gallery: Gallery, z: int, x: int, y: int) -> None:
    tiles = MapTiles(gallery)
    assert not _decoded(tiles.tile(z, x, y)).any()
    tiles.close()


def test_roads_alone_have_bounds_and_lines(town: Town, tmp_path: Path) -> None:
    gallery = index_roads(write_roads(town, tmp_path / "roads.geojson"), tmp_path / "g")
    bounds = map_bounds(gallery)
    assert bounds is not None
    west, south, east, north = bounds
    lines = road_lines(gallery.roads(), west)
    assert len(lines) == 3
    points = np.array([point for kind in lines for line in kind for point in line])
    assert (points >= (south - 1e-5, west - 1e-5)).all()
    assert (points <= (north + 1e-5, east + 1e-5)).all()
    assert not _decoded(MapTiles(gallery).tile(16, 0, 0)).any()


def test_a_map_across_the_antimeridian_is_one(tmp_path: Path, tiny_bundle: Bundle) -> None:
    world = 1 << 19
    index(write_noise(tmp_path / "west.tif", world - 8, Y, 8), tiny_bundle, tmp_path / "g")
    gallery = index(write_noise(tmp_path / "east.tif", 0, Y, 8, seed=1), tiny_bundle, tmp_path / "g")
    bounds = map_bounds(gallery)
    assert bounds is not None
    assert bounds[2] - bounds[0] == pytest.approx(16 * 360 / world, rel=0.05)
    assert bounds[0] < 180.0 < bounds[2]
    tiles = MapTiles(gallery)
    assert _decoded(tiles.tile(16, 1 << 16, Y // 8))[..., 3].all(), "columns wrap"
    assert PX == 32
    tiles.close()
