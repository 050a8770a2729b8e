"""Galleries that are read from their file: the same rows as in LanceDB, without loading it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from helpers.command_line import x2l
from helpers.gallery_files import write_noise, write_streets
from helpers.same_gallery import assert_same
from x2localizer.encoders import Bundle
from x2localizer.errors import GalleryError
from x2localizer.gallery import Gallery, index, open_gallery
from x2localizer.gallery.share import export
from x2localizer.gallery.where import ALL, Where

WEST, NORTH = 160003, 200005
BOX = (-70.1355, 39.187, -70.135, 39.189)


@pytest.fixture(scope="module")
def city(tiny_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    folder = tmp_path_factory.mktemp("city")
    imagery = write_noise(folder / "a.tif", WEST, NORTH, 21)
    roads = write_streets(folder / "roads.geojson", -70.136, -70.12, 39.18, 39.196)
    return index(imagery, tiny_bundle, folder / "g", codes=("tiles", "regions"), roads=[roads])


@pytest.fixture(scope="module")
def file(city: Gallery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("file") / "city.x2g"
    export(city.address, path)
    return path


def ids(gallery: Gallery, name: str, where: Where) -> list[int]:
    return sorted(i for rows in gallery.rows(name, where) for i in rows["id"].to_pylist())


def test_a_file_has_the_rows_of_the_gallery(city: Gallery, file: Path) -> None:
    opened = open_gallery(file)
    assert_same(city, opened)
    assert opened.corners() == city.corners()
    assert opened.block_sources() == city.block_sources()
    assert opened.sources_of(city.corners()[:2]) == city.sources_of(city.corners()[:2])
    np.testing.assert_array_equal(opened.roads().points_deg, city.roads().points_deg)
    for corner, picture in city.pictures(city.corners()[1:3]).items():
        np.testing.assert_array_equal(opened.pictures([corner])[corner], picture)
    wanted = city.regions.ids[[3, 1]]
    (one,), (other,) = list(opened.region_sets(wanted)), list(city.region_sets(wanted))
    np.testing.assert_array_equal(one.whole, other.whole)


def test_conditions_hold_for_the_same_rows_as_in_the_database(city: Gallery, file: Path) -> None:
    opened, places = open_gallery(file), sorted(city.ids("tiles"))
    for where in (
        ALL,
        Where.at(places[2:5]),
        Where(between=(places[1], places[4])),
        Where(sources=(0,)),
        Where.at([1]),
    ):
        assert ids(opened, "tiles", where) == ids(city, "tiles", where)
    assert len(ids(city, "tiles", Where.at(places[2:5]))) == 3
    for turn in (0.0, 360.0, -360.0):
        box = (BOX[0] + turn, BOX[1], BOX[2] + turn, BOX[3])
        some = ids(city, "roads", Where(within=box))
        assert 0 < len(some) < len(ids(city, "roads", ALL))
        assert ids(opened, "roads", Where(within=box)) == some


@pytest.mark.parametrize("box", [(0.0, 2.0, 1.0, 1.0), (float("nan"), 0.0, 1.0, 1.0)])
def test_bounds_that_are_none_are_refused(box: tuple[float, float, float, float]) -> None:
    with pytest.raises(ValueError, match="bounds are"):
        Where(within=box)


def test_a_column_of_no_rows_has_its_type(city: Gallery, file: Path) -> None:
    opened = open_gallery(file)
    assert opened._read("tiles", ["x"], Where.at([1])).schema == pa.schema([("x", pa.int32())])
    assert opened.pictures([(0, 0)]) == {}


def test_tables_are_compared_with_their_checksums_when_they_are_read(file: Path, tmp_path: Path) -> None:
    data = bytearray(file.read_bytes())
    at = data.index(b"roads.arrow") - 1000  # in what comes before the roads
    data[at] ^= 1
    broken = tmp_path / "broken.x2g"
    broken.write_bytes(data)
    opened = open_gallery(broken, verify="none")
    assert len(opened.roads())
    with pytest.raises(GalleryError, match="damaged"):
        open_gallery(broken, verify="full")


def test_a_file_that_is_gone_or_cut_short_is_an_error(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "city.x2g"
    copy.write_bytes(file.read_bytes())
    opened = open_gallery(copy)
    copy.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(GalleryError, match="damaged"):
        list(opened.tile_blocks())
    copy.unlink()
    with pytest.raises(GalleryError, match="no gallery file"):
        opened.roads()


def test_a_file_is_described_and_not_written_to(file: Path, tmp_path: Path) -> None:
    assert "blocks of 8 x 8 tiles" in x2l("index", "--info", "--out", str(file))
    imagery = write_noise(tmp_path / "b.tif", WEST, NORTH, 21)
    before = file.read_bytes()
    assert "x2l gallery import" in x2l("index", str(imagery), "--out", str(file), code=2)
    assert file.read_bytes() == before


def test_a_file_is_tracked_on_without_the_database(file: Path) -> None:
    code = (
        "import sys; from x2localizer.gallery import open_gallery; from x2localizer.localize.track.track_map import"
        " TrackMap; m = TrackMap.of(open_gallery(sys.argv[1])); assert m.roads and m.tiles;"
        " assert 'lancedb' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
