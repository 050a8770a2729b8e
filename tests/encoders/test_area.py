"""Codes of the cameras in an area: against looking up each one by itself."""

from __future__ import annotations

import numpy as np
import pytest

from x2localizer.encoders.area import encode_tile_by_tile, half_stride, seen_from, steps_ahead
from x2localizer.encoders.protocol import EncoderSpec
from x2localizer.types import Codes, Images

STEPS = [(0, -1), (1, -1), (1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1)]
"""Right and down: north, north-east, and so on."""


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_a_camera_has_the_code_of_the_tile_it_looks_at(ahead: int) -> None:
    rng = np.random.default_rng(1)
    codes = rng.normal(size=(5, 7, 8, 4)).astype(np.float32)
    seen = seen_from(codes, ahead)
    for row in range(5):
        for column in range(7):
            for heading, (right, down) in enumerate(STEPS):
                y, x = row + ahead * down, column + ahead * right
                inside = 0 <= y < 5 and 0 <= x < 7
                expected = codes[y, x, heading] if inside else np.zeros(4)
                np.testing.assert_array_equal(seen[row, column, heading], expected)


def test_the_second_half_of_a_code_is_of_a_tile_further_ahead() -> None:
    codes = np.random.default_rng(3).normal(size=(6, 5, 8, 4)).astype(np.float32)
    seen = seen_from(codes, 1, 3)
    np.testing.assert_array_equal(seen[..., :2], seen_from(codes, 1)[..., :2])
    np.testing.assert_array_equal(seen[..., 2:], seen_from(codes, 3)[..., 2:])


def test_an_area_smaller_than_a_look_has_no_codes() -> None:
    assert not seen_from(np.ones((1, 1, 8, 3), np.float32), 1).any()


def test_steps_lie_on_a_square() -> None:
    right, down = steps_ahead(np.arange(8) * np.pi / 4, 2.0)
    np.testing.assert_allclose(np.stack([right, down], 1), 2.0 * np.array(STEPS), atol=1e-12)
    right, down = steps_ahead(np.linspace(0, 6.2, 50), 3.0)
    np.testing.assert_allclose(np.maximum(np.abs(right), np.abs(down)), 3.0)


def test_each_wanted_tile_is_encoded_once() -> None:
    area = np.random.default_rng(2).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    calls = 0

    def encode(tiles: Images) -> Codes:
        nonlocal calls
        calls += len(tiles)
        mean = tiles.mean((1, 2)).astype(np.float32)
        return np.stack([mean + heading for heading in range(8)], 1)

    spec = EncoderSpec(4, 4, 4, 3, headings=8, ahead=1)
    wanted = np.ones((5, 7), np.bool_)
    wanted[0] = False
    codes = encode_tile_by_tile(encode, area, spec, wanted)
    assert calls == wanted.sum()
    tiles = half_stride(area, 4)
    np.testing.assert_allclose(codes[2, 3, 2], tiles[2, 4].mean((0, 1)) + 2, rtol=1e-6)  # looks east
    assert not codes[1, :, 0].any()  # looks north at tiles that were not wanted
