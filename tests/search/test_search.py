"""Search: similarities against loops, the fast search against the plain one, priors at the edges of the map."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from x2localizer.encoders import SetCodes
from x2localizer.gallery.store import RegionTable
from x2localizer.search import Box, Circle, Reach, Searcher
from x2localizer.search.search import ZERO, Similarity, to_bytes
from x2localizer.search.similarity import best_tiles, fine_similarity, summed_paths, summed_tiles, token_similarity
from x2localizer.types import Position

Codes = npt.NDArray[np.float32]


def _unit(rng: np.random.Generator, *shape: int) -> Codes:
    values = rng.normal(size=shape)
    return np.asarray(values / np.linalg.norm(values, axis=-1, keepdims=True), np.float32)


def _soft(values: list[float], t: float) -> float:
    top = max(values)
    weights = [math.exp((v - top) / t) for v in values]
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


def _naive_fine(frames: Codes, tiles: Codes, valid: npt.NDArray[np.bool_], t: float) -> float:
    """s_f of one region, written down from the paper."""
    s = [[float(np.dot(f, q)) for q, ok in zip(tiles, valid, strict=True) if ok] for f in frames.astype(np.float64)]
    ground = _soft([_soft(row, t) for row in s], t)
    aerial = _soft([_soft([row[j] for row in s], t) for j in range(len(s[0]))], t)
    return (ground + aerial) / 2


@pytest.mark.parametrize("k", [1, 3, 8])
def test_similarities_equal_loops_and_tiles_without_data_do_not_count(k: int) -> None:
    rng = np.random.default_rng(k)
    frames, tiles = _unit(rng, k, 16), _unit(rng, 5, 9, 16)
    valid = rng.uniform(size=(5, 9)) < 0.6
    valid[:, 0] = True
    s_tok = token_similarity(frames, tiles)
    found = fine_similarity(s_tok, 0.01, valid)
    for i in range(5):
        assert found[i] == pytest.approx(_naive_fine(frames, tiles[i], valid[i], 0.01), abs=1e-5)
        best = [max(float(f @ q) for q, ok in zip(tiles[i], valid[i], strict=True) if ok) for f in frames]
        assert best_tiles(s_tok, valid)[i] == pytest.approx(sum(best) / k, abs=1e-5)
    assert (found <= s_tok.max((1, 2)) + 1e-6).all()
    if k == 1:  # then both orders of aggregation are the same number
        np.testing.assert_allclose(fine_similarity(s_tok, 0.01), s_tok.max((1, 2)), atol=0.031)


def _naive_paths(s: Codes, valid: npt.NDArray[np.bool_], t: float, reach: int) -> float:
    """s_path of one region: every path written out. (k, l) similarities, (l,) valid."""
    k, per = s.shape
    m = math.isqrt(per)
    paths: list[tuple[tuple[int, ...], float]] = [
        ((tile,), math.exp(s[0, tile] / t) / int(valid.sum())) for tile in range(per) if valid[tile]
    ]
    for frame in range(1, k):
        longer: list[tuple[tuple[int, ...], float]] = []
        for path, odds in paths:
            for tile in range(per):
                near = abs(tile // m - path[-1] // m) <= reach and abs(tile % m - path[-1] % m) <= reach
                if valid[tile] and near:
                    share = 1 / (2 * reach + 1) ** 2
                    longer.append(((*path, tile), odds * share * math.exp(s[frame, tile] / t)))
        paths = longer
    return float(t * math.log(sum(odds for _, odds in paths)) / k)


@pytest.mark.parametrize(("k", "reach"), [(1, 1), (2, 1), (3, 1), (3, 2)])
def test_summed_tiles_and_paths_equal_loops(k: int, reach: int) -> None:
    rng = np.random.default_rng(10 * k + reach)
    s_tok = token_similarity(_unit(rng, k, 16), _unit(rng, 4, 9, 16))
    valid = rng.uniform(size=(4, 9)) < 0.7
    valid[:, 4] = True
    tiles, paths = summed_tiles(s_tok, valid, 0.1), summed_paths(s_tok, valid, 0.1, reach)
    for i in range(4):
        seen = s_tok[i].astype(np.float64)[:, valid[i]]
        assert tiles[i] == pytest.approx(np.mean(0.1 * np.log(np.exp(seen / 0.1).mean(1))), abs=1e-5)
        assert paths[i] == pytest.approx(_naive_paths(s_tok[i].astype(np.float64), valid[i], 0.1, reach), abs=1e-5)
    if k == 1:
        np.testing.assert_allclose(paths, tiles, atol=1e-6)
    cold = summed_tiles(s_tok, valid, 1e-4)
    np.testing.assert_allclose(cold, best_tiles(s_tok, valid), atol=1e-3)  # without temperature the best tile decides


def test_a_region_without_data_is_never_found() -> None:
    whole, tokens, valid, prefix = _case(2, 50, 9, 24, 3, 1.0)
    valid[7] = False
    for similarity in ("s_mix", "s_path"):
        searcher = Searcher.of_arrays(whole, tokens, valid, similarity="s_mix" if similarity == "s_mix" else "s_path")
        for hits in (searcher.plain(prefix, 50), searcher.search(prefix, 5)):
            assert np.isfinite(hits.score).all()
            assert 7 not in hits.rows[:5]
    assert len(searcher.look_at(prefix, np.zeros(0, np.int64)).rows) == 0


def test_a_path_that_nobody_can_drive_counts_little() -> None:
    s_tok = np.full((2, 2, 49), -0.2, np.float32)
    s_tok[0, 0, 0] = s_tok[0, 1, 1] = 0.9  # neighbours
    s_tok[1, 0, 0] = s_tok[1, 1, 48] = 0.9  # opposite corners
    tiles, paths = summed_tiles(s_tok), summed_paths(s_tok, reach=2)
    assert tiles[0] == pytest.approx(float(tiles[1]), abs=1e-6)
    assert paths[0] > paths[1] + 0.2
    assert np.isfinite(paths).all()


def _case(
    seed: int, r: int, per: int, d: int, k: int, spread: float
) -> tuple[Codes, Codes, npt.NDArray[np.bool_], SetCodes]:
    """A gallery whose regions resemble each other, and a prefix that resembles one of them."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(1, 1, d))
    tokens = (common + spread * rng.normal(size=(r, per, d))).astype(np.float32)
    tokens /= np.linalg.norm(tokens, axis=-1, keepdims=True)
    whole = tokens.mean(1)
    whole /= np.linalg.norm(whole, axis=-1, keepdims=True)
    frames = (tokens[r // 2, :k] + 0.3 * rng.normal(size=(k, d)) / math.sqrt(d)).astype(np.float32)
    frames /= np.linalg.norm(frames, axis=-1, keepdims=True)
    mean = frames.mean(0, keepdims=True)
    valid = rng.uniform(size=(r, per)) < 0.9
    valid[:, :k] = True
    return whole, tokens, valid, SetCodes((mean / np.linalg.norm(mean)).astype(np.float32), frames[None])


@settings(max_examples=40)
@given(
    seed=st.integers(0, 1000), r=st.integers(1, 300), k=st.integers(1, 8), top=st.sampled_from([1, 5, 10]),
    spread=st.sampled_from([0.05, 0.5, 3.0]), some=st.booleans(), similarity=st.sampled_from(["s_mix", "s_path"]),
)  # fmt: skip
def test_the_fast_search_finds_what_the_plain_one_finds(
    seed: int, r: int, k: int, top: int, spread: float, some: bool, similarity: Similarity
) -> None:
    whole, tokens, valid, prefix = _case(seed, r, 9, 24, k, spread)
    searcher = Searcher.of_arrays(whole, tokens, valid, similarity=similarity)
    allowed = np.random.default_rng(seed).uniform(size=r) < 0.5 if some else None
    plain, fast = searcher.plain(prefix, top, allowed), searcher.search(prefix, top, allowed)
    assert fast.certified
    np.testing.assert_array_equal(fast.rows, plain.rows)
    np.testing.assert_allclose(fast.score, plain.score, atol=1e-6)
    assert len(plain.rows) == min(top, r if allowed is None else int(allowed.sum()))


def test_regions_are_compared_in_the_order_they_are_asked_for() -> None:
    whole, tokens, valid, prefix = _case(1, 30, 9, 24, 4, 1.0)
    searcher = Searcher.of_arrays(whole, tokens, valid)
    rows = np.array([5, 20, 3, 7, 9], np.int64)  # the first and the last are as far apart as five neighbours
    for got, one_by_one in zip(
        searcher.scores(prefix, rows),
        np.array([np.ravel(searcher.scores(prefix, rows[i : i + 1])) for i in range(5)]).T,
        strict=True,
    ):
        np.testing.assert_allclose(got, one_by_one, atol=1e-6)


def test_the_fast_search_looks_at_few_and_says_when_it_gave_up() -> None:
    whole, tokens, valid, prefix = _case(3, 2000, 9, 64, 4, 1.0)
    searcher = Searcher.of_arrays(whole, tokens, valid)
    assert searcher.search(prefix, 10).examined < 400
    whole, tokens, valid, prefix = _case(3, 2000, 9, 64, 4, 0.001)  # all look the same
    searcher = Searcher.of_arrays(whole, tokens, valid)
    assert not searcher.search(prefix, 10, most=100).certified


def test_bytes_are_off_by_no_more_than_they_say() -> None:
    rng = np.random.default_rng(0)
    tokens = _unit(rng, 6, 5, 40)
    small = to_bytes(tokens)
    back = (small.values.astype(np.float32) - ZERO) * small.scale[:, None, None]
    off = np.linalg.norm(tokens - back, axis=2)
    assert (off.max(1) <= small.slack + 1e-6).all()
    assert small.slack.max() < 0.03


def test_the_upper_bound_holds_for_every_region() -> None:
    for seed in range(20):
        whole, tokens, valid, prefix = _case(seed, 50, 9, 24, 5, 1.0)
        searcher = Searcher.of_arrays(whole, tokens, valid)
        bound = searcher._fine_bound(prefix.tokens[0], np.arange(50))
        true = np.where(valid[:, None], token_similarity(prefix.tokens[0], tokens), -1).max((1, 2))
        assert (bound >= true - 1e-6).all()
        assert float((bound - true).max()) < 0.6


def test_the_upper_bound_of_paths_holds_and_is_close() -> None:
    for seed in range(20):
        whole, tokens, valid, prefix = _case(seed, 50, 9, 24, 5, 1.0)
        searcher = Searcher.of_arrays(whole, tokens, valid, similarity="s_path")
        rows = np.arange(50)
        bound, (_, true) = searcher._fine_bound(prefix.tokens[0], rows), searcher.scores(prefix, rows)
        assert (bound >= true - 1e-6).all()
        assert float((bound - true).max()) < 0.2


@pytest.mark.torch
def test_the_shipped_product_is_what_onnx_would_make() -> None:
    from importlib import resources

    import onnx
    from onnx import TensorProto, helper

    data = (resources.files("x2localizer") / "search" / "product.onnx").read_bytes()
    model = onnx.load_from_string(data)
    onnx.checker.check_model(model)
    expected = helper.make_node("MatMulInteger", ["a", "b"], ["c"])
    assert list(model.graph.node) == [expected]
    assert [item.type.tensor_type.elem_type for item in model.graph.input] == [TensorProto.UINT8, TensorProto.INT8]


def _table(places: list[tuple[int, int]]) -> RegionTable:
    x, y = (np.array(values, np.int32) for values in zip(*places, strict=True))
    n = len(places)
    return RegionTable(np.arange(n), x, y, np.zeros((n, 2), np.float32), np.ones((n, 49), np.bool_), 19, 7)


def test_priors_restrict_also_across_the_antimeridian() -> None:
    world = 1 << 19
    table = _table([(0, 262144), (world - 7, 262144), (1000, 262144), (5, 100000)])
    assert Box(179.9, -1, -179.9, 1).allowed(table).tolist() == [True, True, False, False]
    assert Box(-180, -1, -179.9, 1).allowed(table).tolist() == [True, False, False, False]
    here = Position(0.0, 180.0)
    assert Circle(here, 600).allowed(table).tolist() == [True, True, False, False]
    assert Circle(here, 1.0).allowed(table).any(), "the regions that hold the place are always in"
    assert Reach(here, 10, 45).allowed(table).tolist() == [True, True, False, False]
    assert Reach(here, 5000, 45).allowed(table).tolist() == [True, True, True, False]
