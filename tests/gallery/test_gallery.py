"""The gallery: what is indexed, against plain encoding; resuming, adding, replacing, holes, and bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from helpers.gallery_files import PX, WORLD, write_noise, write_tiles
from x2localizer.encoders import Bundle
from x2localizer.errors import ConfigError, GalleryError, ImageryError
from x2localizer.gallery import Gallery, index, open_gallery
from x2localizer.gallery.build import half_stride_tiles
from x2localizer.gallery.grid import BLOCK, TileSpan, block_corners, grid_regions
from x2localizer.search import Searcher
from x2localizer.sources.imagery import open_imagery
from x2localizer.types import TileId


def test_blocks_and_regions_cover_the_imagery_also_across_the_antimeridian() -> None:
    for span in (TileSpan(19, 1000, 2000, 20, 11), TileSpan(19, WORLD - 5, 2000, 12, 9)):
        corners = set(block_corners(span))
        regions = list(grid_regions(span, 7, 3))
        assert len(set(regions)) == len(regions)
        for column in range(span.columns):
            for row in range(span.rows):
                x, y = (span.west + column) % WORLD, span.north + row
                assert (x // BLOCK * BLOCK, y // BLOCK * BLOCK) in corners
                inside = [r for r in regions if (x - r.x) % WORLD < 7 and 0 <= y - r.y < 7]
                assert inside
                if 4 <= column < span.columns - 4 and 4 <= row < span.rows - 4:  # well inside some region
                    assert any(2 <= (x - r.x) % WORLD < 5 and 2 <= y - r.y < 5 for r in inside)


@pytest.fixture(scope="module")
def imagery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_noise(tmp_path_factory.mktemp("imagery") / "a.tif", 160003, 200005, 11)


@pytest.fixture(scope="module")
def gallery(imagery: Path, tiny_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    return index(imagery, tiny_bundle, tmp_path_factory.mktemp("gallery") / "g")


def test_what_is_stored_is_what_the_bundle_says_of_the_imagery(
    gallery: Gallery, imagery: Path, tiny_bundle: Bundle
) -> None:
    table = gallery.regions
    assert len(table) > 5
    with open_imagery(imagery) as opened:
        for row in (0, len(table) - 1):
            region = table.region(row)
            tiles = np.stack([opened.tile(tile, PX).image for tile in region.tiles()])
            code = tiny_bundle.encode_regions(tiles[None])
            np.testing.assert_allclose(table.whole[row], code.whole[0], atol=1e-5)
            np.testing.assert_allclose(gallery.tokens(table.ids[[row]])[0], code.tokens[0], atol=1e-5)
        block = gallery.blocks([(160008, 200008)])[0]
        tile = opened.tile(TileId(19, 160010, 200009), PX).image
        np.testing.assert_allclose(block.codes[2, 4], tiny_bundle.encode_tiles(tile[None])[0], atol=1e-5)
        assert block.picture.shape == (BLOCK * 32, BLOCK * 32, 3)
    assert block.valid[2, 4]
    assert not block.valid[0, 13], "the imagery ends before"


def test_tiles_at_half_stride_lie_half_a_tile_apart() -> None:
    side = (BLOCK + 1) * 4
    image = np.arange(side * side * 3, dtype=np.int64).reshape(side, side, 3).astype(np.uint8)
    tiles, valid = half_stride_tiles(image, np.ones((side, side), np.bool_), 4)
    assert tiles.shape == (16, 16, 4, 4, 3)
    assert valid.all()
    np.testing.assert_array_equal(tiles[3, 5], image[6:10, 10:14])


def test_an_interrupted_build_goes_on_without_doing_work_twice(
    imagery: Path, tiny_bundle: Bundle, gallery: Gallery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(Exception):
        pass

    encoded: list[int] = []
    plain = Bundle.encode_regions

    def counting(self: Bundle, images: npt.NDArray[np.uint8]) -> object:
        encoded.append(len(images))
        return plain(self, images)

    monkeypatch.setattr(Bundle, "encode_regions", counting)
    monkeypatch.setattr("x2localizer.gallery.build.ROWS_AT_ONCE", 2)

    def stop(what: str, done: int, total: int) -> None:
        if what == "regions" and done == 5:
            raise KilledError

    with pytest.raises(KilledError):
        index(imagery, tiny_bundle, tmp_path / "g", progress=stop)
    with pytest.raises(GalleryError, match="half built"):
        open_gallery(str(tmp_path / "g"), tiny_bundle)
    first = sum(encoded)
    index(imagery, tiny_bundle, tmp_path / "g")
    assert first == 4
    assert sum(encoded) == len(gallery.regions)
    resumed = open_gallery(str(tmp_path / "g"), tiny_bundle).regions
    np.testing.assert_array_equal(resumed.ids, gallery.regions.ids)
    np.testing.assert_allclose(resumed.whole, gallery.regions.whole, atol=1e-5)
    encoded.clear()
    index(imagery, tiny_bundle, tmp_path / "g")
    assert not encoded, "what is in is not encoded again"


def test_imagery_beside_the_first_is_added_and_an_area_replaced(
    imagery: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    address = tmp_path / "g"
    before = index(imagery, tiny_bundle, address).regions
    other = write_noise(tmp_path / "b.tif", 160014, 200005, 11, seed=1)
    both = index(other, tiny_bundle, address)
    assert set(before.ids) < set(both.regions.ids)
    assert len(both.about.sources) == 2
    again = write_noise(tmp_path / "c.tif", 160003, 200005, 11, seed=2)
    same = index(again, tiny_bundle, address).regions
    row = int(np.flatnonzero(same.ids == before.ids[0])[0])
    np.testing.assert_array_equal(same.whole[row], before.whole[0])
    replaced = index(again, tiny_bundle, address, replace=True).regions
    row = int(np.flatnonzero(replaced.ids == before.ids[0])[0])
    assert not np.allclose(replaced.whole[row], before.whole[0], atol=1e-3)


def test_tiles_without_data_are_not_indexed(tiny_bundle: Bundle, tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.tif", 160000, 200000, 8, hole=(3, 2))
    gallery = index(path, tiny_bundle, tmp_path / "g")
    block = gallery.blocks([(160000, 200000)])[0]
    assert not block.valid[6, 4]
    assert block.valid[6, 8]
    table = gallery.regions
    for row in range(len(table)):
        region = table.region(row)
        if region.x <= 160002 < region.x + 7 and region.y <= 200003 < region.y + 7:
            assert not table.valid[row][(200003 - region.y) * 7 + 160002 - region.x]


def test_a_search_over_a_gallery_equals_one_over_arrays(gallery: Gallery, tiny_bundle: Bundle) -> None:
    table = gallery.regions
    frames = np.random.default_rng(0).integers(0, 256, (1, 4, 32, 64, 3), dtype=np.uint8)
    prefix = tiny_bundle.encode_prefixes(frames)
    arrays = Searcher.of_arrays(table.whole, gallery.tokens(table.ids), table.valid).plain(prefix, 5)
    for memory_mb in (1024, 0):
        found = Searcher.over(gallery, memory_mb=memory_mb).search(prefix, 5)
        np.testing.assert_array_equal(found.rows, arrays.rows)
        np.testing.assert_allclose(found.score, arrays.score, atol=1e-6)


def test_what_does_not_fit_is_a_clear_error(
    gallery: Gallery, imagery: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    with pytest.raises(GalleryError, match="no gallery"):
        open_gallery(str(tmp_path / "nothing"))
    other = Bundle(tiny_bundle.root, tiny_bundle.model, {}, "0123456789abcdef")
    with pytest.raises(GalleryError, match="made by the bundle"):
        open_gallery(gallery.address, other)
    with pytest.raises(GalleryError, match="has bundle"):
        index(imagery, other, gallery.address)
    with pytest.raises(GalleryError, match="has stride 3, this is 4"):
        index(imagery, tiny_bundle, gallery.address, stride=4)
    with pytest.raises(ConfigError, match="stride"):
        index(imagery, tiny_bundle, tmp_path / "g", stride=0)
    empty = tmp_path / "empty.tif"
    write_tiles(empty, np.zeros((8 * PX, 8 * PX, 3), np.uint8), 160000, 200000, nodata=True)
    with pytest.raises(ImageryError, match="holds no data"):
        index(empty, tiny_bundle, tmp_path / "e")
    with pytest.raises(ImageryError, match="half of any tile"):
        index(imagery, tiny_bundle, tmp_path / "z", zoom=9)
