"""Tiles, regions, distances: at the antimeridian, near the poles, and at the edges of the map."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from x2localizer import geo
from x2localizer.types import Position, Region, TileId

zooms = st.integers(0, 22)
map_lats = st.floats(-geo.MAX_LATITUDE_DEG, geo.MAX_LATITUDE_DEG)
lats = st.floats(-90, 90)
lons = st.floats(-180, 180)
any_lons = st.floats(-1e4, 1e4)


@st.composite
def tiles(draw: st.DrawFn) -> TileId:
    z = draw(zooms)
    last = (1 << z) - 1
    return TileId(z, draw(st.integers(0, last)), draw(st.integers(0, last)))


@st.composite
def regions(draw: st.DrawFn, z: int) -> Region:
    world = 1 << z
    n = draw(st.integers(1, world))
    return Region(z, draw(st.integers(0, world - 1)), draw(st.integers(0, world - n)), n)


def turned(a_deg: float, b_deg: float) -> float:
    """The angle between two meridians."""
    return abs((a_deg - b_deg + 180) % 360 - 180)


# ---------------------------------------------------------------- longitudes


@given(any_lons)
@example(-180.00000000000003)
@example(180.0)
@example(math.nextafter(180.0, 0.0))
@example(-1e-300)
def test_wrapped_longitude_is_the_same_meridian_in_range(lon: float) -> None:
    wrapped = float(geo.wrap_longitude(lon))
    assert -180.0 <= wrapped < 180.0
    assert turned(wrapped, lon) < 1e-9


def test_wrapping_takes_arrays_of_any_shape() -> None:
    wrapped = geo.wrap_longitude(np.array([[0.0, 180.0], [-180.0, 540.5]]))
    assert wrapped.tolist() == [[0.0, -180.0], [-180.0, -179.5]]


# ---------------------------------------------------------------- tiles


@given(map_lats, lons, zooms)
@example(geo.MAX_LATITUDE_DEG, 180.0, 22)
@example(-geo.MAX_LATITUDE_DEG, -180.0, 22)
@example(-85.05, math.nextafter(180.0, 0.0), 22)
@example(0.0, -180.00000000000003, 0)
def test_tile_coordinates_round_trip(lat: float, lon: float, z: int) -> None:
    x, y = geo.tile_coordinates(lat, lon, z)
    assert 0 <= x < 1 << z
    assert 0 <= y < 1 << z
    lat_back, lon_back = geo.from_tile_coordinates(x, y, z)
    assert abs(lat_back - lat) < 1e-8
    assert turned(float(lon_back), lon) < 1e-8


@given(tiles())
def test_the_centre_of_a_tile_is_in_the_tile(tile: TileId) -> None:
    assert geo.tile_at(geo.tile_centre(tile), tile.z) == tile


@pytest.mark.parametrize(
    ("lat", "lon", "z", "tile"),
    [
        (0.0, 0.0, 0, TileId(0, 0, 0)),
        (0.0, 0.0, 1, TileId(1, 1, 1)),
        (1e-9, -1e-9, 1, TileId(1, 0, 0)),
        (geo.MAX_LATITUDE_DEG, -180.0, 22, TileId(22, 0, 0)),
        (-geo.MAX_LATITUDE_DEG, 179.9999999, 22, TileId(22, (1 << 22) - 1, (1 << 22) - 1)),
        (48.13743, 11.57549, 15, TileId(15, 17437, 11371)),  # Marienplatz, Munich
    ],
)
def test_known_tiles(lat: float, lon: float, z: int, tile: TileId) -> None:
    assert geo.tile_at(Position(lat, lon), z) == tile


def test_both_names_of_the_antimeridian_are_one_tile() -> None:
    assert geo.tile_at(Position(10, 180), 12) == geo.tile_at(Position(10, -180), 12)


@pytest.mark.parametrize("lat", [85.06, -85.06, 90.0, np.nan, np.inf, -np.inf])
def test_beyond_the_map_there_are_no_tiles(lat: float) -> None:
    with pytest.raises(ValueError, match="latitude"):
        geo.tile_coordinates(lat, 0.0, 10)
    with pytest.raises(ValueError, match="latitude"):
        geo.tile_at(Position(lat, 0.0), 10)
    with pytest.raises(ValueError, match="latitude"):
        geo.region_contains(Region(10, 0, 0), np.array([0.0, lat]), np.array([0.0, 0.0]))
    with pytest.raises(ValueError, match="latitude"):
        geo.region_around(Position(lat, 0.0), 10)


@pytest.mark.parametrize("lon", [np.nan, np.inf, -np.inf])
def test_a_longitude_must_be_a_number(lon: float) -> None:
    with pytest.raises(ValueError, match="longitude"):
        geo.tile_coordinates(np.array([0.0, 0.0]), np.array([1.0, lon]), 10)
    with pytest.raises(ValueError, match="longitude"):
        geo.region_contains(Region(10, 0, 0), 0.0, lon)


@given(st.floats(-85, 85), lons, st.integers(12, 22))
def test_tile_size_is_that_of_the_ellipsoid_within_a_hundredth(lat: float, lon: float, z: int) -> None:
    x, y = (float(value) for value in geo.tile_coordinates(lat, lon, z))
    across = geo.distance_m(*geo.from_tile_coordinates(x - 0.5, y, z), *geo.from_tile_coordinates(x + 0.5, y, z))
    down = geo.distance_m(*geo.from_tile_coordinates(x, y - 0.5, z), *geo.from_tile_coordinates(x, y + 0.5, z))
    size = geo.tile_size_m(lat, z)
    assert size == pytest.approx(float(across), rel=0.01)
    assert size == pytest.approx(float(down), rel=0.01)


def test_mercator_bounds_of_tiles() -> None:
    half = geo.WEB_MERCATOR_HALF_M
    assert geo.mercator_bounds(0, 0, 0) == pytest.approx((-half, -half, half, half))
    assert geo.mercator_bounds(1, 0, 1) == pytest.approx((0, 0, half, half))
    # Two tiles from the last column go on east of the antimeridian.
    assert geo.mercator_bounds(3, 2, 2, across=2) == pytest.approx((half / 2, -half / 2, 1.5 * half, 0))
    assert half == pytest.approx(20037508.342789244)


# ---------------------------------------------------------------- regions


def test_the_tiles_of_a_region_go_row_by_row_and_wrap() -> None:
    assert Region(3, 7, 2, 2).tiles() == (TileId(3, 7, 2), TileId(3, 0, 2), TileId(3, 7, 3), TileId(3, 0, 3))
    assert str(Region(3, 7, 2, 2)) == "3/7/2x2"


@given(st.data(), st.integers(0, 5))
def test_a_region_contains_the_centres_of_its_tiles_and_no_others(data: st.DataObject, z: int) -> None:
    region = data.draw(regions(z))
    inside = set(region.tiles())
    assert len(inside) == region.n**2
    rows, columns = np.mgrid[0 : 1 << z, 0 : 1 << z]
    contained = geo.region_contains(region, *geo.from_tile_coordinates(columns + 0.5, rows + 0.5, z))
    found = zip(columns[contained], rows[contained], strict=True)
    assert {TileId(z, int(x), int(y)) for x, y in found} == inside


def test_a_region_across_the_antimeridian() -> None:
    region = Region(4, 15, 7, 2)  # columns 15 and 0: 157.5 E to 157.5 W
    lons = np.array([157.4, 157.5, 179.9, 180.0, -180.0, -157.6, -157.5, 0.0])
    inside = geo.region_contains(region, np.full(8, 1.0), lons)
    assert inside.tolist() == [False, True, True, True, True, True, False, False]
    assert geo.region_centre(region).lon_deg == -180.0


def test_the_margin_keeps_away_from_the_border() -> None:
    region = Region(4, 4, 4, 4)
    lats, lons = geo.from_tile_coordinates(np.array([4.2, 4.6, 6.0, 7.4, 7.6]), np.full(5, 6.0), 4)
    inside = geo.region_contains(region, lats, lons, margin_tiles=0.5)
    assert inside.tolist() == [False, True, True, True, False]


@given(map_lats, any_lons, zooms, st.integers(1, 9))
@example(0.0, -180 + 360 * 3 / 8, 3, 1)  # on the edge between two tiles
@example(geo.MAX_LATITUDE_DEG, 180.0, 22, 7)
@example(-geo.MAX_LATITUDE_DEG, 180.0, 22, 7)
@example(-geo.MAX_LATITUDE_DEG, -180.00000000000003, 22, 1)
def test_the_region_around_a_position_contains_it(lat: float, lon: float, z: int, n: int) -> None:
    world = 1 << z
    assume(n <= world)
    region = geo.region_around(Position(lat, lon), z, n)
    assert bool(geo.region_contains(region, lat, lon))
    assert 0 <= region.x < world
    assert 0 <= region.y <= world - n
    if n < world:  # the middle is as near as whole tiles allow, but at the edges of the map
        x, y = geo.tile_coordinates(lat, lon, z)
        off = (float(x) - region.x) % world - n / 2
        assert abs(off) <= 0.5 + 1e-9
        assert abs(float(y) - region.y - n / 2) <= 0.5 + 1e-9 or region.y in (0, world - n)


def test_a_region_larger_than_the_world_is_refused() -> None:
    assert geo.region_around(Position(0, 0), 3, 8).n == 8
    with pytest.raises(ValueError, match="larger than the world"):
        geo.region_around(Position(0, 0), 3, 9)


@given(st.data(), st.integers(0, 4))
def test_overlap_is_the_share_of_common_tiles(data: st.DataObject, z: int) -> None:
    a, b = data.draw(regions(z)), data.draw(regions(z))
    common = len(set(a.tiles()) & set(b.tiles()))
    assert geo.region_overlap(a, b) == pytest.approx(common / a.n**2, abs=1e-12)
    if a.n == b.n:
        assert geo.region_overlap(a, b) == geo.region_overlap(b, a)
    assert geo.region_overlap(a, a) == 1.0


def test_regions_of_two_zooms_do_not_compare() -> None:
    with pytest.raises(ValueError, match="zoom"):
        geo.region_overlap(Region(10, 0, 0), Region(11, 0, 0))


# ---------------------------------------------------------------- distances


@pytest.mark.parametrize(
    ("a", "b", "metres"),
    [
        ((0, 0), (1, 0), 110574.389),  # a degree of latitude at the equator
        ((89, 0), (90, 0), 111693.865),  # and at the pole
        ((0, 0), (0, 1), 111319.491),  # a degree of longitude at the equator
        ((0, 179.5), (0, -179.5), 111319.491),
        ((0, 0), (90, 0), 10001965.729),  # the quarter meridian of WGS84
        ((90, 0), (-90, 0), 20003931.459),
        ((48, 11), (48, 11), 0.0),
        ((90, 10), (90, -100), 0.0),
    ],
)
def test_known_distances(a: tuple[float, float], b: tuple[float, float], metres: float) -> None:
    assert float(geo.distance_m(*a, *b)) == pytest.approx(metres, abs=1e-3)


@given(lats, lons, lats, lons, any_lons)
def test_distance_is_symmetric_and_the_same_at_every_meridian(
    lat_a: float, lon_a: float, lat_b: float, lon_b: float, shift: float
) -> None:
    there = float(geo.distance_m(lat_a, lon_a, lat_b, lon_b))
    back = float(geo.distance_m(lat_b, lon_b, lat_a, lon_a))
    shifted = float(geo.distance_m(lat_a, lon_a + shift, lat_b, lon_b + shift))
    assert there == pytest.approx(back, abs=1e-6)
    assert there == pytest.approx(shifted, abs=1e-3)  # adding the shift rounds degrees


def test_distances_of_arrays_broadcast() -> None:
    distances = geo.distance_m(np.zeros((2, 3)), np.arange(3.0), 0.0, 0.0)
    assert distances.shape == (2, 3)
    assert distances[1] == pytest.approx(111319.4908 * np.arange(3), abs=1e-3)


# ---------------------------------------------------------------- local metres

origins = st.builds(Position, lats, lons)
metres = st.floats(-10_000, 10_000)


@given(origins, metres, metres)
@example(Position(90.0, 0.0), 100.0, -200.0)
@example(Position(-89.9999, 180.0), 5000.0, 5000.0)
@example(Position(0.0, -180.0), -7.0, 3.0)
def test_metres_to_degrees_and_back(origin: Position, east: float, north: float) -> None:
    plane = geo.LocalMetres(origin)
    lat, lon = plane.to_degrees(east, north)
    assert -180.0 <= float(lon) < 180.0
    # Degrees as doubles are good to a few nanometres; near the pole a longitude as such says little.
    assert float(geo.distance_m(origin.lat_deg, origin.lon_deg, lat, lon)) == pytest.approx(
        math.hypot(east, north), abs=1e-6
    )
    if abs(origin.lat_deg) < 90:  # at a pole itself every direction is south
        east_back, north_back = plane.to_metres(lat, lon)
        tolerance = 1e-6 if abs(origin.lat_deg) < 89.9 else 1e-3
        assert (float(east_back), float(north_back)) == pytest.approx((east, north), abs=tolerance)


@given(st.builds(Position, st.floats(-89, 89), lons), metres, metres, metres, metres)
def test_distances_on_the_plane_are_those_on_the_globe(
    origin: Position, east_a: float, north_a: float, east_b: float, north_b: float
) -> None:
    assume(math.hypot(east_a, north_a) <= 10_000 and math.hypot(east_b, north_b) <= 10_000)
    plane = geo.LocalMetres(origin)
    on_globe = float(geo.distance_m(*plane.to_degrees(east_a, north_a), *plane.to_degrees(east_b, north_b)))
    assert on_globe == pytest.approx(math.hypot(east_a - east_b, north_a - north_b), rel=1e-6, abs=1e-6)


def test_east_is_east_and_north_is_north_across_the_antimeridian() -> None:
    plane = geo.LocalMetres(Position(-17.0, 179.9999))
    east, north = plane.to_metres(np.array([-17.0, -16.999]), np.array([-179.9999, 179.9999]))
    assert east == pytest.approx([21.3, 0.0], abs=0.1)
    assert north == pytest.approx([0.0, 110.7], abs=0.1)
    assert [float(value) for value in plane.to_metres(-17.0, 179.9999)] == pytest.approx([0.0, 0.0])
    lats, lons = plane.to_degrees(np.zeros((2, 3)), 1.0)
    assert lats.shape == lons.shape == (2, 3)
