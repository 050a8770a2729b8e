"""The parts of an approximate search against their plain twins: kernels, the exact reference, synthetic countries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from helpers.coded_gallery import D, X, Y, blocks_of, coded_gallery, unit, window_at
from x2localizer.gallery import RegionTable
from x2localizer.gallery.blocks import TileBlock
from x2localizer.gallery.manifest import GalleryManifest
from x2localizer.gallery.tiles import TileReader
from x2localizer.search import Searcher, build_index
from x2localizer.search.approximate.cells import CellGrid, find
from x2localizer.search.approximate.codebooks import LEVELS, Bytes, Codebooks, kmeans, nearest, principal
from x2localizer.search.approximate.kernels import BINS, LANES, UInt32, add_votes, best_products, side_by_side, vote
from x2localizer.search.approximate.lists import LISTS, Lists
from x2localizer.search.approximate.reference import exact_best
from x2localizer.search.approximate.synthetic import CodeStatistics, _fitted, draw_windows, make_country
from x2localizer.search.approximate.tile_index import TileIndex
from x2localizer.similarity import Query
from x2localizer.similarity.aggregate import token_similarity
from x2localizer.types import Codes


@pytest.fixture(scope="module")
def codes() -> Codes:
    rng = np.random.default_rng(0)
    return unit(1.0 + rng.normal(size=(4000, D)) * np.linspace(2, 0.3, D))


@pytest.fixture(scope="module")
def books(codes: Codes) -> Codebooks:
    return Codebooks.train(codes)


def test_entries_are_the_nearest_of_what_is_left(codes: Codes, books: Codebooks) -> None:
    entries, small = books.encode(codes)
    points = (codes - books.mean) @ books.basis
    np.testing.assert_allclose((small.astype(np.float32) - 128) * books.step, points, atol=float(books.step.max()))
    left = points[:, : books.books.shape[2]]
    lengths = [np.linalg.norm(left, axis=1).mean()]
    for level in range(LEVELS):
        away = ((left[:, None] - books.books[level]) ** 2).sum(2)
        chosen = away[np.arange(len(left)), entries[:, level]]
        np.testing.assert_allclose(chosen, away.min(1), atol=1e-5)
        left = left - books.books[level][entries[:, level]]
        lengths.append(np.linalg.norm(left, axis=1).mean())
    assert all(b < a for a, b in pairwise(lengths))
    assert lengths[-1] < 0.5 * lengths[0]


def test_tables_tell_similarities(codes: Codes, books: Codebooks) -> None:
    entries, _ = books.encode(codes)
    tables = books.tables(codes[:3])
    told = np.stack([tables[:, level, entries[:, level]] for level in range(LEVELS)]).sum(0)
    true = codes[:3] @ codes.T
    assert np.abs(told - true).mean() < 0.05
    assert np.corrcoef(told.ravel(), true.ravel())[0, 1] > 0.97


def test_codebooks_are_stored_and_read(books: Codebooks, tmp_path: Path) -> None:
    books.save(tmp_path / "books.npz")
    again = Codebooks.load(tmp_path / "books.npz")
    for name in ("mean", "basis", "step", "books"):
        np.testing.assert_array_equal(getattr(again, name), getattr(books, name))


def test_few_and_equal_codes_can_be_trained_on() -> None:
    for some in (np.ones((1, 8), np.float32), np.ones((5, 8), np.float32)):
        entries, small = Codebooks.train(some).encode(some)
        assert entries.shape == (len(some), LEVELS)
        assert np.isfinite(small).all()


def test_clusters_are_those_of_the_plain_algorithm(codes: Codes) -> None:
    centres = kmeans(codes, 7, np.random.default_rng(0), rounds=30)
    chosen = nearest(codes, centres)
    np.testing.assert_array_equal(chosen, ((codes[:, None] - centres) ** 2).sum(2).argmin(1))
    for kind in range(7):
        np.testing.assert_allclose(centres[kind], codes[chosen == kind].mean(0), atol=0.03)
    mean, basis = principal(codes, 0.9)
    kept = ((codes - mean) @ basis).var(0).sum() / (codes - mean).var(0).sum()
    assert kept >= 0.9
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-5)


def _lists(books: Codebooks, codes: Codes, cells: int) -> tuple[Lists, Bytes, UInt32]:
    entries, _ = books.encode(codes)
    number = entries[:, 0].astype(np.int64) * 256 + entries[:, 1]
    order = np.argsort(number, kind="stable")
    own = np.random.default_rng(1).integers(0, cells, len(codes)).astype(np.uint32)
    offsets = np.searchsorted(number[order], np.arange(LISTS + 1))
    return Lists(offsets, own[order], entries[order, 2:].copy(), np.arange(cells)), entries[order], own[order]


@pytest.mark.parametrize("most", [1, 500, 4000])
def test_votes_are_the_best_similarities_of_the_nearest_lists(codes: Codes, books: Codebooks, most: int) -> None:
    lists, entries, cells = _lists(books, codes, 90)
    table = books.tables(codes[:1])[0]
    best = np.empty(90, np.uint8)
    room = np.empty(BINS, np.int64), np.empty((4, 256), np.float32)
    worth = vote(table, lists.offsets, lists.cells, lists.entries, most, *room, best)
    told = np.stack([table[level, entries[:, level]] for level in range(LEVELS)]).sum(0)
    base = table[0, entries[:, 0]] + table[1, entries[:, 1]]
    floor = 1.0 - 254 * worth
    plain = np.zeros(90)
    seen = (base >= floor) & (told > floor)
    np.maximum.at(plain, cells[seen], 1 + (told[seen] - floor) / worth)
    assert (base >= floor).sum() >= min(most, len(codes)) or most == 1
    np.testing.assert_allclose(best, np.minimum(np.floor(plain), 255), atol=1)


def test_a_region_has_the_votes_of_its_best_cells() -> None:
    rng = np.random.default_rng(2)
    best = rng.integers(0, 256, (5, 40)).astype(np.uint8)
    cells_of = rng.integers(0, 41, (30, 4)).astype(np.int32)
    scale = np.zeros(LANES, np.float32)
    scale[:5] = rng.uniform(1, 10, 5)
    votes = np.zeros((41, LANES), np.uint8)
    side_by_side(best, 0, 40, votes)
    np.testing.assert_array_equal(votes[:40, :5], best.T)
    total = np.full(30, 7.0, np.float32)
    add_votes(votes, cells_of, scale, 2, 30, np.empty(LANES, np.uint8), total)
    assert (total[:2] == 7.0).all()
    for region in range(2, 30):
        held = cells_of[region][cells_of[region] < 40]
        plain = (best[:, held].max(1) * scale[:5]).sum() if len(held) else 0
        assert total[region] == pytest.approx(7.0 + plain, rel=1e-5)


@pytest.mark.parametrize("count", [1, 8, 11])
def test_any_number_of_frames_votes(tmp_path: Path, count: int) -> None:
    blocks = blocks_of(np.random.default_rng(5), 3, 3, held=0.8)
    gallery = coded_gallery(tmp_path / "g", blocks)
    build_index(gallery)
    index = TileIndex(gallery)
    frames = np.concatenate([window_at(blocks, 4)] * 2)[:count]
    votes = index._votes(frames, len(index._lists.cells)).astype(np.float64)
    one_by_one = sum(index._votes(frame[None], len(index._lists.cells)).astype(np.float64) for frame in frames)
    assert np.corrcoef(votes, one_by_one)[0, 1] > 0.99


def test_small_codes_compare_like_those_of_the_gallery(tmp_path: Path) -> None:
    for headings in (1, 4):
        blocks = blocks_of(np.random.default_rng(headings), 3, 3, headings=headings, held=0.8)
        gallery = coded_gallery(tmp_path / f"g{headings}", blocks)
        build_index(gallery)
        index, frames = TileIndex(gallery), window_at(blocks, 4)
        rows = np.array([0, 7, 3, len(gallery.regions) - 1])
        compared = index.compared(frames, rows, 4)
        grid = TileReader(gallery).grid([gallery.regions.region(int(row)) for row in rows])
        exact = token_similarity(frames, grid.codes.reshape(len(rows), -1, D))
        held = grid.valid.reshape(len(rows), -1)
        np.testing.assert_array_equal(compared.valid, held)
        every = np.repeat(held, headings, axis=1)[:, None].repeat(len(frames), 1)
        assert np.abs(compared.s_tok - exact)[every].max() < 0.08
        best = np.where(every, compared.s_tok, -9).max(2).mean(1)
        np.testing.assert_allclose(index.best_tiles(frames, rows), best, atol=1e-5)
        index.close()


def test_best_products_leave_out_tiles_without_data() -> None:
    rng = np.random.default_rng(0)
    products = rng.integers(-900, 900, (6, 10, 3)).astype(np.int32)
    held = rng.uniform(size=(6, 5)) < 0.6
    held[:, 0] = True
    best = np.empty((6, 3), np.int32)
    best_products(products, held, 2, best)
    plain = np.where(np.repeat(held, 2, axis=1)[:, :, None], products, -(10**6)).max(1)
    np.testing.assert_array_equal(best, plain)


@pytest.mark.parametrize(("n", "stride", "per_side"), [(7, 3, 2), (7, 7, 1), (7, 1, 6), (5, 2, 2)])
def test_regions_are_made_of_the_cells_of_their_tiles(n: int, stride: int, per_side: int) -> None:
    grid = CellGrid(19, n, stride)
    assert grid.per_side == per_side
    x0 = 160_008 // stride * stride
    table = RegionTable(np.array([x0, x0 + stride]), np.array([stride * 100] * 2), 19, n)
    ids = np.array([((stride * 100 // 8 + j) * 8 << 19) + (x0 // 8 + i) * 8 for j in range(3) for i in range(3)])
    cells = np.unique(grid.of_blocks(ids))
    of = grid.of_regions(table, cells)
    assert (of >= 0).all()
    first = (100 << 32) + x0 // stride
    assert cells[of[0, 0]] == first
    assert cells[of[1, 0]] == first + 1
    assert find(np.array([3]), np.zeros(0, np.int64)).tolist() == [-1]


def test_the_exact_reference_is_the_plain_search(tmp_path: Path) -> None:
    blocks = blocks_of(np.random.default_rng(5), 5, 4, held=0.9)
    gallery = coded_gallery(tmp_path / "g", blocks)
    plain = Searcher.over(gallery)
    windows = [window_at(blocks, number, frames=4) for number in (0, 6, 13, 19)]
    for least in (None, np.array([plain.plain(Query(window)).scores[-1] for window in windows])):
        best = exact_best(gallery, windows, plain.reach, least=least)
        for window, found in zip(windows, best, strict=True):
            expected = plain.plain(Query(window))
            np.testing.assert_array_equal(found.rows, expected.rows)
            np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
            assert found.compared <= len(gallery.regions)


def _statistics() -> CodeStatistics:
    rng = np.random.default_rng(6)
    grids = unit(1.0 + rng.normal(size=(1, 48, 48, 1, D)))
    tiles = grids.reshape(-1, D)[:400]
    return _fitted(grids, unit(tiles + 0.1 * rng.normal(size=tiles.shape)), tiles)


def test_a_synthetic_country_resumes_and_looks_like_its_statistics(tmp_path: Path) -> None:
    statistics = _statistics()
    statistics.save(tmp_path / "statistics.npz")
    again = CodeStatistics.load(tmp_path / "statistics.npz")
    manifest = GalleryManifest("made up", 19, 7, 3, D)
    whole = make_country(statistics, manifest, 6, tmp_path / "whole")
    assert len(whole.regions) == 8 * 8 - 4  # with those of which half is there, without the four corners

    def stop(what: str, done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_country(again, manifest, 6, tmp_path / "parts", progress=stop)
    resumed = make_country(again, manifest, 6, tmp_path / "parts")
    for a, b in zip(_sorted(whole.tile_blocks()), _sorted(resumed.tile_blocks()), strict=True):
        np.testing.assert_array_equal(a.codes, b.codes)
        np.testing.assert_array_equal(a.valid, b.valid)
    codes = np.concatenate([block.codes.reshape(-1, D) for block in whole.tile_blocks()])
    np.testing.assert_allclose(np.linalg.norm(codes, axis=1), 1.0, atol=2e-3)
    np.testing.assert_allclose(codes.mean(0), statistics.mean, atol=0.1)
    windows = draw_windows(whole, statistics, 3)
    assert all(window.shape == (8, D) for window in windows)


def _sorted(blocks: Iterable[TileBlock]) -> list[TileBlock]:
    return sorted(blocks, key=lambda block: (block.y, block.x))


def test_the_state_of_a_gallery_changes_with_its_tiles_only(tmp_path: Path) -> None:
    from x2localizer.search.approximate.manifest import state_of

    gallery = coded_gallery(tmp_path / "g", blocks_of(np.random.default_rng(0), 1, 1, x=X, y=Y))
    before = state_of(gallery)
    gallery.manifest = replace(gallery.manifest, codes=("tiles", "regions"))
    assert state_of(gallery) == before
    gallery.manifest = replace(gallery.manifest, sources=gallery.manifest.sources * 2)
    assert state_of(gallery) != before
