"""Roads as values: lengths, bounds, choosing and joining, and what is refused."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from x2localizer import geo
from x2localizer.sources.roads import RoadKind, Roads


def _roads(lines: list[list[tuple[float, float]]], kinds: list[int] | None = None) -> Roads:
    sizes = [len(line) for line in lines]
    points = np.array([point for line in lines for point in line], float).reshape(-1, 2)
    return Roads(
        points, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.array(kinds if kinds is not None else [1] * len(lines), np.int8), np.zeros(len(lines), np.bool_),
    )  # fmt: skip


LINES = [[(48.0, 11.0), (48.01, 11.0), (48.01, 11.02)], [(47.9, 10.9), (47.9, 11.0)], [(48.5, 11.0), (48.6, 11.0)]]


def test_lengths_are_those_of_each_line() -> None:
    roads = _roads(LINES, [0, 2, 2])
    expected = [sum(float(geo.distance_m(*a, *b)) for a, b in pairwise(line)) for line in LINES]
    np.testing.assert_allclose(roads.lengths_m(), expected)
    by_kind = roads.lengths_by_kind_m()
    assert by_kind[RoadKind.STREET] == 0.0
    assert by_kind[RoadKind.SERVICE] == pytest.approx(expected[1] + expected[2])
    assert _roads([]).lengths_m().shape == (0,)


@pytest.mark.parametrize(
    ("lons", "expected"),
    [
        ((11.0, 12.0, 10.5), (10.5, 12.0)), ((179.9, 180.0, 179.95), (179.9, 180.0)),
        ((179.9, -179.8, 180.0), (179.9, 180.2)), ((-180.0, -179.0, -179.5), (-180.0, -179.0)),
        ((5.0, 5.0, 5.0), (5.0, 5.0)),
    ],
)  # fmt: skip
def test_bounds_also_across_the_antimeridian(lons: tuple[float, ...], expected: tuple[float, float]) -> None:
    bounds = _roads([[(48.0 + i, lon) for i, lon in enumerate(lons)]]).bounds
    assert bounds is not None
    west, south, east, north = bounds
    assert (west, east) == pytest.approx(expected)
    assert (south, north) == (48.0, 50.0)
    assert _roads([]).bounds is None


def test_taken_and_joined_roads_are_the_same_lines() -> None:
    roads = _roads(LINES, [0, 1, 2])
    some = roads.take(np.array([2, 0]))
    assert [some.line(i).tolist() for i in range(2)] == [roads.line(2).tolist(), roads.line(0).tolist()]
    assert some.kinds.tolist() == [2, 0]
    masked = roads.take(roads.kinds > 0)
    both = Roads.join([masked, some])
    assert len(both) == 4
    assert both.line(3).tolist() == roads.line(0).tolist()
    assert len(Roads.join([])) == 0


def test_what_is_not_roads_is_refused() -> None:
    one = [[(48.0, 11.0), (48.1, 11.0)]]
    with pytest.raises(ValueError, match="two points"):
        _roads([[(48.0, 11.0)]])
    with pytest.raises(ValueError, match="latitudes and longitudes"):
        _roads([[(98.0, 11.0), (48.0, 11.0)]])
    with pytest.raises(ValueError, match="latitudes and longitudes"):
        _roads([[(np.nan, 11.0), (48.0, 11.0)]])
    with pytest.raises(ValueError, match="kind"):
        _roads(one, [7])
    with pytest.raises(ValueError, match="for each road"):
        _roads(one, [])
