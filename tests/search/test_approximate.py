"""The approximate search: against the exact one, and an index that is stale, damaged, interrupted or in use."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.coded_gallery import X, Y, add_blocks, blocks_of, coded_gallery, unit, window_at
from x2localizer.errors import ConfigError, GalleryError, UserError
from x2localizer.files import only_writer
from x2localizer.gallery import Gallery, open_gallery
from x2localizer.gallery.blocks import TileBlock
from x2localizer.gallery.manifest import ROADS_ONLY
from x2localizer.gallery.open import make_roads_only
from x2localizer.search import CirclePrior, Searcher, SearchMode, build_index, open_searcher
from x2localizer.search.approximate import build, describe_index, searcher, tile_index
from x2localizer.search.approximate.codebooks import Bytes, Codebooks
from x2localizer.search.approximate.manifest import index_folder, read_manifest
from x2localizer.search.approximate.searcher import ApproximateSearcher
from x2localizer.similarity import Query, similarities
from x2localizer.types import Codes, Position

RNG_SEED = 5


@pytest.fixture(scope="module")
def blocks() -> list[TileBlock]:
    return blocks_of(np.random.default_rng(RNG_SEED), 8, 8)


@pytest.fixture(scope="module")
def gallery(blocks: list[TileBlock], tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    gallery = coded_gallery(tmp_path_factory.mktemp("approximate") / "g", blocks)
    build_index(gallery)
    return gallery


@pytest.fixture
def small(tmp_path: Path) -> Gallery:
    """A gallery of its own for a test that changes it."""
    return coded_gallery(tmp_path / "g", blocks_of(np.random.default_rng(1), 3, 3))


def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only few regions through, so that every step has something to leave out."""
    monkeypatch.setattr(tile_index, "VOTED", 120)
    monkeypatch.setattr(tile_index, "VOTED_WITH_HEADINGS", 120)
    monkeypatch.setattr(tile_index, "VOTES_PER_FRAME", 2000)
    monkeypatch.setattr(searcher, "FINE", 60)
    monkeypatch.setattr(searcher, "FINE_WITH_HEADINGS", 60)


def _approximate(gallery: Gallery, similarity: str = "s_path") -> ApproximateSearcher:
    opened = open_searcher(gallery, similarity, "approximate")
    assert isinstance(opened, ApproximateSearcher)
    return opened


@pytest.mark.parametrize("name", [name for name in similarities.names() if similarities.get(name).codes == "tiles"])
def test_it_finds_what_the_exact_search_finds(
    name: str, gallery: Gallery, blocks: list[TileBlock], monkeypatch: pytest.MonkeyPatch
) -> None:
    _few(monkeypatch)
    exact, approximate = Searcher.over(gallery, name), _approximate(gallery, name)
    same = []
    for number in range(0, 64, 5):
        query = Query(window_at(blocks, number))
        best, ranked = exact.plain(query), approximate.search(query)
        assert ranked.rows[0] == best.rows[0]
        assert not ranked.certified
        assert ranked.examined < len(gallery.regions) / 4
        np.testing.assert_allclose(ranked.scores, exact.score(query, ranked.rows), atol=1e-5)
        same.append(len(set(ranked.rows.tolist()) & set(best.rows.tolist())) / 10)
    assert np.mean(same) > 0.8


def test_it_works_with_a_code_for_each_heading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _few(monkeypatch)
    blocks = blocks_of(np.random.default_rng(2), 5, 5, headings=8)
    gallery = coded_gallery(tmp_path / "g", blocks)
    build_index(gallery)
    exact, approximate = Searcher.over(gallery), _approximate(gallery)
    for number in range(0, 25, 4):
        query = Query(window_at(blocks, number))
        best, ranked = exact.plain(query), approximate.search(query)
        assert ranked.rows[0] == best.rows[0]
        np.testing.assert_allclose(ranked.scores, exact.score(query, ranked.rows), atol=1e-5)


def test_few_regions_are_all_compared(small: Gallery, blocks: list[TileBlock]) -> None:
    build_index(small)
    exact, approximate = Searcher.over(small), _approximate(small)
    query = Query(window_at(blocks, 3))
    best, ranked = exact.plain(query, 100), approximate.search(query, 100)
    np.testing.assert_array_equal(ranked.rows, best.rows)
    np.testing.assert_allclose(ranked.scores, best.scores, atol=1e-5)
    assert ranked.certified
    np.testing.assert_allclose(approximate.compare(query, best.rows[3:5]).scores, best.scores[3:5], atol=1e-5)


def test_a_prior_restricts_the_search(
    gallery: Gallery, blocks: list[TileBlock], monkeypatch: pytest.MonkeyPatch
) -> None:
    _few(monkeypatch)
    lats, lons = gallery.regions.centres()
    allowed = CirclePrior(Position(float(lats[0]), float(lons[0])), 1500).allowed(gallery.regions)
    assert 20 < allowed.sum() < len(gallery.regions) / 2
    approximate, query = _approximate(gallery), Query(window_at(blocks, 60))
    assert allowed[approximate.search(query, allowed=allowed).rows].all()
    most = np.ones(len(gallery.regions), np.bool_)
    best = int(approximate.search(query).rows[0])
    most[best] = False
    assert best not in approximate.search(query, allowed=most).rows
    assert len(approximate.search(query, allowed=np.zeros_like(most)).rows) == 0


def test_set_codes_are_compared_where_tiles_vote(tmp_path: Path) -> None:
    """s_mix: image codes of the frames find the regions, set codes rank them."""
    blocks = blocks_of(np.random.default_rng(3), 3, 3)
    gallery = coded_gallery(tmp_path / "g", blocks)
    manifest, table = gallery.manifest, gallery.regions
    source = replace(manifest.sources[0], done=("tiles", "regions"))
    gallery.save_manifest(replace(manifest, codes=("tiles", "regions"), sources=(source,)))
    rng = np.random.default_rng(4)
    whole, tokens = unit(rng.normal(size=(len(table), 24))), unit(rng.normal(size=(len(table), 49, 24)))
    regions = [table.region(row) for row in range(len(table))]
    gallery.add_regions(regions, whole, tokens, np.ones((len(table), 49), np.bool_), 0)
    build_index(gallery)
    frames = window_at(blocks, 4)
    query = Query(unit(rng.normal(size=(6, 24))), whole[3], frames)
    best, ranked = Searcher.over(gallery, "s_mix").plain(query), _approximate(gallery, "s_mix").search(query)
    np.testing.assert_array_equal(ranked.rows, best.rows)
    np.testing.assert_allclose(ranked.scores, best.scores, atol=1e-3)


def test_auto_uses_an_index_where_there_is_one(small: Gallery) -> None:
    assert not isinstance(open_searcher(small), ApproximateSearcher)
    with pytest.raises(GalleryError, match=r"no approximate index.*x2l index --approximate --out"):
        open_searcher(small, mode="approximate")
    build_index(small)
    assert isinstance(open_searcher(small), ApproximateSearcher)
    assert not isinstance(open_searcher(small, mode="exact"), ApproximateSearcher)
    with pytest.raises(ConfigError, match="no search"):
        open_searcher(small, mode="fast")  # type: ignore[arg-type]
    with pytest.raises(GalleryError, match="regions"):
        open_searcher(small, "s_mix")


def test_a_stale_index_is_refused_and_only_new_tiles_are_encoded(
    small: Gallery, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_index(small)
    before = read_manifest(small)
    more = blocks_of(np.random.default_rng(9), 2, 3, x=X + 24)
    add_blocks(small, more, "east")
    modes: tuple[SearchMode, ...] = ("auto", "approximate")
    for mode in modes:
        with pytest.raises(GalleryError, match=r"stale.*x2l index --approximate --out"):
            open_searcher(open_gallery(small.address), mode=mode)
    assert "stale" in str(describe_index(small.address)["approximate index"])
    open_searcher(small, mode="exact")
    encoded = _count_encoded(monkeypatch)
    after = build_index(open_gallery(small.address))
    assert len(encoded) == 6
    assert (after.blocks, after.books) == (before.blocks + 6, before.books)
    query = Query(window_at(more, 4))
    reopened = open_gallery(small.address)
    assert _approximate(reopened).search(query).rows[0] == Searcher.over(reopened).plain(query).rows[0]
    encoded.clear()
    assert build_index(reopened) == after
    assert not encoded, "nothing has changed"


def _count_encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    encoded: list[int] = []
    plain = Codebooks.encode

    def counting(self: Codebooks, codes: Codes) -> tuple[Bytes, Bytes]:
        encoded.append(len(codes))
        return plain(self, codes)

    monkeypatch.setattr(Codebooks, "encode", counting)
    return encoded


def test_replaced_tiles_are_found_by_their_new_codes_only(small: Gallery, monkeypatch: pytest.MonkeyPatch) -> None:
    _few(monkeypatch)
    build_index(small)
    old = next(small.tile_blocks([(X + 8, Y + 8)]))
    new = blocks_of(np.random.default_rng(77), 1, 1, x=X + 8, y=Y + 8)
    add_blocks(small, new, "newer")
    manifest = build_index(small)
    assert manifest.blocks == 9
    approximate, exact = _approximate(small), Searcher.over(small)
    for block in (new[0], old):
        query = Query(window_at([block], 0, noise=0.0))
        best, ranked = exact.plain(query), approximate.search(query)
        assert ranked.rows[0] == best.rows[0]
        np.testing.assert_allclose(ranked.scores[0], best.scores[0], atol=1e-5)
    assert approximate.search(Query(window_at(new, 0, noise=0.0))).scores[0] > ranked.scores[0] + 0.05


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "index.json").write_text("{"),
        lambda folder: (folder / "index.json").write_text('{"format": 1}'),
        lambda folder: next(folder.glob("small-*")).write_bytes(b"short"),
        lambda folder: next(folder.glob("books-*")).write_bytes(b"no archive"),
        lambda folder: next(folder.glob("lists-*.cells.npy")).unlink(),
        lambda folder: next(folder.glob("part-*.places.npy")).unlink(),
        lambda folder: np.save(next(folder.glob("lists-*.cells.npy")), np.full(4, 10**6, np.uint32)),
        lambda folder: np.save(next(folder.glob("lists-*.offsets.npy")), np.zeros(3, np.int64)),
    ],
)
def test_a_damaged_index_is_an_error_that_says_what_to_do(small: Gallery, damage: Callable[[Path], None]) -> None:
    build_index(small)
    damage(index_folder(small))
    with pytest.raises(GalleryError, match=r"damaged.*x2l index --approximate --out .* --replace"):
        open_searcher(small)
    build_index(small, replace=True)
    open_searcher(small).search(Query(unit(np.ones((2, 24)))))


def test_an_index_of_another_version_is_refused(small: Gallery) -> None:
    build_index(small)
    path = index_folder(small) / "index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99, "new": 1}))
    with pytest.raises(GalleryError, match=r"format 99.*Build it again"):
        open_searcher(small)
    build_index(small)
    open_searcher(small)


def test_galleries_without_tiles_or_on_other_machines_have_no_index(tmp_path: Path) -> None:
    roads = make_roads_only(str(tmp_path / "roads"))
    assert roads.manifest == ROADS_ONLY
    with pytest.raises(GalleryError, match="roads only"):
        build_index(roads)
    empty = coded_gallery(tmp_path / "empty", [])
    with pytest.raises(GalleryError, match="no tiles"):
        build_index(empty)
    far = replace(empty, address="s3://bucket/gallery")
    with pytest.raises(GalleryError, match="not a local folder"):
        build_index(far)
    half = coded_gallery(tmp_path / "half", [])
    half.save_manifest(replace(half.manifest, sources=(replace(half.manifest.sources[0], done=()),)))
    with pytest.raises(GalleryError, match="half built"):
        build_index(half)


def test_one_region_and_tiles_that_are_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = blocks_of(np.random.default_rng(0), 1, 1, held=1.0)[0]
    one = np.zeros((16, 16), np.bool_)
    one[:14, :14] = True
    gallery = coded_gallery(tmp_path / "one", [TileBlock(X, Y, block.codes, one)])
    build_index(gallery)
    ranked = _approximate(gallery).search(Query(block.codes[5, 3:6, 0]))
    assert ranked.certified
    assert 0 in ranked.rows
    _few(monkeypatch)
    alike = [TileBlock(b.x, b.y, np.broadcast_to(block.codes[:1, :1], b.codes.shape), b.valid)
             for b in blocks_of(np.random.default_rng(0), 5, 5, held=1.0)]  # fmt: skip
    gallery = coded_gallery(tmp_path / "alike", alike)
    build_index(gallery)
    ranked = _approximate(gallery).search(Query(block.codes[0, :1, 0]))
    assert len(set(ranked.rows.tolist())) == 10
    assert np.ptp(ranked.scores) < 1e-5


def test_a_second_build_at_the_same_time_is_refused(small: Gallery) -> None:
    with only_writer(index_folder(small)), pytest.raises(UserError, match="Another process is writing"):
        build_index(small)


def test_an_interrupted_build_resumes(small: Gallery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "BLOCKS_PER_PART", 2)

    def stop(what: str, done: int, total: int) -> None:
        if done >= 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index(small, progress=stop)
    with pytest.raises(GalleryError, match="no approximate index"):
        open_searcher(small, mode="approximate")
    with next(index_folder(small).glob("small-*")).open("ab") as file:
        file.write(b"half a block")  # as a killed run leaves it
    encoded = _count_encoded(monkeypatch)
    manifest = build_index(small)
    assert len(encoded) == 3
    assert manifest.blocks == 9
    _few(monkeypatch)
    query = Query(window_at(list(small.tile_blocks()), 7))
    assert _approximate(small).search(query).rows[0] == Searcher.over(small).plain(query).rows[0]


def test_an_index_that_is_open_survives_a_rebuild(small: Gallery, blocks: list[TileBlock]) -> None:
    build_index(small)
    approximate, query = _approximate(small), Query(window_at(blocks, 3))
    before = approximate.search(query)
    build_index(small, replace=True)
    np.testing.assert_array_equal(approximate.search(query).rows, before.rows)


def test_regions_across_the_antimeridian_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _few(monkeypatch)
    blocks = blocks_of(np.random.default_rng(8), 6, 4, x=(1 << 19) - 24, held=1.0)
    gallery = coded_gallery(tmp_path / "g", blocks)
    build_index(gallery)
    exact, approximate = Searcher.over(gallery), _approximate(gallery)
    for number in (8, 9, 14, 15):
        query = Query(window_at(blocks, number))
        assert approximate.search(query).rows[0] == exact.plain(query).rows[0]


def test_the_command_line_builds_an_index_and_says_what_is_there(small: Gallery) -> None:
    from helpers.command_line import x2l

    assert "approximate index" not in x2l("index", "--info", "--out", small.address)
    values = json.loads(x2l("index", "--approximate", "--out", small.address, "--json").splitlines()[0])
    assert values["approximate index"].startswith("current")
    add_blocks(small, blocks_of(np.random.default_rng(9), 1, 3, x=X + 24), "east")
    assert "stale" in x2l("index", "--info", "--out", small.address)
    assert "current" in x2l("index", "--approximate", "--replace", "--out", small.address)
    assert "no gallery" in x2l("index", "--approximate", "--out", small.address + "-other", code=2)
    assert "no search 'fast'" in x2l("localize", "a.mp4", "--gallery", small.address, "--search", "fast", code=2)
