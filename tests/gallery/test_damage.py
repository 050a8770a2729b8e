"""Damaged galleries: an error that names the way out, never another answer, and never a panic."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.command_line import x2l
from helpers.gallery_files import write_noise
from x2localizer.encoders import Bundle
from x2localizer.errors import GalleryError
from x2localizer.gallery import Gallery, index, open_gallery
from x2localizer.gallery.bench_open import bench_open
from x2localizer.gallery.checksums import FILE, Seal, read_seal
from x2localizer.gallery.verify import verify

KINDS = ("data", "_versions", "_indices", "_transactions")


@pytest.fixture(scope="module")
def whole(tiny_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    imagery = write_noise(folder / "a.tif", 160003, 200005, 11)
    index(imagery, tiny_bundle, folder / "g", codes=("tiles", "regions"))
    return folder / "g"


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "g")
    return tmp_path / "g"


def _read_all(gallery: Gallery) -> list[np.ndarray]:
    codes = [block.codes for block in gallery.tile_blocks()]
    pictures = [picture for _, picture in sorted(gallery.pictures(gallery.corners()).items())]
    return [gallery.regions.ids, *codes, *pictures, *(part.tokens for part in gallery.region_sets())]


def _flip(path: Path, count: int) -> None:
    data = bytearray(path.read_bytes())
    for place in np.random.default_rng(0).integers(0, len(data), count):
        data[place] ^= 0x55
    path.write_bytes(data)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and "hint" not in path.name)


@pytest.mark.parametrize("kind", [*KINDS, FILE])
@pytest.mark.parametrize("how", ["flip", "cut", "delete"])
def test_any_damaged_file_is_one_clear_error(kind: str, how: str, copy: Path) -> None:
    damaged = [path for path in _files(copy) if kind in path.parts]
    assert damaged
    for path in damaged:
        data = path.read_bytes()
        if how == "flip":
            _flip(path, 1)
        elif how == "cut":
            path.write_bytes(data[: len(data) // 2])
        else:
            path.unlink()
        if (kind, how) == (FILE, "delete"):
            _read_all(open_gallery(copy))
        else:
            with pytest.raises(GalleryError, match=r"is damaged: .*x2l gallery verify .*x2l index IMAGERY"):
                _read_all(open_gallery(copy))
            assert not verify(str(copy)).sound
        path.write_bytes(data)
    assert verify(str(copy)).sound


def test_flipped_bytes_no_longer_change_a_track(copy: Path) -> None:
    (path,) = (copy / "tiles.lance" / "data").iterdir()
    data = bytearray(path.read_bytes())
    for place in range(5000, 9000):  # where the codes are
        data[place] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(GalleryError, match=f"{path.name} does not match its checksum"):
        open_gallery(copy)
    assert _read_all(open_gallery(copy, verify="none")), "without checksums nothing would be noticed"


def test_only_what_is_used_is_checked_unless_all_is_asked_for(copy: Path) -> None:
    (path,) = (copy / "pictures.lance" / "data").iterdir()
    _flip(path, 10)
    gallery = open_gallery(copy)
    assert sum(1 for _ in gallery.tile_blocks())
    with pytest.raises(GalleryError, match=path.name):
        gallery.pictures(gallery.corners())
    with pytest.raises(GalleryError, match=path.name):
        open_gallery(copy, verify="full")


def test_rows_of_a_large_table_are_checked_when_all_are_read(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = (copy / "tiles.lance" / "data").iterdir()
    data = bytearray(path.read_bytes())
    data[len(data) // 4] ^= 1  # among the codes
    path.write_bytes(data)
    monkeypatch.setattr("x2localizer.gallery.checksums.SMALL_BYTES", 0)
    gallery = open_gallery(copy)
    with pytest.raises(GalleryError, match="checksum"):
        list(gallery.tile_blocks())


def test_a_gallery_from_before_checksums_opens_and_verify_says_so(copy: Path, whole: Path) -> None:
    (copy / FILE).unlink()
    for ours, theirs in zip(_read_all(open_gallery(copy)), _read_all(open_gallery(whole)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    found = verify(str(copy))
    assert found.sound
    assert found.unsealed == found.files > 10
    text = x2l("gallery", "verify", str(copy))
    assert "older version" in text


@pytest.mark.parametrize("seed", range(12))
def test_without_checksums_damage_is_still_never_an_unexpected_error(seed: int, copy: Path) -> None:
    (copy / FILE).unlink()
    rng = np.random.default_rng(seed)
    path = _files(copy)[rng.integers(len(_files(copy)))]
    data = path.read_bytes()
    path.write_bytes(rng.bytes(len(data)) if seed % 2 else data[: len(data) * 2 // 3])
    try:
        _read_all(open_gallery(copy))
    except GalleryError as problem:
        assert "is damaged" in problem.what
        assert not verify(str(copy)).sound


class PanicException(BaseException):
    """Stands in for a panic, which derives from BaseException and has no public name."""


def test_a_panic_of_the_database_is_a_clear_error(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gallery = open_gallery(copy)

    class Panics:
        def open_table(self, name: str) -> Any:
            raise PanicException("range end index 12 out of range")

    monkeypatch.setattr(gallery, "_db", Panics())
    with pytest.raises(GalleryError, match="range end index 12"):
        list(gallery.tile_blocks())
    with pytest.raises(GalleryError, match="Cannot write to the gallery"):
        gallery.save_manifest(gallery.manifest)


def test_a_build_that_is_killed_before_its_checksums_is_not_damaged(
    copy: Path, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = write_noise(tmp_path / "b.tif", 160014, 200005, 11, seed=1)
    before = read_seal(str(copy))
    monkeypatch.setattr(Gallery, "seal", lambda self: None)
    index(more, tiny_bundle, copy, codes=("tiles", "regions"))
    Gallery.optimize(open_gallery(copy), in_use=False)  # removes files that the old checksums name
    assert read_seal(str(copy)) == before
    _read_all(open_gallery(copy, verify="full"))
    assert verify(str(copy)).sound
    monkeypatch.undo()
    index(more, tiny_bundle, copy, codes=("tiles", "regions"))
    assert verify(str(copy)).unsealed == 0


def test_damage_is_not_made_official_by_the_next_build(copy: Path, tiny_bundle: Bundle) -> None:
    (path,) = (copy / "pictures.lance" / "data").iterdir()
    _flip(path, 10)
    open_gallery(copy).seal()
    assert not verify(str(copy)).sound


def test_a_seal_is_read_as_it_was_written(whole: Path) -> None:
    seal = read_seal(str(whole))
    assert seal is not None
    assert Seal.from_json(seal.to_json()) == seal
    text = seal.to_json().replace('"format": 1', '"format": 9')
    with pytest.raises(ValueError, match="checksums"):
        Seal.from_json(text)


@pytest.mark.parametrize(
    "name, value", [("zoom", 1e9), ("region_tiles", 0), ("stride", "3"), ("dim", -4), ("headings", 0)]
)
def test_a_manifest_with_absurd_numbers_is_refused(name: str, value: object, copy: Path) -> None:
    gallery = open_gallery(copy)
    text = json.dumps({**json.loads(gallery.manifest.to_json()), name: value})
    gallery._db.create_table("about", [{"text": text}], mode="overwrite")
    with pytest.raises(GalleryError, match="makes no sense"):
        open_gallery(copy)


def test_bounds_that_are_too_large_for_a_number_are_refused(copy: Path) -> None:
    gallery = open_gallery(copy)
    values = json.loads(gallery.manifest.to_json())
    values["sources"][0]["bounds"][0] = 10**400
    gallery._db.create_table("about", [{"text": json.dumps(values)}], mode="overwrite")
    with pytest.raises(GalleryError, match="makes no sense"):
        open_gallery(copy)


def test_the_command_lists_damage(copy: Path, tmp_path: Path) -> None:
    assert json.loads(x2l("gallery", "verify", str(copy), "--json"))["damage"] == []
    (path,) = (copy / "tiles.lance" / "data").iterdir()
    _flip(path, 1)
    text = x2l("gallery", "verify", str(copy), code=2)
    assert f"{path.name} does not match its checksum" in text
    assert "next:" in text
    assert "There is no gallery" in x2l("gallery", "verify", str(tmp_path / "no"), code=2)
    assert "--verify" in x2l("localize", "v.mp4", "--gallery", str(copy), "--verify", "some", code=2)


def test_the_bench_of_opening_gives_all_figures() -> None:
    values = bench_open(blocks=2, times=1)
    assert all(float(str(value)) > 0 for value in values.values())
    assert len(values) == 8


@pytest.mark.parametrize("tables", [("tiles",), ("tiles", "pictures", "regions", "about")])
def test_a_build_that_was_killed_before_its_first_row_starts_over(
    tables: tuple[str, ...], tiny_bundle: Bundle, tmp_path: Path
) -> None:
    """LanceDB makes the folder of a table before its first version."""
    for name in tables:
        (tmp_path / "g" / f"{name}.lance" / "data").mkdir(parents=True)
    with pytest.raises(GalleryError, match="There is no gallery"):
        open_gallery(tmp_path / "g")
    imagery = write_noise(tmp_path / "a.tif", 160003, 200005, 11)
    index(imagery, tiny_bundle, tmp_path / "g")
    assert verify(str(tmp_path / "g")).sound
    assert len(open_gallery(tmp_path / "g").regions) > 0


def test_a_gallery_that_lost_its_manifest_is_not_taken_for_none(copy: Path, tiny_bundle: Bundle) -> None:
    shutil.rmtree(copy / "about.lance" / "_versions")
    with pytest.raises(GalleryError, match="is damaged"):
        open_gallery(copy)
    imagery = write_noise(copy.parent / "a.tif", 160003, 200005, 11)
    with pytest.raises(GalleryError, match="is damaged"):
        index(imagery, tiny_bundle, copy)
