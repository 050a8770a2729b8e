"""The polar transform and the way to the overhead view, against plain loops; relative poses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from x2localizer.datasets.poses import relative_poses
from x2localizer.datasets.tables import FrameRow
from x2localizer.learn.overhead import centred, fuse, image_places, map_places, project, to_cameras
from x2localizer.learn.polar import heading_columns, polar_grid, to_polar

ROW = FrameRow("v", 0, 0.0, 50.0, 8.0, 0.0, 10.0, 0, "a", 0, 0, "b", 0, 0)


def bilinear(picture: torch.Tensor, x: float, y: float) -> torch.Tensor:
    """The value (c,) of a picture (c, h, w) at a place from -1 to 1; places beyond the edge are those of the edge."""
    _, h, w = picture.shape
    column, row = ((x + 1) * w - 1) / 2, ((y + 1) * h - 1) / 2
    column, row = min(max(column, 0.0), w - 1.0), min(max(row, 0.0), h - 1.0)
    left, top = min(int(column), w - 2), min(int(row), h - 2)
    a, b = column - left, row - top
    upper = (1 - a) * picture[:, top, left] + a * picture[:, top, left + 1]
    lower = (1 - a) * picture[:, top + 1, left] + a * picture[:, top + 1, left + 1]
    return (1 - b) * upper + b * lower


def test_the_polar_transform_equals_its_plain_twin() -> None:
    picture = torch.randn(2, 3, 16, 16)
    height, width, margin = 6, 20, 2
    fast = to_polar(picture, polar_grid(height, width, margin))
    assert fast.shape == (2, 3, 6, 24)
    for row in range(height):
        for column in range(-margin, width + margin):
            angle, radius = 2 * math.pi * column / width, 1 - (row + 0.5) / height
            plain = bilinear(picture[1], radius * math.sin(angle), -radius * math.cos(angle))
            torch.testing.assert_close(fast[1, :, row, column + margin], plain, atol=1e-5, rtol=1e-4)


def test_a_turned_picture_is_a_shifted_polar_picture() -> None:
    picture = torch.randn(1, 3, 16, 16)
    grid = polar_grid(8, 40)
    turned = to_polar(torch.rot90(picture, -1, (2, 3)), grid)  # a quarter clockwise
    torch.testing.assert_close(turned, torch.roll(to_polar(picture, grid), 10, -1), atol=1e-5, rtol=1e-4)


def test_each_heading_sees_the_columns_around_it() -> None:
    columns = heading_columns(40, 7, 8)
    assert columns[0].tolist() == [37, 38, 39, 0, 1, 2, 3]
    assert columns[2].tolist() == [7, 8, 9, 10, 11, 12, 13]


def test_the_overhead_projection_equals_its_plain_twin() -> None:
    torch.manual_seed(0)
    b, s, c, cells, cell_m, fov, height = 2, 3, 4, 10, 6.0, 70.0, 1.5
    features = torch.randn(b, s, c, 5, 9)
    poses = torch.randn(b, s, 3) * torch.tensor([5.0, 15.0, 0.6])
    aspect = 128 / 64
    picture, seen = image_places(to_cameras(map_places(cells, cell_m), poses), fov, aspect, height)
    fast = project(features, picture, seen)
    count = 0
    for i in range(b):
        for k in range(s):
            right_m, ahead_m, turn = poses[i, k].tolist()
            for row in range(cells):
                for column in range(cells):
                    x = (column - (cells - 1) / 2) * cell_m - right_m
                    z = ((cells - 1) / 2 - row) * cell_m - ahead_m
                    right = x * math.cos(turn) - z * math.sin(turn)
                    ahead = x * math.sin(turn) + z * math.cos(turn)
                    plain = torch.zeros(c)
                    if ahead > 1.0:
                        half = math.tan(math.radians(fov) / 2)
                        u, v = right / ahead / half, height / ahead / half * aspect
                        if abs(u) <= 1 and abs(v) <= 1:
                            plain, count = bilinear(features[i, k], u, v), count + 1
                    torch.testing.assert_close(fast[i, k, :, row, column], plain, atol=1e-4, rtol=1e-4)
    assert count > 50


def test_ground_straight_ahead_is_in_the_middle_and_nears_the_horizon() -> None:
    ahead = torch.tensor([[0.0, 5.0], [0.0, 50.0], [0.0, -5.0], [30.0, 5.0]])
    picture, seen = image_places(ahead, 65.0, 2.0, 1.5)
    assert seen.tolist() == [True, True, False, False]
    assert picture[0, 0] == 0
    assert picture[0, 1] > picture[1, 1] > 0


def test_a_map_is_fused_of_the_frames_that_see_it() -> None:
    maps = torch.randn(1, 3, 4, 2, 2)
    seen = torch.ones(1, 3, 2, 2, dtype=torch.bool)
    seen[0, 1:, 0, 0] = False
    seen[0, :, 1, 1] = False
    maps = maps * seen[:, :, None]
    fused = fuse(maps, torch.zeros(1, 3, 2, 2), seen)
    torch.testing.assert_close(fused[0, :, 0, 0], maps[0, 0, :, 0, 0])
    assert fused[0, :, 1, 1].abs().max() == 0
    only_first = fuse(maps, torch.tensor([100.0, 0.0, 0.0]).reshape(1, 3, 1, 1).expand(1, 3, 2, 2), seen)
    torch.testing.assert_close(only_first[0, :, 0, 1], maps[0, 0, :, 0, 1])


def test_poses_are_centred_on_their_path() -> None:
    poses = torch.tensor([[[0.0, 0.0, 0.0], [4.0, 10.0, 0.5]]])
    assert centred(poses)[0].tolist() == [[-2.0, -5.0, 0.0], [2.0, 5.0, 0.5]]


@pytest.mark.parametrize("first_deg", [0.0, 90.0, 200.0])
def test_relative_poses_do_not_know_north(first_deg: float) -> None:
    """Ten metres ahead, then three to the right, with a turn of 20 degrees; wherever the camera looked at first."""
    turned = math.radians(first_deg)
    east = 10 * math.sin(turned) + 3 * math.cos(turned)
    north = 10 * math.cos(turned) - 3 * math.sin(turned)
    lat = 50.0 + north / 111_320.0
    lon = 8.0 + east / (111_320.0 * math.cos(math.radians(50.0)))
    rows = [replace(ROW, heading_deg=first_deg),
            replace(ROW, lat_deg=lat, lon_deg=lon, heading_deg=(first_deg + 20) % 360)]  # fmt: skip
    poses = relative_poses(rows)
    np.testing.assert_allclose(poses, np.array([[0.0, 0.0, 0.0], [3.0, 10.0, math.radians(20)]]), atol=1e-6)


def test_a_track_without_headings_looks_where_it_goes() -> None:
    rows = [replace(ROW, lat_deg=50.0, lon_deg=8.0 + k * 1e-4, heading_deg=None) for k in range(4)]
    poses = relative_poses(rows)
    np.testing.assert_allclose(poses[:, [0, 2]], 0.0, atol=1e-6)
    assert (np.diff(poses[:, 1]) > 6).all()
    assert relative_poses(rows[:1]).tolist() == [[0.0, 0.0, 0.0]]
