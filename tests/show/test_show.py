from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from x2localizer import geo
from x2localizer.errors import UserError
from x2localizer.show.pictures import Map, contact_sheet, draw_tracks, overview, save_picture
from x2localizer.show.town import show_town
from x2localizer.sources.imagery import open_imagery, write_geotiff
from x2localizer.sources.tracks import Track
from x2localizer.types import Region


def test_a_sheet_holds_every_picture() -> None:
    images = [np.full((20, 40, 3), 40 * k, np.uint8) for k in range(5)]
    sheet = contact_sheet(images, [str(k) for k in range(5)], columns=2, width=40, title="five")
    for k in range(5):
        assert (sheet == 40 * k).all(2).sum() >= 700


def test_a_map_puts_positions_where_they_are() -> None:
    region = Region(19, 200_000, 198_000, 4)
    base = Map(np.zeros((400, 400, 3), np.uint8), region)
    lat, lon = geo.from_tile_coordinates(np.array([200_001.0, 200_003.5]), np.array([198_001.0, 198_000.25]), 19)
    np.testing.assert_allclose(base.pixels(lat.tolist(), lon.tolist()), [(100, 100), (350, 25)], atol=1e-3)
    lat_west, lon_west = geo.from_tile_coordinates(np.array([199_999.0]), np.array([198_001.0]), 19)
    np.testing.assert_allclose(base.pixels(lat_west.tolist(), lon_west.tolist()), [(-100, 100)], atol=1e-3)
    edge = Map(base.image, Region(19, (1 << 19) - 2, 198_000, 4))  # across the antimeridian
    lat_east, lon_east = geo.from_tile_coordinates(np.array([1.0]), np.array([198_001.0]), 19)
    np.testing.assert_allclose(edge.pixels(lat_east.tolist(), lon_east.tolist()), [(300, 100)], atol=1e-3)
    times = np.array([0.0, 5.0])
    drawn = draw_tracks(base, [("", Track(times, lat, lon, None))], [Region(19, 200_001, 198_001, 2)])
    assert drawn[100, 100].sum() > 100
    assert drawn[62, 225].sum() > 100  # half way
    assert drawn[350, 20].sum() == 0


def test_the_overview_shows_all_of_the_imagery(tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(60, 255, (512, 512, 3)).astype(np.uint8)
    west, _, _, north = geo.mercator_bounds(200_000, 198_000, 19)
    side = 2 * geo.WEB_MERCATOR_HALF_M / (1 << 19)
    write_geotiff(tmp_path / "a.tif", image, crs="EPSG:3857", west=west, north=north, pixel=side / 128, tags={})
    with open_imagery(tmp_path / "a.tif") as imagery:
        shown = overview(imagery, 400)
    assert (shown.image.sum(2) > 0).mean() > 0.95
    assert geo.region_contains(shown.region, *geo.from_tile_coordinates(200_002.0, 198_002.0, 19))


def test_pictures_are_written_by_name(tmp_path: Path) -> None:
    image = np.zeros((8, 8, 3), np.uint8)
    for name, kind in (("a.png", "PNG"), ("a.jpg", "JPEG")):
        save_picture(tmp_path / name, image)
        with Pillow.open(tmp_path / name) as opened:
            assert opened.format == kind


def test_a_folder_without_a_town_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no town"):
        show_town(tmp_path)
