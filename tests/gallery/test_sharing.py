"""Galleries that are exported, imported, merged and cut; and files that are truncated or tampered with."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from helpers.command_line import x2l
from helpers.gallery_files import write_noise, write_streets
from helpers.same_gallery import assert_same, rows
from x2localizer import geo
from x2localizer.encoders import Bundle
from x2localizer.errors import ConfigError, GalleryError, UserError
from x2localizer.files import only_writer
from x2localizer.gallery import Gallery, index, index_roads, open_gallery
from x2localizer.gallery.columns import from_byte_columns, to_byte_columns
from x2localizer.gallery.cut import cut
from x2localizer.gallery.merge import merge
from x2localizer.gallery.share import describe_file, export, unpack
from x2localizer.gallery.verify import verify
from x2localizer.similarity import CodeKind

BOTH: tuple[CodeKind, ...] = ("tiles", "regions")
WEST, NORTH = 160003, 200005
"""The north-west tile of the imagery."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Imagery that overlaps: the second begins inside the first."""
    folder = tmp_path_factory.mktemp("imagery")
    return write_noise(folder / "a.tif", WEST, NORTH, 21), write_noise(folder / "b.tif", WEST + 14, NORTH + 6, 21, 1)


@pytest.fixture(scope="module")
def first(files: tuple[Path, Path], tiny_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    """A gallery with set codes and roads."""
    folder = tmp_path_factory.mktemp("first")
    roads = write_streets(folder / "roads.geojson", -70.136, -70.12, 39.18, 39.196)
    return index(files[0], tiny_bundle, folder / "g", codes=BOTH, roads=[roads])


@pytest.fixture(scope="module")
def plain(files: tuple[Path, Path], tiny_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> list[Gallery]:
    """A gallery of each piece of imagery, with codes of tiles."""
    folder = tmp_path_factory.mktemp("plain")
    return [index(file, tiny_bundle, folder / file.stem) for file in files]


@pytest.fixture
def exported(first: Gallery, tmp_path: Path) -> Path:
    export(first.address, tmp_path / "city.x2g")
    return tmp_path / "city.x2g"


def test_an_exported_gallery_opens_elsewhere_and_is_the_same(
    first: Gallery, exported: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    opened = open_gallery(exported, tiny_bundle)
    assert opened.address == str(exported)
    assert_same(first, opened)
    np.testing.assert_array_equal(first.roads().points_deg, opened.roads().points_deg)
    assert_same(first, unpack(exported, str(tmp_path / "g")))
    assert opened.manifest.sources[0].imagery == "a.tif", "no folders of this machine"
    export(str(tmp_path / "g"), tmp_path / "again.x2g")
    assert (tmp_path / "again.x2g").read_bytes() == exported.read_bytes()


def test_what_lies_beside_the_tables_is_left_behind(first: Gallery, exported: Path) -> None:
    with zipfile.ZipFile(exported) as file:
        assert {name.partition(".")[0] for name in file.namelist()} == {
            "gallery",
            "tiles",
            "pictures",
            "regions",
            "roads",
        }
    assert describe_file(exported).manifest.codes == first.manifest.codes


def test_a_gallery_of_roads_alone_is_shared_too(tmp_path: Path) -> None:
    roads = write_streets(tmp_path / "roads.geojson", -70.136, -70.12, 39.18, 39.196)
    plain = index_roads(roads, tmp_path / "r")
    export(str(tmp_path / "r"), tmp_path / "r.x2g")
    np.testing.assert_array_equal(
        unpack(tmp_path / "r.x2g", str(tmp_path / "s")).roads().points_deg, plain.roads().points_deg
    )


@pytest.mark.parametrize("keep", [0, 10, 1000, 0.5, 0.999])
def test_a_truncated_file_is_refused(exported: Path, keep: float, tmp_path: Path) -> None:
    data = exported.read_bytes()
    exported.write_bytes(data[: int(keep if keep > 1 else keep * len(data))])
    with pytest.raises(GalleryError, match="is damaged: it is truncated"):
        unpack(exported, str(tmp_path / "g"))
    assert not (tmp_path / "g").exists()


def test_every_changed_byte_of_the_tables_is_found(exported: Path, tmp_path: Path) -> None:
    data = bytearray(exported.read_bytes())
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(exported) as file:
        end = max(member.header_offset for member in file.infolist() if member.filename != "gallery.json")
    for place in rng.integers(60, end, 8):
        changed = bytearray(data)
        changed[place] ^= 1 << int(rng.integers(8))
        exported.write_bytes(changed)
        with pytest.raises(GalleryError, match="damaged"):
            unpack(exported, str(tmp_path / "g"))


def rewrite(path: Path, change: Callable[[dict[str, bytes]], None], compression: int = zipfile.ZIP_STORED) -> None:
    """Write a file again with other members, as somebody may who knows the format."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in members.items():
            file.writestr(name, data)


def _about(members: dict[str, bytes], **values: object) -> None:
    members["gallery.json"] = json.dumps({**json.loads(members["gallery.json"]), **values}).encode()


def _escape(members: dict[str, bytes]) -> None:
    members["../outside.txt"] = b"here"


def _other_format(members: dict[str, bytes]) -> None:
    _about(members, format=7)


def _other_gallery_format(members: dict[str, bytes]) -> None:
    _about(members, manifest={"format": 1})


def _other_columns(members: dict[str, bytes]) -> None:
    import hashlib

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("id", pa.int64())])) as stream:
        stream.write_table(pa.table({"id": [1]}))
    members["tiles.arrow"] = data = sink.getvalue().to_pybytes()
    tables = json.loads(members["gallery.json"])["tables"]
    _about(members, tables={**tables, "tiles": [1, len(data), hashlib.sha256(data).hexdigest()]})


def _no_sense(members: dict[str, bytes]) -> None:
    members["gallery.json"] = b"[" * 100_000


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_escape, "other tables than it says"), (_other_format, "has format 7"),
        (_other_gallery_format, "gallery of format 1"), (_other_columns, "its tiles have other columns"),
        (_no_sense, "makes no sense"), (dict.clear, "no proper gallery.json"),
    ],
)  # fmt: skip
def test_a_crafted_file_is_refused_and_writes_nothing_elsewhere(
    exported: Path, tmp_path: Path, change: Callable[[dict[str, bytes]], None], words: str
) -> None:
    rewrite(exported, change)
    with pytest.raises(GalleryError, match=words):
        unpack(exported, str(tmp_path / "inner" / "g"))
    assert not (tmp_path / "outside.txt").exists()
    assert not (tmp_path / "inner" / "outside.txt").exists()


def test_compressed_members_are_refused(exported: Path, tmp_path: Path) -> None:
    rewrite(exported, lambda members: None, zipfile.ZIP_DEFLATED)
    with pytest.raises(GalleryError, match="compressed"):
        unpack(exported, str(tmp_path / "g"))


def test_an_import_that_was_killed_is_half_built_and_starts_over(
    first: Gallery, exported: Path, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: Gallery, name: str, rows: pa.Table) -> None:
        if name == "regions":
            raise KeyboardInterrupt
        plain(self, name, rows)

    plain = Gallery.add_rows
    monkeypatch.setattr(Gallery, "add_rows", stop)
    with pytest.raises(KeyboardInterrupt):
        unpack(exported, str(tmp_path / "g"))
    monkeypatch.undo()
    with pytest.raises(GalleryError, match="half built"):
        open_gallery(tmp_path / "g", tiny_bundle)
    assert_same(first, unpack(exported, str(tmp_path / "g")))
    with pytest.raises(GalleryError, match=r"gallery at .* already"):
        unpack(exported, str(tmp_path / "g"))


def test_merging_is_adding_the_imagery_of_the_second(
    plain: list[Gallery], files: tuple[Path, Path], tiny_bundle: Bundle, tmp_path: Path
) -> None:
    merged = merge(plain[0].address, plain[1].address, str(tmp_path / "merged"))
    added = index(list(files), tiny_bundle, tmp_path / "added")
    assert merged.manifest == added.manifest
    one, other = (rows(gallery, "tiles").sort_by("id") for gallery in (merged, added))
    for column in ("id", "x", "y", "codes", "valid"):
        assert one[column].equals(other[column]), column
    np.testing.assert_array_equal(merged.regions.ids, added.regions.ids)
    assert len(merged.regions) > max(len(gallery.regions) for gallery in plain)
    for corner in merged.corners():  # pictures were compressed twice where both have some
        difference = np.abs(merged.pictures([corner])[corner].astype(int) - added.pictures([corner])[corner])
        assert difference.mean() < 6


def test_a_gallery_merged_with_itself_is_the_same(first: Gallery, tmp_path: Path) -> None:
    merged = merge(first.address, first.address, str(tmp_path / "g"))
    assert merged.manifest == first.manifest
    assert_same(first, merged)


def test_roads_of_both_are_merged_once(first: Gallery, tmp_path: Path) -> None:
    index_roads(write_streets(tmp_path / "more.geojson", -70.11, -70.10, 39.18, 39.19), tmp_path / "roads")
    merged = merge(first.address, str(tmp_path / "roads"), str(tmp_path / "g"))
    assert len(merged.roads()) == 4
    assert len(merged.manifest.roads) == 2
    again = merge(str(tmp_path / "g"), first.address, str(tmp_path / "h"))
    assert len(again.roads()) == 4


def test_galleries_of_another_bundle_or_kind_are_not_merged(
    first: Gallery, plain: list[Gallery], files: tuple[Path, Path], tiny_bundle: Bundle, tmp_path: Path
) -> None:
    other = Bundle(tiny_bundle.root, tiny_bundle.model, {}, "0123456789abcdef")
    index(files[1], other, tmp_path / "other")
    with pytest.raises(GalleryError, match=r"has bundle .* 0123456789abcdef"):
        merge(plain[0].address, str(tmp_path / "other"), str(tmp_path / "g"))
    index(files[1], tiny_bundle, tmp_path / "stride", stride=2)
    with pytest.raises(GalleryError, match=r"has stride 3, .* 2\."):
        merge(plain[0].address, str(tmp_path / "stride"), str(tmp_path / "g"))
    with pytest.raises(GalleryError, match=r"has codes tiles,regions, .* tiles\."):
        merge(first.address, plain[0].address, str(tmp_path / "g"))
    assert not (tmp_path / "g").exists()


def test_set_codes_that_neither_has_are_not_made_up(first: Gallery, tiny_bundle: Bundle, tmp_path: Path) -> None:
    for name, east, south in (("far", 200, 0), ("beside", 21, 11)):
        imagery = write_noise(tmp_path / f"{name}.tif", WEST + east, NORTH + south, 11, 1)
        index(imagery, tiny_bundle, tmp_path / name, codes=BOTH)
    apart = merge(first.address, str(tmp_path / "far"), str(tmp_path / "apart"))
    assert len(apart.ids("regions")) == len(apart.regions) > len(first.regions)
    with pytest.raises(GalleryError, match=r"on the seam.*x2l index IMAGERY --codes tiles,regions"):
        merge(first.address, str(tmp_path / "beside"), str(tmp_path / "g"))
    assert not (tmp_path / "g").exists()


def _box(west: int, north: int, east: int, south: int) -> tuple[float, float, float, float]:
    """A box from tiles of zoom 19."""
    (top, bottom), (left, right) = geo.from_tile_coordinates(np.array([west, east]), np.array([north, south]), 19)
    return float(left), float(bottom), float(right), float(top)


def test_a_cut_keeps_the_blocks_that_touch_a_box(first: Gallery, tmp_path: Path) -> None:
    box = _box(160010, 200010, 160015, 200023)  # blocks begin at multiples of 8
    part = cut(first.address, box, str(tmp_path / "g"))
    assert sorted(part.corners()) == [(160008, 200008), (160008, 200016)]
    whole = {(block.x, block.y): block for block in first.tile_blocks()}
    for block in part.tile_blocks():
        np.testing.assert_array_equal(block.codes, whole[block.x, block.y].codes)
    assert set(part.regions.ids.tolist()) < set(first.regions.ids.tolist())
    assert part.ids("regions") == set(part.regions.ids.tolist())
    assert 0 < len(part.roads()) <= len(first.roads())
    bounds = part.manifest.sources[0].bounds
    assert box[0] <= bounds[0] < bounds[2] <= box[2]
    everything = cut(first.address, (-180.0, -80.0, 180.0, 80.0), str(tmp_path / "all"))
    assert_same(first, everything)


def test_the_imagery_can_be_added_to_a_cut_again(
    plain: list[Gallery], files: tuple[Path, Path], tiny_bundle: Bundle, tmp_path: Path
) -> None:
    cut(plain[0].address, _box(160010, 200010, 160015, 200023), str(tmp_path / "g"))
    full = index(files[0], tiny_bundle, tmp_path / "g")
    assert_same(plain[0], full, without=["source", "picture"])


@pytest.mark.parametrize(
    ("box", "words"),
    [((1.0, 2.0, 3.0, 4.0), "nothing in this box"), ((1.0, 5.0, 3.0, 4.0), "not a box"),
     ((float("nan"), 1.0, 2.0, 3.0), "not a box"), ((-200.0, 1.0, 2.0, 3.0), "not a box")],
)  # fmt: skip
def test_boxes_that_make_no_sense(
    first: Gallery, tmp_path: Path, box: tuple[float, float, float, float], words: str
) -> None:
    with pytest.raises((GalleryError, ConfigError), match=words):
        cut(first.address, box, str(tmp_path / "g"))


def test_codes_in_eight_bits_stay_the_same_when_they_are_packed_again() -> None:
    codes = np.random.default_rng(0).normal(0, 0.2, (3, 64, 16)).astype(np.float32)
    packed = {name: pa.chunked_array([column]) for name, column in to_byte_columns(codes).items()}
    again = to_byte_columns(from_byte_columns(packed["codes"], packed["steps"]))
    for name, column in packed.items():
        assert column.combine_chunks().equals(again[name]), name


def test_a_gallery_of_another_version_is_not_shared(plain: list[Gallery], tmp_path: Path) -> None:
    old = merge(plain[0].address, plain[0].address, str(tmp_path / "old"))
    old.save_manifest(replace(old.manifest, format=1))
    for run in (
        lambda: export(str(tmp_path / "old"), tmp_path / "a.x2g"),
        lambda: merge(str(tmp_path / "old"), plain[0].address, str(tmp_path / "g")),
    ):
        with pytest.raises(GalleryError, match="has format 1, this version reads 2"):
            run()


def test_the_commands(plain: list[Gallery], tmp_path: Path) -> None:
    city = tmp_path / "city.x2g"
    assert "SHA-256" in x2l("gallery", "export", plain[0].address, str(city))
    assert "complete" in x2l("gallery", "import", str(city), "--out", str(tmp_path / "g"))
    assert "b.tif (complete)" in x2l("gallery", "merge", str(city), plain[1].address, "--out", str(tmp_path / "m"))
    box = ",".join(str(degrees) for degrees in _box(160010, 200010, 160015, 200023))
    made = json.loads(x2l("gallery", "cut", str(tmp_path / "m"), "--box", box, "--out", str(tmp_path / "c"), "--json"))
    assert made["blocks of 8 x 8 tiles"] == 2
    assert "not a box" in x2l("gallery", "cut", str(city), "--box", "1,2,x", "--out", str(tmp_path / "d"), code=2)
    assert "end in .x2g" in x2l("gallery", "export", plain[0].address, str(tmp_path / "city.zip"), code=2)
    assert "no gallery file" in x2l("gallery", "import", str(tmp_path / "no.x2g"), "--out", str(tmp_path / "e"), code=2)


def test_a_gallery_that_is_being_made_has_one_writer(exported: Path, tmp_path: Path) -> None:
    with only_writer(tmp_path / "g"), pytest.raises(UserError, match="Another process is writing"):
        unpack(exported, str(tmp_path / "g"))
    unpack(exported, str(tmp_path / "g"))


def test_a_file_is_verified_without_importing_it(exported: Path, tmp_path: Path) -> None:
    assert verify(str(exported)).sound
    broken = tmp_path / "broken.x2g"
    data = bytearray(exported.read_bytes())
    data[len(data) // 2] ^= 1
    broken.write_bytes(data)
    found = verify(str(broken))
    assert not found.sound
    assert "is damaged" in found.problems[0]
