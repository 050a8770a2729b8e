"""The gallery: what is indexed, against plain encoding; resuming, adding, replacing, holes, and bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

from helpers.gallery_files import PX, WORLD, write_noise, write_tiles
from helpers.same_gallery import assert_same
from x2localizer.encoders import Bundle
from x2localizer.encoders.area import half_stride
from x2localizer.encoders.protocol import Capabilities
from x2localizer.errors import ConfigError, GalleryError, ImageryError, UserError
from x2localizer.gallery import Estimate, Gallery, index, open_gallery
from x2localizer.gallery.grid import BLOCK, HALVES, TileSpan, block_corners
from x2localizer.gallery.parts import half_stride_valid
from x2localizer.gallery.regions import regions_with_data
from x2localizer.gallery.tiles import TileReader, region_views
from x2localizer.search import Searcher
from x2localizer.similarity import CodeKind, Query
from x2localizer.sources.imagery import Imagery, open_imagery
from x2localizer.types import Codes, Images, Region, TileId

BOTH: tuple[CodeKind, ...] = ("tiles", "regions")


def _held(span: TileSpan) -> dict[tuple[int, int], np.ndarray]:
    """Which tiles at half stride hold data where imagery covers a span, by block."""
    blocks = {}
    for x, y in block_corners(span):
        columns = ((x + np.arange(HALVES) / 2 - span.west + WORLD / 2) % WORLD - WORLD / 2)[None]
        rows = (y + np.arange(HALVES) / 2 - span.north)[:, None]
        inside = (columns >= -0.5) & (columns <= span.columns - 0.5) & (rows >= -0.5) & (rows <= span.rows - 0.5)
        blocks[x, y] = inside
    return blocks


@pytest.mark.parametrize("span", [TileSpan(19, 1000, 2000, 20, 11), TileSpan(19, WORLD - 5, 2000, 12, 9)])
def test_regions_cover_the_imagery_also_across_the_antimeridian(span: TileSpan) -> None:
    blocks = _held(span)
    table = regions_with_data(blocks, 19, 7, 3)
    regions = [table.region(row) for row in range(len(table))]
    assert len(set(regions)) == len(regions)
    assert table.ids.tolist() == sorted(table.ids.tolist())
    for column in range(span.columns):
        for row in range(span.rows):
            x, y = (span.west + column) % WORLD, span.north + row
            assert (x // BLOCK * BLOCK, y // BLOCK * BLOCK) in blocks
            inside = [r for r in regions if (x - r.x) % WORLD < 7 and 0 <= y - r.y < 7]
            assert inside
            if 4 <= column < span.columns - 4 and 4 <= row < span.rows - 4:  # well inside some region
                assert any(2 <= (x - r.x) % WORLD < 5 and 2 <= y - r.y < 5 for r in inside)


@pytest.mark.parametrize("span", [TileSpan(19, 1000, 2000, 20, 11), TileSpan(19, WORLD - 5, 2000, 12, 9)])
def test_a_region_is_there_if_half_of_its_tiles_hold_data(span: TileSpan) -> None:
    table = regions_with_data(_held(span), 19, 7, 3)
    regions = {table.region(row) for row in range(len(table))}
    for west in range(span.west - 9, span.west + span.columns + 2):
        for north in range(span.north - 9, span.north + span.rows + 2):
            x = west % WORLD
            if x % 3 or north % 3:
                continue
            across = sum((x + i - span.west) % WORLD < span.columns for i in range(7))
            down = sum(0 <= north + i - span.north < span.rows for i in range(7))
            assert (Region(19, x, north, 7) in regions) == (across * down >= 24.5), (x, north)


@pytest.fixture(scope="module")
def imagery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_noise(tmp_path_factory.mktemp("imagery") / "a.tif", 160003, 200005, 11)


@pytest.fixture(scope="module")
def gallery(imagery: Path, tiny_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    return index(imagery, tiny_bundle, tmp_path_factory.mktemp("gallery") / "g", codes=BOTH)


def _whole(gallery: Gallery) -> dict[int, np.ndarray]:
    return {int(i): w for part in gallery.region_sets() for i, w in zip(part.ids, part.whole, strict=True)}


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
            (stored,) = gallery.region_sets(table.ids[[row]])
            np.testing.assert_allclose(stored.whole[0], code.whole[0], atol=1e-3)
            np.testing.assert_allclose(stored.tokens[0], code.tokens[0], atol=1e-3)
        (block,) = gallery.tile_blocks([(160008, 200008)])
        tile = opened.tile(TileId(19, 160010, 200009), PX).image
        np.testing.assert_allclose(block.codes[2, 4, 0], tiny_bundle.encode_tiles(tile[None])[0], atol=1e-3)
    picture = gallery.pictures([(160008, 200008)])[160008, 200008]
    assert picture.shape == (BLOCK * 32, BLOCK * 32, 3)
    assert block.valid[2, 4]
    assert not block.valid[0, 13], "the imagery ends before"


def test_only_the_codes_that_were_asked_for_are_computed(
    imagery: Path, tiny_bundle: Bundle, gallery: Gallery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Bundle, images: Images) -> object:
        raise AssertionError("nobody asked for set codes")

    monkeypatch.setattr(Bundle, "encode_regions", refuse)
    plain = index(imagery, tiny_bundle, tmp_path / "g")
    assert plain.manifest.codes == ("tiles",)
    np.testing.assert_array_equal(plain.regions.ids, gallery.regions.ids)
    with pytest.raises(GalleryError, match="no codes of regions"):
        Searcher.over(plain, "s_mix")
    monkeypatch.undo()
    with pytest.raises(AssertionError):  # nothing is encoded twice: only the regions are missing
        monkeypatch.setattr(Bundle, "encode_regions", refuse)
        index(imagery, tiny_bundle, tmp_path / "g", codes=BOTH)
    monkeypatch.undo()
    with pytest.raises(GalleryError, match="--codes tiles,regions"):
        open_gallery(tmp_path / "g", tiny_bundle)
    monkeypatch.setattr(
        "x2localizer.gallery.build.Work._add_tiles", lambda self: pytest.fail("the tiles are in already")
    )
    more = index(imagery, tiny_bundle, tmp_path / "g", codes=BOTH)
    for identity, whole in _whole(more).items():
        np.testing.assert_allclose(whole, _whole(gallery)[identity], atol=1e-3)
    assert index(imagery, tiny_bundle, tmp_path / "g").manifest.codes == BOTH, "codes that are there stay"


def test_codes_are_read_without_pictures(gallery: Gallery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("x2localizer.gallery.store.from_jpeg", lambda data: pytest.fail("a picture was decoded"))
    assert len(list(gallery.tile_blocks())) > 1
    Searcher.over(gallery, "s_path")
    TileReader(gallery).grid([gallery.regions.region(0)])


def test_tiles_at_half_stride_lie_half_a_tile_apart() -> None:
    side = (BLOCK + 1) * 4
    image = np.arange(side * side * 3, dtype=np.int64).reshape(side, side, 3).astype(np.uint8)
    tiles = half_stride(image, 4)
    assert tiles.shape == (17, 17, 4, 4, 3)
    np.testing.assert_array_equal(tiles[3, 5], image[6:10, 10:14])
    held = np.ones((side, side), np.bool_)
    held[:4] = False  # the first row of tiles, and half of the next at half stride
    valid = half_stride_valid(held, 4)
    assert valid.shape == (17, 17)
    assert valid[1:].all()
    assert not valid[0].any()


class LooksAhead(Bundle):
    """A bundle whose tiles have another code for each heading, and whose cameras look half a tile ahead."""

    def encode_tiles(self, images: Images) -> Codes:
        codes = super().encode_tiles(images)
        return np.stack([np.roll(codes, heading, 1) for heading in range(self.spec.headings)], 1)


@pytest.mark.parametrize("further", [0, 3])
def test_a_gallery_of_cameras_that_look_ahead_has_no_seams(
    imagery: Path, tiny_bundle: Bundle, tmp_path: Path, further: int
) -> None:
    looks = Capabilities(headings=8, ahead=1, further=further)
    encoder = LooksAhead(tiny_bundle.root, tiny_bundle.model, {}, "ahead", capabilities=looks)
    gallery = index(imagery, encoder, tmp_path / "gallery")
    west, north = min(gallery.corners())[0], min(y for _, y in gallery.corners())
    n = 4 * BLOCK
    with open_imagery(imagery) as opened:
        ground = opened.region(Region(19, west - BLOCK, north - BLOCK, n), PX)
    whole = encoder.encode_area(ground.image, half_stride_valid(ground.valid, PX))
    blocks = list(gallery.tile_blocks(gallery.corners()))
    assert len(blocks) == 4
    for block in blocks:
        row, column = 2 * (block.y - north + BLOCK), 2 * (block.x - west + BLOCK)
        plain = whole[row : row + HALVES, column : column + HALVES]
        np.testing.assert_allclose(block.codes[block.valid], plain[block.valid], atol=0.01)  # kept in 8 bits


class KilledError(Exception):
    """Stands in for a kill."""


def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One block or region at a time, each stored at once."""
    monkeypatch.setattr("x2localizer.gallery.parts.SIDES", (1,))
    monkeypatch.setattr("x2localizer.gallery.work.REGIONS_AT_ONCE", 1)
    monkeypatch.setattr("x2localizer.gallery.work.COMMIT_S", 0.0)


@pytest.mark.parametrize("part", BOTH)
def test_an_interrupted_build_resumes_without_doing_work_twice(
    part: str, imagery: Path, tiny_bundle: Bundle, gallery: Gallery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[int] = []
    method = "encode_regions" if part == "regions" else "encode_tiles"
    plain = getattr(Bundle, method)

    def counting(self: Bundle, images: Images) -> object:
        encoded.append(len(images))
        return plain(self, images)

    monkeypatch.setattr("x2localizer.gallery.build.Work.estimate", lambda self: Estimate(0, 0.0, 0.0))
    _small_parts(monkeypatch)
    monkeypatch.setattr(Bundle, method, counting)

    def stop(what: str, done: int, total: int) -> None:
        if what == part and done == 3:
            raise KilledError

    with pytest.raises(KilledError):
        index(imagery, tiny_bundle, tmp_path / "g", codes=BOTH, progress=stop)
    with pytest.raises(GalleryError, match="half built"):
        open_gallery(tmp_path / "g", tiny_bundle)
    index(imagery, tiny_bundle, tmp_path / "g", codes=BOTH)
    whole = sum(encoded)
    resumed = open_gallery(tmp_path / "g", tiny_bundle)
    np.testing.assert_array_equal(resumed.regions.ids, gallery.regions.ids)
    for identity, code in _whole(gallery).items():
        np.testing.assert_allclose(_whole(resumed)[identity], code, atol=1e-3)
    encoded.clear()
    index(imagery, tiny_bundle, tmp_path / "g", codes=BOTH)
    assert not encoded, "what is in is not encoded again"
    index(imagery, tiny_bundle, tmp_path / "undisturbed", codes=BOTH)
    assert sum(encoded) == whole


def test_imagery_beside_the_first_is_added_and_an_area_replaced(
    imagery: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    address = tmp_path / "g"
    first = index(imagery, tiny_bundle, address, codes=BOTH)
    before, codes = first.regions, _whole(first)
    other = write_noise(tmp_path / "b.tif", 160014, 200005, 11, seed=1)
    both = index(other, tiny_bundle, address, codes=BOTH)
    assert set(before.ids) < set(both.regions.ids)
    assert len(both.manifest.sources) == 2
    again = write_noise(tmp_path / "c.tif", 160003, 200005, 11, seed=2)
    identity = int(before.ids[0])
    same = index(again, tiny_bundle, address, codes=BOTH)
    np.testing.assert_array_equal(_whole(same)[identity], codes[identity])
    replaced = index(again, tiny_bundle, address, codes=BOTH, replace=True)
    assert not np.allclose(_whole(replaced)[identity], codes[identity], atol=1e-2)
    (block,), (old,) = replaced.tile_blocks([(160008, 200008)]), first.tile_blocks([(160008, 200008)])
    assert block.valid[0, 0]
    assert not np.allclose(block.codes[0, 0], old.codes[0, 0], atol=1e-2) or first.address == replaced.address


def test_a_killed_replacement_is_finished_by_the_command_that_the_error_advises(
    imagery: Path, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, newer = tmp_path / "g", tmp_path / "newer.tif"
    index(imagery, tiny_bundle, address)
    write_noise(newer, 160003, 200005, 11, seed=9)
    expected = index(newer, tiny_bundle, tmp_path / "expected")
    imagery_now = tmp_path / "now.tif"
    imagery_now.write_bytes(imagery.read_bytes())
    index(imagery_now, tiny_bundle, tmp_path / "h")
    imagery_now.write_bytes(newer.read_bytes())  # the file was updated in its place

    def stop(what: str, done: int, total: int) -> None:
        raise KilledError

    _small_parts(monkeypatch)
    with pytest.raises(KilledError):
        index(imagery_now, tiny_bundle, tmp_path / "h", replace=True, progress=stop)
    with pytest.raises(GalleryError, match=rf"x2l index {imagery_now} --out .* --replace") as advice:
        open_gallery(tmp_path / "h", tiny_bundle)
    assert "half built" in str(advice.value)
    for replacing in (False, True):  # whether the user repeats --replace or forgets it
        index(imagery_now, tiny_bundle, tmp_path / "h", replace=replacing)
        done = open_gallery(tmp_path / "h", tiny_bundle)
        (block,), (wanted,) = done.tile_blocks([(160008, 200008)]), expected.tile_blocks([(160008, 200008)])
        np.testing.assert_allclose(block.codes[wanted.valid], wanted.codes[wanted.valid], atol=1e-3)


@pytest.mark.slow
def test_a_virtual_raster_of_a_thousand_files_is_like_one_file(tiny_bundle: Bundle, tmp_path: Path) -> None:
    whole = write_noise(tmp_path / "whole.tif", 160000, 200000, 32)
    with rasterio.open(whole) as file:
        image, place, wkt = file.read().transpose(1, 2, 0), file.transform, file.crs.to_wkt()
    sources: dict[int, list[str]] = {1: [], 2: [], 3: []}
    for row in range(32):
        for column in range(32):
            tile = image[row * PX : (row + 1) * PX, column * PX : (column + 1) * PX]
            name = f"{row}-{column}.tif"
            write_tiles(tmp_path / name, tile, 160000 + column, 200000 + row, nodata=False)
            spot = f'xOff="{column * PX}" yOff="{row * PX}" xSize="{PX}" ySize="{PX}"'
            for band, lines in sources.items():
                lines.append(
                    f'<SimpleSource><SourceFilename relativeToVRT="1">{name}</SourceFilename>'
                    f'<SourceBand>{band}</SourceBand><SrcRect xOff="0" yOff="0" xSize="{PX}" ySize="{PX}"/>'
                    f"<DstRect {spot}/></SimpleSource>"
                )
    bands = "".join(
        f'<VRTRasterBand dataType="Byte" band="{band}">{"".join(lines)}</VRTRasterBand>'
        for band, lines in sources.items()
    )
    shape = f'rasterXSize="{32 * PX}" rasterYSize="{32 * PX}"'
    where = ", ".join(repr(number) for number in place.to_gdal())
    (tmp_path / "all.vrt").write_text(
        f"<VRTDataset {shape}><SRS>{wkt}</SRS><GeoTransform>{where}</GeoTransform>{bands}</VRTDataset>"
    )
    gallery = index(tmp_path / "all.vrt", tiny_bundle, tmp_path / "many")
    assert_same(index(whole, tiny_bundle, tmp_path / "one"), gallery)


def test_tiles_without_data_are_not_indexed(tiny_bundle: Bundle, tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.tif", 160000, 200000, 8, hole=(3, 2))
    gallery = index(path, tiny_bundle, tmp_path / "g", codes=BOTH)
    (block,) = gallery.tile_blocks([(160000, 200000)])
    assert not block.valid[6, 4]
    assert block.valid[6, 8]
    for part in gallery.region_sets():
        for identity, valid in zip(part.ids.tolist(), part.valid, strict=True):
            x, y = identity % WORLD, identity // WORLD
            if x <= 160002 < x + 7 and y <= 200003 < y + 7:
                assert not valid[(200003 - y) * 7 + 160002 - x]


def test_views_are_the_tiles_of_their_region(gallery: Gallery) -> None:
    blocks = list(gallery.tile_blocks())
    views = region_views(gallery.regions, {(block.x, block.y): i for i, block in enumerate(blocks)})
    codes = np.concatenate([block.codes.reshape(256, -1) for block in blocks])
    valid = np.concatenate([block.valid.reshape(256) for block in blocks])
    grid = TileReader(gallery).grid([gallery.regions.region(row) for row in range(len(gallery.regions))])
    held = grid.valid.reshape(len(views), -1)
    np.testing.assert_array_equal(valid[np.maximum(views, 0)] & (views >= 0), held)
    np.testing.assert_array_equal(codes[views][held], grid.codes.reshape(len(views), -1, codes.shape[1])[held])


def test_a_search_over_a_gallery_equals_one_over_arrays(gallery: Gallery, tiny_bundle: Bundle) -> None:
    table = gallery.regions
    frames = np.random.default_rng(0).integers(0, 256, (4, 32, 64, 3), dtype=np.uint8)
    codes = tiny_bundle.encode_prefixes(frames[None])
    (stored,) = gallery.region_sets()
    order = np.argsort(stored.ids)
    np.testing.assert_array_equal(stored.ids[order], table.ids)
    by_arrays = Searcher.of_regions("s_mix", stored.whole[order], stored.tokens[order], stored.valid[order])
    grid = TileReader(gallery).grid([table.region(row) for row in range(len(table))])
    tiles = grid.codes.reshape(-1, grid.codes.shape[-1])
    views = np.arange(len(tiles), dtype=np.int32).reshape(len(table), -1)
    by_tiles = Searcher.of_tiles("s_path", tiles, views, grid.valid.reshape(-1))
    for arrays, query in (
        (by_arrays, Query(codes.tokens[0], codes.whole[0])),
        (by_tiles, Query(tiny_bundle.encode_frames(frames))),
    ):
        expected = arrays.plain(query, 5)
        for memory_mb in (1024, 0):
            searcher = Searcher.over(gallery, arrays.similarity.name, memory_mb=memory_mb)
            ranked = searcher.search(query, 5)
            np.testing.assert_array_equal(ranked.rows, expected.rows)
            np.testing.assert_allclose(ranked.scores, expected.scores, atol=1e-5)


def test_regions_that_overlap_share_their_tiles_in_memory(gallery: Gallery) -> None:
    """Regions at a stride of 3 tiles overlap by more than half: with tiles of their own they would take a multiple."""
    codes = Searcher.over(gallery, "s_path").codes
    stored = sum(block.codes.nbytes for block in gallery.tile_blocks())
    views = codes.valid.size * (4 + 1)
    assert len(codes) * codes.bytes_per_region <= stored + views
    assert codes.valid.size * gallery.manifest.dim * 4 > stored + views


def test_what_does_not_fit_is_a_clear_error(
    gallery: Gallery, imagery: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    with pytest.raises(GalleryError, match="no gallery"):
        open_gallery(tmp_path / "nothing")
    other = Bundle(tiny_bundle.root, tiny_bundle.model, {}, "0123456789abcdef")
    with pytest.raises(GalleryError, match="made by the bundle"):
        open_gallery(gallery.address, other)
    with pytest.raises(GalleryError, match="has encoder"):
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
        index(imagery, tiny_bundle, tmp_path / "z", zoom=14)
    with pytest.raises(ConfigError, match="codes 'regions'"):
        index(imagery, tiny_bundle, tmp_path / "z", codes=("regions",))


@pytest.mark.parametrize("zoom", [-1, 9, 30, 99])
def test_zooms_that_make_no_sense_are_refused_at_once(
    zoom: int, imagery: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="--zoom of 14 to 22"):
        index(imagery, tiny_bundle, tmp_path / "g", zoom=zoom)
    assert not (tmp_path / "g").exists()


def _coarse(path: Path, metres: float, pixels: int) -> None:
    profile = {
        "driver": "GTiff", "width": pixels, "height": pixels, "count": 3, "dtype": "uint8", "crs": "EPSG:3857",
        "transform": from_origin(0.0, 4e6, metres, metres), "sparse_ok": True, "tiled": True,
        "blockxsize": 4096, "blockysize": 4096,
    }  # fmt: skip
    with rasterio.open(path, "w", **profile):
        pass


def test_imagery_that_is_too_coarse_or_too_large_is_refused_before_any_work(
    tiny_bundle: Bundle, tmp_path: Path
) -> None:
    _coarse(tmp_path / "coarse.tif", 300.0, 2000)
    with pytest.raises(ImageryError, match="too coarse"):
        index(tmp_path / "coarse.tif", tiny_bundle, tmp_path / "a")
    _coarse(tmp_path / "large.tif", 0.6, 4_000_000)
    told: list[Estimate] = []
    with pytest.raises(ImageryError, match=r"a lot of work: .* tiles on .* km², about .* h"):
        index(
            tmp_path / "large.tif", tiny_bundle, tmp_path / "b", announce=lambda name, estimate: told.append(estimate)
        )
    assert told[0].tiles > 1e8
    assert told[0].area_km2 > 1e6


def test_a_gallery_without_a_region_is_not_called_finished(tiny_bundle: Bundle, tmp_path: Path) -> None:
    small = write_noise(tmp_path / "small.tif", 160000, 200000, 3)
    with pytest.raises(GalleryError, match="covers less than one region"):
        index(small, tiny_bundle, tmp_path / "g")
    with pytest.raises(GalleryError, match="has no regions"):
        open_gallery(tmp_path / "g", tiny_bundle)
    parts = [write_noise(tmp_path / f"{k}.tif", 160000 + 4 * (k % 2), 200000 + 4 * (k // 2), 4, k) for k in range(4)]
    with pytest.raises(GalleryError, match="all of its files at once"):
        index(parts[0], tiny_bundle, tmp_path / "h")
    whole = index(parts, tiny_bundle, tmp_path / "h")
    assert len(whole.regions) > 0, "small files make regions together"
    held = next(whole.tile_blocks([(160000, 200000)])).valid[:15, :15]
    assert held.sum() == 15 * 15 - 1, "all but the tile that four files share in equal parts"


def test_a_gallery_has_one_writer(imagery: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    address = tmp_path / "g"

    def second(what: str, estimate: Estimate) -> None:
        with pytest.raises(UserError, match="Another process is writing"):
            index(imagery, tiny_bundle, address)

    index(imagery, tiny_bundle, address, announce=second)
    assert not list(address.glob(".*")), "the lock is gone"


def test_an_index_that_fails_at_once_leaves_no_folder(tiny_bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(ImageryError):
        index(tmp_path / "missing.tif", tiny_bundle, tmp_path / "g")
    assert not (tmp_path / "g").exists()


def test_reading_counts_in_the_estimate(
    imagery: Path, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Imagery of a centimetre without overviews takes longer to read than to encode."""
    monkeypatch.setattr(Imagery, "pixels_behind", lambda self, *words: 1e13)
    with pytest.raises(ImageryError, match=r"a lot of work.*--yes"):
        index(imagery, tiny_bundle, tmp_path / "g")
