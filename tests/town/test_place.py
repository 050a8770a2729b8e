from __future__ import annotations

import numpy as np

from x2localizer.town.boxes import Footprint
from x2localizer.town.columns import BOX, ROAD, SEGMENT, TREE, WAVE
from x2localizer.town.place import Bounds, along_line, bounds_around, distance_to

SQUARE = Bounds(west=0.0, north=0.0, east=10.0, south=10.0)


def test_columns_are_numbered_in_order() -> None:
    for table in (BOX, TREE, ROAD, SEGMENT, WAVE):
        assert list(table) == list(range(len(table)))


def test_bounds_contain_what_is_inside_but_not_their_border() -> None:
    inside = SQUARE.contains(np.array([5.0, 0.0, 10.0, 5.0, 11.0]), np.array([5.0, 5.0, 5.0, 9.9, 5.0]))
    assert inside.tolist() == [True, False, False, True, False]


def test_bounds_enclose_or_overlap_points() -> None:
    inside, across, outside = (
        np.array([[1.0, 1.0], [9, 9]]),
        np.array([[-5.0, 5], [5, 5]]),
        np.array([[12.0, 1], [15, 9]]),
    )
    assert [SQUARE.encloses(points) for points in (inside, across, outside)] == [True, False, False]
    assert [SQUARE.overlaps(points) for points in (inside, across, outside)] == [True, True, False]


def test_bounds_around_points_leave_a_margin() -> None:
    assert bounds_around(np.array([[3.0, 8.0], [5.0, 2.0]]), 1.5) == Bounds(1.5, 0.5, 6.5, 9.5)


def test_places_along_a_line_lie_on_it() -> None:
    line = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 5.0]])
    points, tangents = along_line(line, np.array([0.0, 4.0, 12.0, 15.0]))
    assert points.tolist() == [[0, 0], [4, 0], [10, 2], [10, 5]]
    assert tangents.tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
    np.testing.assert_allclose(distance_to(line, points - np.array([0.0, 3.0]))[:2], 3.0)


def test_a_footprint_turns_its_axis_to_the_longer_side() -> None:
    wide = Footprint(1.0, 2.0, 1.0, 0.0, 3.0, 5.0)
    assert wide.lengthwise() == Footprint(1.0, 2.0, 0.0, 1.0, 5.0, 3.0)
    assert wide.lengthwise().lengthwise() == wide.lengthwise()
    assert wide.scaled(2.0).grown(1.0) == Footprint(1.0, 2.0, 1.0, 0.0, 7.0, 11.0)
