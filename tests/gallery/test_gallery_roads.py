"""Roads in a gallery: what comes back, near a place, replaced, interrupted, and without imagery."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.command_line import x2l
from helpers.gallery_files import write_noise
from helpers.road_files import Way, write_osm
from x2localizer import geo
from x2localizer.encoders import Bundle
from x2localizer.errors import GalleryError, RoadError
from x2localizer.gallery import Gallery, index, index_roads, open_gallery
from x2localizer.gallery.manifest import GalleryManifest
from x2localizer.gallery.roads import from_rows, to_rows
from x2localizer.gallery.tiles import TileReader
from x2localizer.localize import Localizer
from x2localizer.search import Searcher
from x2localizer.show.gallery_map import areas_apart, draw_gallery, gallery_picture, roads_picture
from x2localizer.sources.roads import Roads, read_roads
from x2localizer.types import Region

KINDS = ("residential", "primary", "track")


def _ways(count: int, seed: int = 0, lat: float = 48.0, lon: float = 11.0) -> list[Way]:
    """Random walks of some km, many of them through several blocks."""
    rng = np.random.default_rng(seed)
    ways: list[Way] = []
    for i in range(count):
        steps = rng.normal(0, 0.002, (int(rng.integers(2, 40)), 2))
        walk = np.round(np.cumsum(steps, 0) + np.array([lat, lon]) + rng.uniform(0, 0.05, 2), 7)
        walk[:, 1] = np.round((walk[:, 1] + 180.0) % 360.0 - 180.0, 7)
        points = [(float(a), float(b)) for a, b in walk]
        ways.append((points, {"highway": KINDS[i % 3], **({"oneway": "yes"} if i % 4 == 0 else {})}))
    return ways


def _same(a: Roads, b: Roads) -> None:
    for name in ("points_deg", "starts", "kinds", "oneway"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)


@pytest.fixture(scope="module")
def roads_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_osm(tmp_path_factory.mktemp("roads") / "a.osm", _ways(60))


@pytest.fixture(scope="module")
def gallery(roads_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    return index_roads(roads_file, tmp_path_factory.mktemp("gallery") / "g")


def test_the_same_roads_come_back(gallery: Gallery, roads_file: Path) -> None:
    _same(open_gallery(gallery.address).roads(), read_roads(roads_file))
    (source,) = gallery.manifest.roads
    roads = read_roads(roads_file)
    assert source.roads == len(roads)
    assert source.lengths_m == pytest.approx(tuple(roads.lengths_by_kind_m().values()))
    assert source.bounds == pytest.approx(roads.bounds)


@pytest.mark.parametrize("lon", [11.0, 179.99])
def test_the_roads_near_a_place_are_all_there_and_few_others(lon: float, tmp_path: Path) -> None:
    write_osm(tmp_path / "a.osm", _ways(80, seed=3, lon=lon))
    gallery = index_roads(tmp_path / "a.osm", tmp_path / "g")
    whole = read_roads(tmp_path / "a.osm")
    last = whole.starts[1:] - 1
    begins = np.delete(np.arange(len(whole.points_deg)), last)
    segments = {tuple(np.ravel(whole.points_deg[[i, i + 1]])) for i in begins}
    for _ in range(2):
        for west, south in ((lon + 0.01, 48.02), (lon + 0.03, 48.04), (lon - 0.02, 48.0)):
            bounds = (west, south, west + 0.003, south + 0.003)
            near = gallery.roads(bounds)
            begin = np.delete(np.arange(len(near.points_deg)), near.starts[1:] - 1)
            got = {tuple(np.ravel(near.points_deg[[i, i + 1]])) for i in begin}
            assert got <= segments
            assert len(got) == len(begin), "no segment twice"
            assert {segment for segment in segments if _touches(segment, bounds)} <= got
            assert len(got) < len(segments) / 2
    here = gallery.roads((lon - 1.0 - 360.0, 40.0, lon + 1.0 - 360.0, 50.0))
    _same(here, whole)
    assert len(gallery.roads((lon - 90.0, 40.0, lon - 80.0, 50.0))) == 0
    with pytest.raises(ValueError, match="bounds are west"):
        gallery.roads((11.0, 49.0, 12.0, 48.0))


def _touches(segment: tuple[float, ...], bounds: tuple[float, float, float, float]) -> bool:
    """Whether a segment has an end in an area."""
    west, south, east, north = bounds
    ends = ((segment[0], segment[1]), (segment[2], segment[3]))
    return any(south <= lat <= north and (lon - west) % 360.0 <= east - west for lat, lon in ends)


def test_a_long_segment_is_found_from_every_place_along_it(tmp_path: Path) -> None:
    write_osm(tmp_path / "a.osm", [([(48.0, 11.0), (48.0, 11.2)], {"highway": "primary"})])
    gallery = index_roads(tmp_path / "a.osm", tmp_path / "g")
    assert len(gallery.roads((11.1, 47.999, 11.101, 48.001))) == 1


def test_rows_are_pieces_by_block(roads_file: Path) -> None:
    roads = read_roads(roads_file)
    rows = to_rows(roads, 4, first_number=100)
    assert rows.num_rows == len(set(rows["id"].to_pylist())) > 20
    assert set(rows["source"].to_pylist()) == {4}
    for row in rows.to_pylist():
        points = np.frombuffer(row["points"], "<f8").reshape(-1, 2)
        sizes = np.frombuffer(row["sizes"], "<i4")
        begin = np.concatenate(
            [np.arange(size - 1) + at for at, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True)]
        )
        x, y = geo.tile_coordinates(points[begin, 0], points[begin, 1], 16)
        assert {(int(b) << 16) + int(a) for a, b in zip(x, y, strict=True)} == {row["id"]}
        assert row["south"] <= points[:, 0].min() <= points[:, 0].max() <= row["north"]
    shuffled = rows.take(np.random.default_rng(0).permutation(rows.num_rows))
    _same(from_rows(shuffled), roads)


def test_a_changed_file_replaces_its_older_version(tmp_path: Path) -> None:
    file, address = tmp_path / "a.osm", tmp_path / "g"
    write_osm(file, _ways(20))
    other = write_osm(tmp_path / "b.osm", _ways(7, seed=8))
    before = index_roads([file, other], address)
    assert len(before.roads()) == 27
    copy = tmp_path / "copy.osm"
    copy.write_bytes(file.read_bytes())
    assert len(index_roads([file, copy], address).manifest.roads) == 2, "the same content is in only once"
    write_osm(file, _ways(5, seed=9))
    after = index_roads(file, address)
    assert [source.path for source in after.manifest.roads] == [str(other), str(file)]
    _same(after.roads(), Roads.join([read_roads(other), read_roads(file)]))
    assert len(before.roads()) == 27, "who reads the old version can go on"
    again = index_roads(file, address, replace=True)
    _same(again.roads(), after.roads())


class KilledError(Exception):
    """Stands in for a kill."""


def test_a_killed_run_leaves_the_gallery_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = write_osm(tmp_path / "a.osm", _ways(9)), write_osm(tmp_path / "b.osm", _ways(40, seed=1))
    plain = Gallery.add_road_rows
    monkeypatch.setattr("x2localizer.gallery.build_roads.road_batches", lambda file, own_process: iter(
        [read_roads(file).take(np.arange(5)), read_roads(file).take(np.arange(5, 9))]
    ))  # fmt: skip

    def killed(self: Gallery, rows: object) -> None:
        plain(self, rows)
        raise KilledError

    monkeypatch.setattr(Gallery, "add_road_rows", killed)
    with pytest.raises(KilledError):
        index_roads(first, tmp_path / "g")
    with pytest.raises(GalleryError, match="half built"):
        open_gallery(tmp_path / "g")
    monkeypatch.setattr(Gallery, "add_road_rows", plain)
    index_roads(first, tmp_path / "g")
    monkeypatch.setattr(Gallery, "add_road_rows", killed)
    with pytest.raises(KilledError):
        index_roads(second, tmp_path / "g")
    _same(open_gallery(tmp_path / "g").roads(), read_roads(first))
    monkeypatch.undo()
    done = index_roads(second, tmp_path / "g")
    _same(done.roads(), Roads.join([read_roads(first), read_roads(second)]))


def test_what_needs_tiles_refuses_a_gallery_of_roads_alone(gallery: Gallery, tiny_bundle: Bundle) -> None:
    opened = open_gallery(gallery.address, tiny_bundle)
    assert not opened.has_tiles
    assert len(opened.regions) == 0
    assert list(opened.tile_blocks()) == []
    assert not TileReader(opened).grid([Region(19, 1000, 1000)]).valid.any()
    for use in (
        lambda: Localizer(opened, tiny_bundle),
        lambda: Searcher.over(opened),
        lambda: Searcher.over(opened, "s_mix"),
    ):
        with pytest.raises(GalleryError, match="This gallery has roads only"):
            use()


def test_imagery_and_roads_in_any_order(tiny_bundle: Bundle, roads_file: Path, tmp_path: Path) -> None:
    imagery = write_noise(tmp_path / "a.tif", 160003, 200005, 11)
    bare = index(imagery, tiny_bundle, tmp_path / "bare")
    assert len(bare.roads()) == 0
    assert "roads" not in json.loads(bare.manifest.to_json()), "older versions read it"
    assert GalleryManifest.from_json(bare.manifest.to_json()) == bare.manifest
    together = index(imagery, tiny_bundle, tmp_path / "together", roads=[roads_file])
    index_roads(roads_file, tmp_path / "before")
    before = index(imagery, tiny_bundle, tmp_path / "before", stride=2)
    assert before.manifest.stride == 2
    index(imagery, tiny_bundle, tmp_path / "after")
    index_roads(roads_file, tmp_path / "after")
    after = open_gallery(tmp_path / "after", tiny_bundle)
    for made in (together, before, after):
        assert made.has_tiles
        _same(made.roads(), read_roads(roads_file))
        assert GalleryManifest.from_json(made.manifest.to_json()) == made.manifest
    np.testing.assert_array_equal(after.regions.ids, bare.regions.ids)


def test_a_bad_file_makes_no_gallery(tmp_path: Path) -> None:
    (tmp_path / "junk.osm").write_text("hello")
    for name in ("junk.osm", "none.osm"):
        with pytest.raises(RoadError):
            index_roads(tmp_path / name, tmp_path / "g")
        with pytest.raises(GalleryError, match="no gallery"):
            open_gallery(tmp_path / "g")


def test_areas_that_lie_apart_are_drawn_beside_each_other(tiny_bundle: Bundle, tmp_path: Path) -> None:
    for x, side in ((160003, 11), (200003, 9)):  # 3,000 km apart: one map of both would be all paper
        index(write_noise(tmp_path / f"{x}.tif", x, 200005, side), tiny_bundle, tmp_path / "g")
    gallery = open_gallery(tmp_path / "g")
    drawn = gallery_picture(gallery)
    assert max(drawn.shape) < 2000
    assert (drawn.std(-1) > 20).mean() > 0.3, "imagery fills the sheet, not paper"


def test_areas_are_cells_that_touch() -> None:
    world = 1 << 19
    x = np.array([0, 70, 130, 1000, 1001, world - 1])
    y = np.array([640, 640, 700, 640, 641, 640])
    assert [rows.tolist() for rows in areas_apart(x, y, 19)] == [[0, 1, 2, 5], [3, 4]], "also across the antimeridian"
    assert [rows.tolist() for rows in areas_apart(x[:1], y[:1], 19)] == [[0]]


def test_roads_are_drawn_where_they_are(tiny_bundle: Bundle, tmp_path: Path) -> None:
    imagery = write_noise(tmp_path / "a.tif", 160003, 200005, 11)
    west, north = (float(v) for v in geo.from_tile_coordinates(160005.0, 200008.5, 19)[::-1])
    east = float(geo.from_tile_coordinates(160012.0, 200008.5, 19)[1])
    file = write_osm(tmp_path / "a.osm", [([(north, west), (north, east)], {"highway": "primary"})])
    plain = index(imagery, tiny_bundle, tmp_path / "g")
    around = [plain.regions.region(row) for row in range(len(plain.regions))]
    before = draw_gallery(plain, around)
    with_roads = index_roads(file, tmp_path / "g")
    drawn = draw_gallery(with_roads, around)
    changed = np.argwhere((drawn.image != before.image).any(-1))
    (x0, y), (x1, _) = drawn.pixels(np.array([[north, west], [north, east]]))
    assert np.abs(changed[:, 0] - y).max() < 5
    assert abs(changed[:, 1].min() - x0) < 5
    assert abs(changed[:, 1].max() - x1) < 5
    bounds = drawn.bounds
    assert bounds[0] < west < east < bounds[2]
    assert bounds[1] < north < bounds[3]
    np.testing.assert_array_equal(gallery_picture(with_roads), drawn.image)
    alone = roads_picture(read_roads(file))
    assert (alone != 225).any()
    assert roads_picture(Roads.join([])).shape == (64, 64, 3)
    across = write_osm(tmp_path / "b.osm", [([(10.0, 179.99), (10.01, -179.99)], {"highway": "primary"})])
    assert 400 < roads_picture(read_roads(across)).shape[1] <= 1401


def test_on_the_command_line(roads_file: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "g")
    text = x2l("index", "--roads", str(roads_file), "--out", out)
    assert "this gallery has roads only" in text
    assert "km: main roads" in text
    values = json.loads(x2l("index", "--info", "--out", out, "--json"))
    assert values["roads 1"].startswith(str(roads_file))
    assert "main roads" in x2l("inspect", out, "--picture", str(tmp_path / "g.png"))
    assert (tmp_path / "g.png").is_file()
    text = x2l("inspect", str(roads_file), "--picture", str(tmp_path / "r.png"))
    assert "service roads and tracks" in text
    assert (tmp_path / "r.png").is_file()
