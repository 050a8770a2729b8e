"""What a browser is sent of cameras and beliefs."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image as Pillow

from x2localizer import geo
from x2localizer.live.state import belief_row, candidates, fix_row, prior_row, view_row
from x2localizer.serve.heat import HeatGrid
from x2localizer.serve.settings import Box, Near
from x2localizer.types import ErrorEllipse, Fix, Floats, Frame, Image, Position, Region, View


def _grid(values: Floats) -> HeatGrid:
    return HeatGrid(10.0, 49.9, 10.2, 50.0, values, 1.0)


def _pixels(address: str) -> Image:
    return np.asarray(Pillow.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))).convert("RGBA"))


def test_a_row_has_everything_that_is_known() -> None:
    fix = Fix(
        7, 3.456, "tracking", Position(50.0, 10.0), 0.9, refreshed=True, heading_deg=91.26, speed_m_s=7.5,
        ellipse=ErrorEllipse(12.34, 5.0, 45.0), on_map=0.99,
    )  # fmt: skip
    assert fix_row(fix) == [3.46, 50.0, 10.0, "t", 0.9, 91.3, 7.5, 0.99, 12.3, 5.0, 45.0, 1, 7]
    assert fix_row(Fix(0, 0.0, "lost")) == [0.0, None, None, "x", 0.0, None, None, None, None, None, None, 0, 0]


def test_candidates_are_the_places_with_most_belief() -> None:
    values = np.full((40, 40), 1e-6)
    values[10, 30], values[10, 31], values[35, 5] = 0.4, 0.2, 0.3
    values[20, 20] = 0.03  # too little
    found = candidates(_grid(values))
    assert [share for _, _, share in found] == pytest.approx([0.6, 0.3], abs=1e-3)
    (lat, lon, _), (south, west, _) = found
    assert lon == pytest.approx(10.0 + 0.2 * 30.5 / 40)
    assert west == pytest.approx(10.0 + 0.2 * 5.5 / 40)
    assert 50.0 > lat > south > 49.9
    near = HeatGrid(10.0, 49.999, 10.001, 50.0, values, 1.0)
    assert len(candidates(near)) == 1, "places a few metres apart are one"
    assert lat == pytest.approx(50.0 - 0.1 * 10.5 / 40, abs=1e-4)


def test_a_belief_is_bright_where_it_is_and_clear_where_it_is_not() -> None:
    values = np.zeros((8, 8))
    values[2, 5], values[6, 1] = 0.9, 0.1
    row = belief_row(_grid(values))
    assert row["corners"] == [[49.9, 10.0], [50.0, 10.2]]
    pixels = _pixels(row["picture"])
    assert pixels[2, 5, 3] > pixels[6, 1, 3] > 0
    assert pixels[0, 0, 3] == 0
    assert belief_row(HeatGrid(179.9, 0.0, -179.9, 0.1, values, 1.0))["corners"][1][1] == pytest.approx(180.1)


def test_a_prior_is_a_circle_or_a_box() -> None:
    assert prior_row(Near(lat_deg=1.0, lon_deg=2.0, radius_m=30.0)) == {
        "kind": "near", "place": [1.0, 2.0], "radius": 30.0,
    }  # fmt: skip
    box = prior_row(Box(west=179.0, south=-1.0, east=-179.0, north=1.0))
    assert box == {"kind": "box", "corners": [[-1.0, 179.0], [1.0, 181.0]]}


def test_a_view_lies_on_the_tiles_it_speaks_of() -> None:
    region = Region(19, 160_000, 200_000, 7)
    values = np.zeros((13, 13), np.float32)
    values[0, 0] = 1.0  # the tile in the north-west
    row = view_row(View(Frame(0, 0.0, np.zeros((2, 2, 3), np.uint8)), region, values, np.ones((13, 13), np.bool_)))
    (south, west), (north, east) = row["corners"]
    x, y = geo.tile_coordinates(np.array([north, south]), np.array([west, east]), 19)
    assert [*x, *y] == pytest.approx([160_000.25, 160_006.75, 200_000.25, 200_006.75])
    pixels = _pixels(row["picture"])
    assert pixels[2, 2, :3].sum() > 2 * pixels[-2, -2, :3].sum()
