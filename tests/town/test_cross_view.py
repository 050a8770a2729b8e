"""Both views show the same town: everything in the plan is where geometry puts it, from the street and from above."""

from __future__ import annotations

import numpy as np
import pytest

from x2localizer.town.boxes import BUILDING
from x2localizer.town.columns import BOX
from x2localizer.town.districts import SOLID
from x2localizer.town.drive import Film, draw_drive, open_film, region_bounds
from x2localizer.town.layers import FIELD_UNIT_M, Float32
from x2localizer.town.place import Bounds, along_line, core_regions
from x2localizer.town.scene import CAMERA_HEIGHT_M, Camera, Int32, build_scene, camera_at, project
from x2localizer.town.seasons import season_palette
from x2localizer.town.street import FIRST_BOX_ID, GROUND_ID, SKY_ID, look_around
from x2localizer.town.town import Town, crop_square
from x2localizer.town.weather import Conditions, make_look
from x2localizer.types import Floats, Image

OVERCAST = Conditions("summer", "overcast", "noon", 180.0, 50.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1)


@pytest.fixture(scope="module")
def films(town: Town) -> list[Film]:
    drives = [draw_drive(town, i, 35.0, region_bounds(town, r)) for i, r in enumerate(core_regions(town.place))]
    return [open_film(town, drive, 216, 384) for drive in drives if drive is not None]


def _corners(box: Floats) -> Floats:
    """The four upright edges of a box, at half the height of its wall: (4, 3)."""
    along = np.array([box[BOX.axis_x], box[BOX.axis_y]]) * box[BOX.half_length]
    across = np.array([-box[BOX.axis_y], box[BOX.axis_x]]) * box[BOX.half_width]
    middle, z = np.array([box[BOX.x], box[BOX.y]]), 0.5 * (box[BOX.bottom] + box[BOX.eaves])
    spots = [middle + a * along + b * across for a in (-1, 1) for b in (-1, 1)]
    return np.array([[x, y, z] for x, y in spots])


def test_building_corners_are_seen_where_they_project(films: list[Film]) -> None:
    checked, left_exact, right_exact, in_view, top_exact = 0, 0, 0, 0, 0
    for film in films:
        for time_s in (0.0, 12.0, 24.0):
            camera = film.camera(time_s)
            _, ids = look_around(camera, film.scene, film.look, film.town.layers, film.town.boxes, film.palette)
            for item in np.unique(ids[ids >= FIRST_BOX_ID]) - FIRST_BOX_ID:
                box = film.scene.boxes[item].astype(float)
                spots = project(camera, _corners(box))
                if box[BOX.kind] != BUILDING or (spots[:, 2] < 1.0).any():
                    continue
                rows, columns = np.nonzero(ids == FIRST_BOX_ID + item)
                low, high = spots[:, 0].min(), spots[:, 0].max()
                if len(rows) < 150 or low < 4 or high > camera.width - 4:
                    continue
                checked += 1
                assert columns.min() >= low - 1.5
                assert columns.max() <= high + 1.5
                left_exact += abs(columns.min() + 0.5 - low) < 1.5
                right_exact += abs(columns.max() + 0.5 - high) < 1.5
                nearest = spots[np.argmin(spots[:, 2])]
                eaves = camera.horizon - camera.focal * (box[BOX.eaves] - camera.z) / nearest[2]
                at = rows[np.abs(columns + 0.5 - nearest[0]) < 1.0]
                in_view += len(at) > 0
                top_exact += len(at) > 0 and abs(at.min() + 0.5 - eaves) < 3.0
    assert checked >= 10
    # Other things hide some edges; many must be exact to the pixel.
    assert left_exact >= 0.4 * checked
    assert right_exact >= 0.4 * checked
    assert in_view >= 10
    assert top_exact >= 0.3 * in_view  # roofs rise above the eaves of the others


def _marked_road(town: Town) -> tuple[Floats, Floats, int]:
    """A place on a road with a solid centre line, the road's direction there, and the road's index."""
    for index, road in enumerate(town.plan.roads):
        inside = road.points.min() > 100 and road.points.max() < town.place.size_m - 100
        if road.marking == SOLID and road.length_m > 75 and inside:
            points, tangents = along_line(road.points, np.array([20.0]))
            return points[0], tangents[0], index
    raise AssertionError("the test town has no road with a solid line")


def _bare_look(town: Town, camera: Camera) -> tuple[Float32, Int32]:
    """The light and the ids of a view of bare ground, under an overcast sky."""
    bounds = Bounds(camera.x - 200, camera.y - 200, camera.x + 200, camera.y + 200)
    scene = build_scene(town.boxes[:0], town.trees[:0], bounds, 0)
    look = make_look(OVERCAST, town.layers, town.trees[:0], bounds, town.seed)
    canvas, ids = look_around(camera, scene, look, town.layers, town.boxes, season_palette(town.colours, "summer"))
    return canvas, ids


def test_a_lane_marking_is_seen_where_it_projects_and_lies_there_from_above(town: Town, aerial: Image) -> None:
    place, tangent, index = _marked_road(town)
    side = np.array([-tangent[1], tangent[0]])
    eye = place + side * 1.5
    camera = camera_at(float(eye[0]), float(eye[1]), float(np.arctan2(tangent[0], -tangent[1])), 216, 384)
    canvas, ids = _bare_look(town, camera)
    assert set(np.unique(ids)) == {SKY_ID, GROUND_ID}
    bright_street, bright_aerial = 0, 0
    road = town.plan.roads[index]
    ahead, _ = along_line(road.points, np.arange(26.0, 40.0, 1.0))
    for x, y in ahead:
        spots = project(
            camera, np.array([[x, y, 0.0], [x + side[0], y + side[1], 0.0], [x - side[0], y - side[1], 0.0]])
        )
        line, right, left = (canvas[int(row), int(column)].mean() for column, row, _ in spots)
        bright_street += line > 1.15 * max(left, right)
        pixels = (np.array([[x, y], [x, y] + 1.4 * side, [x, y] - 1.4 * side]) / town.metres_per_pixel).astype(int)
        line, right, left = (aerial[r, c].mean() for c, r in pixels)
        bright_aerial += line > 1.1 * max(left, right)
    assert bright_street >= 11
    assert bright_aerial >= 7  # half a metre per pixel: the line is half as wide, and trees and cars hide some


def test_the_horizon_is_where_the_camera_looks_level(town: Town) -> None:
    place, tangent, _ = _marked_road(town)
    camera = camera_at(
        float(place[0]), float(place[1]), float(np.arctan2(tangent[0], -tangent[1])), 216, 384, pitch=0.02
    )
    _, ids = _bare_look(town, camera)
    first_ground = (ids == GROUND_ID).argmax(0)
    # The ground ends 420 m away: 1.5 m below eye level there.
    expected = camera.horizon + camera.focal * CAMERA_HEIGHT_M / 420.0
    assert np.abs(first_ground - expected).max() <= 1.5


def test_the_tile_around_a_frame_shows_the_road_the_frame_is_on(town: Town, aerial: Image, films: list[Film]) -> None:
    grey, total = 0, 0
    for film in films:
        x, y, heading = film.drive.places(np.arange(0.0, 35.0, 5.0))
        for a, b, h in zip(x, y, heading, strict=True):
            tile = crop_square(town, aerial, float(a), float(b), 128).astype(float)
            c, r = int(a / town.metres_per_pixel), int(b / town.metres_per_pixel)
            assert town.layers.margin[r, c] * FIELD_UNIT_M < 0.5
            # Asphalt is grey: in the middle of the tile and a few metres ahead, colours lie close together.
            for metres in (0.0, 6.0):
                cc = 64 + metres * np.sin(h) / town.metres_per_pixel
                rr = 64 - metres * np.cos(h) / town.metres_per_pixel
                patch = tile[int(rr) - 1 : int(rr) + 2, int(cc) - 1 : int(cc) + 2].reshape(-1, 3)
                grey += np.ptp(np.median(patch, axis=0)) < 26
                total += 1
    assert grey >= 0.75 * total
