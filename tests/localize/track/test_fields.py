"""The field of roads against a plain look at every point of every road; patches across the antimeridian."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.streets import to_degrees, write_streets
from x2localizer.localize.track.fields import REACH_M, RoadField
from x2localizer.localize.track.kernels import (
    HEADING,
    NEAR_ROADS,
    POSE,
    WEIGHT,
    X,
    Y,
    road_values,
    weigh_roads,
)
from x2localizer.localize.track.patches import METRES_AROUND, Patches, patches_around
from x2localizer.sources.roads import read_roads
from x2localizer.types import Floats

ZOOM = 19
SIGMA_M, SIGMA_RAD, FLOOR, OFF_ROAD = 7.0, np.radians(20.0), 0.12, 0.03
VALUES = road_values(SIGMA_M, SIGMA_RAD, FLOOR, OFF_ROAD)


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> RoadField:
    roads = read_roads(write_streets(tmp_path_factory.mktemp("roads") / "streets.geojson"))
    x, y = (values.astype(int) for values in _tiles(roads.points_deg))
    found = RoadField.of(roads, patches_around(zip(x.tolist(), y.tolist(), strict=True), ZOOM))
    assert found is not None
    return found


def _tiles(points_deg: Floats) -> tuple[Floats, Floats]:
    patches = Patches(np.zeros((0, 4), np.int64), ZOOM)
    return patches.tile_coordinates(points_deg[:, 0], points_deg[:, 1])


def _fast(field: RoadField, poses: Floats) -> Floats:
    patch = field.patches.holding(poses[X], poses[Y]).astype(np.int32)
    weigh_roads(
        poses, patch, field.patches.corners, field.offsets, field.cells, field.patches.world, VALUES, 0.0, 1.0, 0.0
    )  # fmt: skip
    return np.asarray(poses[WEIGHT])


def _plain(field: RoadField, x: float, y: float, heading: float) -> float:
    """The best fit over all points of all roads, without a field."""
    tile_m = float(field.patches.tile_m(np.array([y]))[0])
    away = np.hypot(field.x - x, field.y - y) * tile_m
    angle = heading - field.headings
    angle = angle - np.pi * np.rint(angle / np.pi)
    along = np.maximum(np.exp(-0.5 * (angle / SIGMA_RAD) ** 2), FLOOR)
    fit = np.where(away <= REACH_M, np.exp(-0.5 * (away / SIGMA_M) ** 2) * along, 0.0)
    return float(np.log(OFF_ROAD + (1 - OFF_ROAD) * fit.max()))


@given(east=st.floats(20, 980), north=st.floats(20, 980), heading=st.floats(-7, 7))
def test_road_evidence_equals_its_plain_twin(field: RoadField, east: float, north: float, heading: float) -> None:
    lats, lons = to_degrees(np.array([east]), np.array([north]))
    x, y = field.patches.tile_coordinates(lats, lons)
    # In the middle of its cell the field is exact but for rounding to 0.25 m and the 2 m between points of a road.
    x, y = (np.floor(x * NEAR_ROADS) + 0.5) / NEAR_ROADS, (np.floor(y * NEAR_ROADS) + 0.5) / NEAR_ROADS
    poses = np.zeros((POSE, 1))
    poses[X], poses[Y], poses[HEADING] = x, y, heading
    fast, plain = float(_fast(field, poses)[0]), _plain(field, float(x[0]), float(y[0]), heading)
    assert fast == pytest.approx(plain, abs=0.2)


@given(east=st.floats(20, 980), north=st.floats(20, 980), heading=st.floats(0, 6.28))
def test_driving_a_road_backward_fits_as_well(field: RoadField, east: float, north: float, heading: float) -> None:
    lats, lons = to_degrees(np.array([east, east]), np.array([north, north]))
    poses = np.zeros((POSE, 2))
    poses[X], poses[Y] = field.patches.tile_coordinates(lats, lons)
    poses[HEADING] = heading, heading + np.pi
    forward, backward = _fast(field, poses)
    assert forward == pytest.approx(backward, abs=1e-9)


def test_off_the_patch_roads_say_nothing(field: RoadField) -> None:
    poses = np.zeros((POSE, 1))
    poses[X], poses[Y] = field.patches.corners[0, 0] - 5.0, field.patches.corners[0, 1] - 5.0
    patch = np.zeros(1, np.int32)
    weigh_roads(
        poses, patch, field.patches.corners, field.offsets, field.cells, field.patches.world, VALUES, 0.0, 1.0, 0.0
    )  # fmt: skip
    assert poses[WEIGHT, 0] == 0.0


def test_neighbouring_blocks_are_one_patch_and_distant_ones_are_not() -> None:
    patches = patches_around([(800, 800), (806, 800), (809, 800), (4000, 800)], ZOOM)
    assert len(patches) == 2
    assert (patches.holding(np.array([800.5, 809.5, 4000.5, 100.0]), np.full(4, 800.5)) >= 0).tolist() == [
        True, True, True, False,
    ]  # fmt: skip


def test_a_patch_crosses_the_antimeridian() -> None:
    world = 1 << ZOOM
    patches = patches_around([(world - 1, 800), (0, 800)], ZOOM)
    assert len(patches) == 1
    assert (patches.holding(np.array([world - 0.5, 0.5]), np.array([800.5, 800.5])) == 0).all()
    assert patches.corners[0, 2] < 30


def test_a_tile_is_as_large_as_web_mercator_says() -> None:
    patches = Patches(np.zeros((0, 4), np.int64), ZOOM)
    assert float(patches.tile_m(np.array([patches.world / 2]))[0]) == pytest.approx(METRES_AROUND / patches.world)
