"""Splits that share no ground: as few clips lost as possible, and never two splits on one tile."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from x2localizer import geo
from x2localizer.datasets.ground import split_ground
from x2localizer.types import Region

Z, N = 19, 7
SHARES = {"train": 0.7, "val": 0.15, "test": 0.15}


def _regions(corners: list[tuple[int, int]]) -> dict[str, Region]:
    return {f"{i:04d}": Region(Z, 1000 + x, 1000 + y, N) for i, (x, y) in enumerate(corners)}


def _refuse_shared(regions: dict[str, Region], split_of: dict[str, str]) -> None:
    for a, b in combinations(split_of, 2):
        assert split_of[a] == split_of[b] or geo.region_overlap(regions[a], regions[b]) == 0


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=40),
    st.sampled_from([SHARES, {"train": 0.6, "val": 0.0, "test": 0.4}, {"train": 1.0, "val": 0.0, "test": 0.0}]),
)
def test_no_two_splits_share_a_tile(corners: list[tuple[int, int]], shares: dict[str, float]) -> None:
    regions = _regions(corners)
    split_of = split_ground(regions, shares)
    _refuse_shared(regions, split_of)
    assert {shares[name] > 0 for name in split_of.values()} <= {True}


def test_a_long_road_is_cut_into_strips_of_the_asked_shares() -> None:
    for corners in ([(5 * i, 0) for i in range(100)], [(0, 5 * i) for i in range(100)]):
        got = Counter(split_ground(_regions(corners), SHARES).values())
        assert sum(got.values()) >= 98  # each cut loses one clip
        assert got["train"] == pytest.approx(70, abs=2)
        assert got["val"] == pytest.approx(15, abs=2)


def test_the_axis_that_loses_least_is_cut() -> None:
    streets = [(x, y) for y in (0, 20, 40, 60, 80, 100, 120) for x in range(0, 60, 3)]
    assert len(split_ground(_regions(streets), SHARES)) == len(streets)


def test_a_cut_moves_to_a_gap() -> None:
    """By shares alone both cuts would go through a town."""
    towns = [(town + x, y) for town in range(0, 700, 100) for x in range(10) for y in range(0, 10, 2)]
    got = Counter(split_ground(_regions(towns), {"train": 0.74, "val": 0.13, "test": 0.13}).values())
    assert dict(got) == {"train": 250, "val": 50, "test": 50}


def test_drives_that_no_strip_separates_are_shared_out_whole() -> None:
    regions = _regions([(0, 0), (10, 3), (3, 10)])
    assert sorted(split_ground(regions, SHARES).values()) == ["test", "train", "val"]


def test_the_antimeridian_is_no_border() -> None:
    world = 1 << Z
    regions = {str(i): Region(Z, (world - 50 + 5 * i) % world, 1000, N) for i in range(20)}
    split_of = split_ground(regions, SHARES)
    _refuse_shared(regions, split_of)
    assert len(split_of) >= 18


def test_too_little_ground_leaves_splits_empty() -> None:
    assert set(split_ground(_regions([(0, 0), (3, 3), (1, 2)]), SHARES).values()) == {"train"}
    assert split_ground({}, SHARES) == {}
