"""Search: the fast search against the plain one for every similarity, and priors at the edges of the map."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from x2localizer.config import MotionSettings
from x2localizer.gallery import RegionTable
from x2localizer.search import BoxPrior, CirclePrior, ReachPrior, Searcher
from x2localizer.search.codes import ZERO, Views, to_bytes
from x2localizer.search.searcher import reach_between
from x2localizer.similarity import Query, similarities
from x2localizer.similarity.aggregate import token_similarity
from x2localizer.types import Bools, Codes, Position

OF_REGIONS = [name for name in similarities.names() if similarities.get(name).codes == "regions"]
OF_TILES = [name for name in similarities.names() if similarities.get(name).codes == "tiles"]


def _unit(rng: np.random.Generator, *shape: int) -> Codes:
    values = rng.normal(size=shape)
    return np.asarray(values / np.linalg.norm(values, axis=-1, keepdims=True), np.float32)


@dataclass
class Case:
    """Regions that resemble each other, and a window that resembles one of them.

    Regions are given twice: with tokens of their own, and as views of shared tiles.
    """

    whole: Codes
    tokens: Codes
    valid: Bools
    tiles: Codes
    views: Views
    tile_valid: Bools
    query: Query

    def searcher(self, name: str, *, small: bool = False) -> Searcher:
        if name in OF_REGIONS:
            return Searcher.of_regions(name, self.whole, self.tokens, self.valid)
        return Searcher.of_tiles(name, self.tiles, self.views, self.tile_valid, small=small, reach=1)

    @property
    def in_views(self) -> Codes:
        """The tokens of the regions as their views say, (r, l, d)."""
        return self.tiles[np.maximum(self.views, 0)]


def _case(seed: int, r: int, d: int, k: int, spread: float, per: int = 9) -> Case:
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(1, 1, d))

    def codes(*shape: int) -> Codes:
        values = (common.reshape((1,) * len(shape) + (d,)) + spread * rng.normal(size=(*shape, d))).astype(np.float32)
        return np.asarray(values / np.linalg.norm(values, axis=-1, keepdims=True), np.float32)

    tokens, tiles = codes(r, per), codes(3 * r + per)
    whole = tokens.mean(1)
    whole /= np.linalg.norm(whole, axis=-1, keepdims=True)
    views = rng.integers(-1, len(tiles), (r, per)).astype(np.int32)
    views[:, 0] = np.arange(r)
    valid, tile_valid = rng.uniform(size=(r, per)) < 0.9, rng.uniform(size=len(tiles)) < 0.9
    valid[:, 0] = tile_valid[:r] = True
    frames = tokens[r // 2, rng.integers(0, per, k)] + 0.3 * rng.normal(size=(k, d)) / math.sqrt(d)
    frames = np.asarray(frames / np.linalg.norm(frames, axis=-1, keepdims=True), np.float32)
    mean = frames.mean(0)
    query = Query(frames, np.asarray(mean / np.linalg.norm(mean), np.float32))
    return Case(whole, tokens, valid, tiles, views, tile_valid, query)


@pytest.mark.parametrize("name", similarities.names())
def test_a_region_without_data_is_never_found(name: str) -> None:
    case = _case(2, 50, 24, 3, 1.0)
    case.valid[7] = False
    case.views[7] = -1
    for small in (False, True):
        searcher = case.searcher(name, small=small)
        for ranked in (searcher.plain(case.query, 50), searcher.search(case.query, 5)):
            assert np.isfinite(ranked.scores).all()
            if name != "s_g":  # it compares wholes, and never looks at tiles
                assert 7 not in ranked.rows[:5]
        assert len(searcher.compare(case.query, np.zeros(0, np.int64)).rows) == 0


@settings(max_examples=60)
@given(
    seed=st.integers(0, 1000), r=st.integers(1, 300), k=st.integers(1, 8), top=st.sampled_from([1, 5, 10]),
    spread=st.sampled_from([0.05, 0.5, 3.0]), some=st.booleans(), small=st.booleans(),
    name=st.sampled_from(similarities.names()),
)  # fmt: skip
def test_the_fast_search_finds_what_the_plain_one_finds(
    seed: int, r: int, k: int, top: int, spread: float, some: bool, small: bool, name: str
) -> None:
    case = _case(seed, r, 24, k, spread)
    searcher = case.searcher(name, small=small)
    allowed = np.random.default_rng(seed).uniform(size=r) < 0.5 if some else None
    plain, fast = searcher.plain(case.query, top, allowed), searcher.search(case.query, top, allowed)
    assert fast.certified
    np.testing.assert_array_equal(fast.rows, plain.rows)
    np.testing.assert_allclose(fast.scores, plain.scores, atol=1e-6)
    assert len(plain.rows) == min(top, r if allowed is None else int(allowed.sum()))


@pytest.mark.parametrize("name", similarities.names())
@pytest.mark.parametrize("small", [False, True])
def test_regions_are_compared_in_the_order_they_are_asked_for(name: str, small: bool) -> None:
    case = _case(1, 30, 24, 4, 1.0)
    searcher = case.searcher(name, small=small)
    rows = np.array([5, 20, 3, 7, 9], np.int64)  # the first and the last are as far apart as five neighbours
    for order in (rows, np.arange(30)[::-1], np.arange(30)):
        alone = np.concatenate([searcher.score(case.query, order[i : i + 1]) for i in range(len(order))])
        np.testing.assert_allclose(searcher.score(case.query, order), alone, atol=1e-6)


@pytest.mark.parametrize("small", [False, True])
def test_views_of_tiles_are_what_they_show(small: bool) -> None:
    case = _case(4, 40, 24, 5, 1.0)
    searcher = case.searcher("s_path", small=small)
    expected = token_similarity(case.query.tokens, case.in_views)
    for rows in (np.arange(40), np.array([3, 31])):
        np.testing.assert_allclose(searcher.codes.tokens(case.query.tokens, rows), expected[rows], atol=1e-6)
    np.testing.assert_array_equal(searcher.codes.valid, case.tile_valid[np.maximum(case.views, 0)] & (case.views >= 0))


def test_the_fast_search_looks_at_few_and_says_when_it_gave_up() -> None:
    case = _case(3, 2000, 64, 4, 1.0)
    assert case.searcher("s_mix").search(case.query, 10).examined < 400
    case = _case(3, 2000, 64, 4, 0.001)  # all look the same
    assert not case.searcher("s_mix").search(case.query, 10, most=100).certified


def test_bytes_are_off_by_no_more_than_they_say() -> None:
    tokens = _unit(np.random.default_rng(0), 6, 5, 40)
    small = to_bytes(tokens)
    back = (small.values.astype(np.float32) - ZERO) * small.scale[:, None, None]
    off = np.linalg.norm(tokens - back, axis=2)
    assert (off.max(1) <= small.slack + 1e-6).all()
    assert small.slack.max() < 0.03


@pytest.mark.parametrize("name", similarities.names())
def test_the_upper_bound_holds_for_every_region_and_is_close(name: str) -> None:
    rows = np.arange(50)
    for seed in range(20):
        case = _case(seed, 50, 24, 5, 1.0)
        searcher = case.searcher(name, small=True)
        bound, true = searcher.bound(case.query, rows), searcher.score(case.query, rows)
        held = searcher.codes.valid.any(1)
        assert (bound >= true - 1e-6).all()
        assert float((bound - true)[held].max()) < 0.6


def _table(places: list[tuple[int, int]]) -> RegionTable:
    x, y = (np.array(values, np.int64) for values in zip(*places, strict=True))
    return RegionTable(x, y, 19, 7)


def test_priors_restrict_also_across_the_antimeridian() -> None:
    world = 1 << 19
    table = _table([(0, 262144), (world - 7, 262144), (1000, 262144), (5, 100000)])
    assert BoxPrior(179.9, -1, -179.9, 1).allowed(table).tolist() == [True, True, False, False]
    assert BoxPrior(-180, -1, -179.9, 1).allowed(table).tolist() == [True, False, False, False]
    here = Position(0.0, 180.0)
    assert CirclePrior(here, 600).allowed(table).tolist() == [True, True, False, False]
    assert CirclePrior(here, 1.0).allowed(table).any(), "the regions that hold the place are always in"
    assert ReachPrior(here, 10).allowed(table).tolist() == [True, True, False, False]
    assert ReachPrior(here, 5000).allowed(table).tolist() == [True, True, True, False]
    slow = MotionSettings.model_validate({"kind": "person"})
    assert ReachPrior(here, 5000, slow).allowed(table).tolist() == [True, True, False, False]


def test_reach_follows_the_motion_and_the_size_of_tiles() -> None:
    town, north = _table([(160000, 196000)]), _table([(160000, 196000), (160000, 100000)])
    car, person = MotionSettings(), MotionSettings.model_validate({"kind": "person"})
    assert reach_between(town, car, 5.0) == 4  # 115 m in tiles of 29 m
    assert reach_between(town, car, 10.0) == 8
    assert reach_between(town, person, 5.0) == 1
    assert reach_between(north, car, 5.0) > 4, "tiles are smaller in the north"
