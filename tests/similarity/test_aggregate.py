"""What similarities are made of, against loops written down from their definitions."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from x2localizer.similarity.aggregate import (
    TURN_SHARES,
    best_tiles,
    fine_similarity,
    summed_paths,
    summed_tiles,
    token_similarity,
)
from x2localizer.types import Codes


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


def _naive_paths(s: Codes, valid: npt.NDArray[np.bool_], t: float, reaches: list[int]) -> float:
    """s_path of one region: every path written out. (k, l) similarities, (l,) valid, (k - 1,) reaches."""
    k, per = s.shape
    m = math.isqrt(per)
    paths: list[tuple[tuple[int, ...], float]] = [
        ((tile,), math.exp(s[0, tile] / t) / int(valid.sum())) for tile in range(per) if valid[tile]
    ]
    for frame in range(1, k):
        longer: list[tuple[tuple[int, ...], float]] = []
        reach = reaches[frame - 1]
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
        assert paths[i] == pytest.approx(
            _naive_paths(s_tok[i].astype(np.float64), valid[i], 0.1, [reach] * 2), abs=1e-5
        )
    if k == 1:
        np.testing.assert_allclose(paths, tiles, atol=1e-6)
    cold = summed_tiles(s_tok, valid, 1e-4)
    np.testing.assert_allclose(cold, best_tiles(s_tok, valid), atol=1e-3)  # without temperature the best tile decides


def test_each_step_of_a_path_may_have_a_reach_of_its_own() -> None:
    rng = np.random.default_rng(5)
    s_tok, valid = token_similarity(_unit(rng, 3, 16), _unit(rng, 4, 16, 16)), np.ones((4, 16), np.bool_)
    for reaches in ([1, 2], [2, 1], [3, 1]):
        paths = summed_paths(s_tok, valid, 0.1, reaches)
        for i in range(4):
            naive = _naive_paths(s_tok[i].astype(np.float64), valid[i], 0.1, reaches)
            assert paths[i] == pytest.approx(naive, abs=1e-5)
    np.testing.assert_array_equal(summed_paths(s_tok, valid, 0.1, [2, 2]), summed_paths(s_tok, valid, 0.1, 2))


def _naive_turning_paths(s: Codes, valid: npt.NDArray[np.bool_], t: float, reach: int, headings: int) -> float:
    """s_path of one region in several headings: every path written out. (k, l h) similarities, (l,) valid."""
    k, per = s.shape
    m = math.isqrt(per // headings)

    def moves(share: float) -> range:
        if abs(share) < 0.1:
            return range(-reach, reach + 1)
        back = 1 if abs(share) > 0.9 else max(1, reach // 2)
        return range(-back, reach + 1) if share > 0 else range(-reach, back + 1)

    def turn(a: int, b: int) -> float:
        return float(
            np.interp(
                min((a - b) % headings, (b - a) % headings) * 8 / headings, range(5), (*TURN_SHARES, TURN_SHARES[-1])
            )
        )

    states = [(tile, h) for tile in range(per // headings) if valid[tile] for h in range(headings)]
    mass = {(tile, h): math.exp(s[0, tile * headings + h] / t) / len(states) for tile, h in states}
    for frame in range(1, k):
        longer = dict.fromkeys(states, 0.0)
        for (tile, h), odds in mass.items():
            angle = 2 * math.pi * h / headings
            down, right = moves(-math.cos(angle)), moves(math.sin(angle))
            for other, way in states:
                if other // m - tile // m in down and other % m - tile % m in right:
                    share = turn(way, h) / sum(turn(x, h) for x in range(headings)) / len(down) / len(right)
                    longer[other, way] += odds * share * math.exp(s[frame, other * headings + way] / t)
        mass = longer
    return float(t * math.log(sum(mass.values())) / k)


@pytest.mark.parametrize(("k", "reach", "headings"), [(1, 1, 8), (2, 1, 8), (3, 2, 8), (3, 2, 4)])
def test_paths_in_several_headings_equal_loops(k: int, reach: int, headings: int) -> None:
    rng = np.random.default_rng(k)
    s_tok = token_similarity(_unit(rng, k, 16), _unit(rng, 3, 9 * headings, 16))
    valid = rng.uniform(size=(3, 9)) < 0.7
    valid[:, 4] = True
    paths = summed_paths(s_tok, valid, 0.1, reach, headings)
    for i in range(3):
        expected = _naive_turning_paths(s_tok[i].astype(np.float64), valid[i], 0.1, reach, headings)
        assert paths[i] == pytest.approx(expected, abs=1e-5)


def test_a_path_that_drives_backward_counts_little() -> None:
    s_tok = np.full((2, 2, 49, 8), -0.2, np.float32)
    s_tok[0, 0, 24, 0] = s_tok[0, 1, 10, 0] = 0.9  # looks north, and is further north
    s_tok[1, 0, 24, 4] = s_tok[1, 1, 10, 4] = 0.9  # looks south
    paths = summed_paths(s_tok.reshape(2, 2, -1), reach=2, headings=8)
    assert paths[0] > paths[1] + 0.1


def test_a_path_that_nobody_can_drive_counts_little() -> None:
    s_tok = np.full((2, 2, 49), -0.2, np.float32)
    s_tok[0, 0, 0] = s_tok[0, 1, 1] = 0.9  # neighbours
    s_tok[1, 0, 0] = s_tok[1, 1, 48] = 0.9  # opposite corners
    tiles, paths = summed_tiles(s_tok), summed_paths(s_tok, reach=2)
    assert tiles[0] == pytest.approx(float(tiles[1]), abs=1e-6)
    assert paths[0] > paths[1] + 0.2
    assert np.isfinite(paths).all()
