from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.small_world import SMALL
from x2localizer import geo
from x2localizer.sources.imagery import open_imagery, write_geotiff
from x2localizer.town.aerial import cast_shadow
from x2localizer.town.boxes import BUILDING, LOT
from x2localizer.town.columns import BOX
from x2localizer.town.drive import draw_drive, open_film
from x2localizer.town.place import ZOOM, core_regions
from x2localizer.town.town import (
    Town,
    build_town,
    crop_region,
    crop_square,
    georeference,
    paint_town,
    shrink,
    tree_count,
)
from x2localizer.types import Image, Position

FINGERPRINT = """
import hashlib, numpy as np
from x2localizer.config import TownSettings
from x2localizer.town.town import build_town, paint_town
from x2localizer.town.drive import draw_drive, open_film
town = build_town(5, TownSettings(tiles=16))
drive = draw_drive(town, 3, 10.0)
film = open_film(town, drive, 32, 64)
digest = hashlib.sha256()
for part in (paint_town(town), film.image(0.0), film.image(7.5), drive.route.lane):
    digest.update(np.ascontiguousarray(part).tobytes())
print(digest.hexdigest())
"""


def _fingerprint(town: Town, aerial: Image) -> str:
    drive = draw_drive(town, 3, 10.0)
    assert drive is not None
    film = open_film(town, drive, 32, 64)
    digest = hashlib.sha256()
    for part in (aerial, film.image(0.0), film.image(7.5), drive.route.lane):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def test_the_same_seed_gives_the_same_pixels_in_another_process(town: Town, aerial: Image) -> None:
    other = subprocess.run([sys.executable, "-c", FINGERPRINT], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == _fingerprint(town, aerial)


def test_a_frame_does_not_depend_on_the_frames_before_it(town: Town) -> None:
    drive = draw_drive(town, 3, 10.0)
    assert drive is not None
    straight, jumping = open_film(town, drive, 32, 64), open_film(town, drive, 32, 64)
    for time_s in (0.0, 1.0, 2.0):
        straight.image(time_s)
    np.testing.assert_array_equal(straight.image(3.0), jumping.image(3.0))


def test_another_seed_gives_another_town(town: Town) -> None:
    other = build_town(6, SMALL)
    assert other.place != town.place
    assert len(other.plan.roads) != len(town.plan.roads) or not np.array_equal(other.boxes, town.boxes)


def test_a_town_has_what_a_town_has(town: Town) -> None:
    kinds = {district.kind.name for district in town.plan.districts}
    assert len(kinds) >= 4
    assert (town.boxes[:, BOX.kind] == BUILDING).sum() > 300
    assert (town.boxes[:, BOX.kind] >= LOT).sum() > 20
    assert tree_count(town) > 500
    heights = town.boxes[town.boxes[:, BOX.kind] == BUILDING, BOX.eaves]
    assert heights.min() > 2
    assert heights.max() > 10
    assert (town.boxes[:, BOX.half_length] > 0).all()
    assert (town.boxes[:, BOX.half_width] > 0).all()


def test_most_towns_together_have_rivers_and_bridges() -> None:
    plans = [build_town(seed, SMALL).plan for seed in range(4)]
    rivers = [plan for plan in plans if plan.river is not None]
    assert rivers
    assert any(road.bridge for plan in rivers for road in plan.roads)


def test_no_building_stands_on_asphalt(town: Town) -> None:
    solid = np.zeros(len(town.boxes) + 1, bool)
    solid[1:] = town.boxes[:, BOX.kind] == BUILDING
    on_building = solid[town.layers.owner]
    assert on_building.mean() > 0.03
    on_road = town.layers.margin < 0
    assert (on_building & on_road).sum() / on_road.sum() < 0.001


def test_a_tile_is_about_58_m_and_the_town_lies_in_the_ocean(town: Town) -> None:
    assert 56 < town.place.tile_m < 60
    lat, lon = town.place.to_degrees(np.array([0.0, town.place.size_m]), np.array([0.0, town.place.size_m]))
    assert ((lat > 40) & (lat < 42)).all()
    assert ((lon > -46) & (lon < -34)).all()
    metres = float(geo.distance_m(lat[0], lon[0], lat[0], lon[1]))
    assert metres == pytest.approx(town.place.size_m, rel=0.005)


def test_metres_and_degrees_are_inverse(town: Town) -> None:
    x, y = np.array([0.0, 100.5, 900.0]), np.array([3.0, 50.25, 800.0])
    back = town.place.to_metres(*town.place.to_degrees(x, y))
    np.testing.assert_allclose(back, (x, y), atol=1e-5)


def test_regions_of_the_grid_do_not_overlap_and_stay_inside(town: Town) -> None:
    regions = core_regions(town.place)
    assert len(regions) == 4
    for i, a in enumerate(regions):
        assert town.place.x < a.x
        assert a.x + a.n < town.place.x + town.place.tiles
        for b in regions[:i]:
            assert geo.region_overlap(a, b) == 0.0


@pytest.fixture(scope="module")
def geotiff(town: Town, aerial: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("town") / "aerial.tif"
    west, north, pixel = georeference(town)
    write_geotiff(path, aerial, crs="EPSG:3857", west=west, north=north, pixel=pixel, tags={})
    return path


def test_a_region_cut_from_memory_equals_the_geotiff_read_as_any_users_file(
    town: Town, aerial: Image, geotiff: Path
) -> None:
    with open_imagery(geotiff) as imagery:
        for region in core_regions(town.place):
            read = imagery.region(region, 128)
            assert read.coverage == 1.0
            np.testing.assert_array_equal(read.image, crop_region(town, aerial, region, 128))
            half = imagery.region(region, 64).image.astype(int)
            assert np.abs(half - crop_region(town, aerial, region, 64)).mean() < 1.5


def test_a_square_cut_from_memory_lies_within_a_pixel_of_the_geotiffs(town: Town, aerial: Image, geotiff: Path) -> None:
    rng = np.random.default_rng(1)
    with open_imagery(geotiff) as imagery:
        for x, y in rng.uniform(100, town.place.size_m - 100, (6, 2)):
            lat, lon = town.place.to_degrees(np.array(x), np.array(y))
            read = imagery.square(Position(float(lat), float(lon)), ZOOM, 128).image.astype(int)
            cut = crop_square(town, aerial, float(x), float(y), 128).astype(int)
            shifts = [
                np.abs(np.roll(read, (dr, dc), (0, 1))[3:-3, 3:-3] - cut[3:-3, 3:-3]).mean()
                for dr in (-2, 0, 2)
                for dc in (-2, 0, 2)
            ]
            assert int(np.argmin(shifts)) == 4  # no shift fits best


def test_a_cut_beyond_the_town_is_refused(town: Town, aerial: Image) -> None:
    with pytest.raises(ValueError, match="beyond town"):
        crop_square(town, aerial, 1.0, 1.0, 64)


def test_shrinking_is_the_mean() -> None:
    image = np.random.default_rng(0).integers(0, 256, (12, 18, 3)).astype(np.uint8)
    naive = image.reshape(4, 3, 6, 3, 3).mean((1, 3))
    assert np.abs(shrink(image, 3) - naive).max() <= 0.5


@pytest.mark.parametrize("sun", [(0.8, 0.6), (-0.8, 0.6), (0.3, -0.95), (-0.2, -0.98)])
def test_the_shadow_sweep_equals_marching_to_the_sun(sun: tuple[float, float]) -> None:
    rng = np.random.default_rng(7)
    height = np.zeros((60, 70), np.uint16)
    for _ in range(6):
        r, c = rng.integers(5, 50, 2)
        height[r : r + 6, c : c + 6] = rng.integers(30, 150)
    norm = float(np.hypot(*sun))
    sun_x, sun_y, slope, metres = sun[0] / norm, sun[1] / norm, 0.9, 0.5
    reach = np.zeros(height.shape, np.float32)
    cast_shadow(height, metres, sun_x, sun_y, slope, reach)
    naive = np.zeros(height.shape)
    for r in range(60):
        for c in range(70):
            for step in np.arange(0.5, 40.0, 0.5):
                rr, cc = round(r + sun_y * step), round(c + sun_x * step)
                if 0 <= rr < 60 and 0 <= cc < 70 and (rr, cc) != (r, c):
                    naive[r, c] = max(naive[r, c], height[rr, cc] * 0.1 - step * metres * slope)
    ground = height == 0
    dark, naive_dark = reach[ground] > 0.5, naive[ground] > 0.5
    assert naive_dark.mean() > 0.05
    assert (dark == naive_dark).mean() > 0.95  # they differ in the soft rim only


def test_the_picture_is_neither_dark_nor_flat(aerial: Image) -> None:
    assert 70 < aerial.mean() < 170
    assert aerial.reshape(-1, 3).std(0).min() > 20


def test_seasons_differ_between_imagery_and_drives(town: Town) -> None:
    for seed in range(12):
        drive = draw_drive(town, seed, 10.0)
        assert drive is not None
        assert drive.conditions.season != town.season


def test_painting_twice_gives_the_same(town: Town, aerial: Image) -> None:
    np.testing.assert_array_equal(paint_town(town), aerial)
