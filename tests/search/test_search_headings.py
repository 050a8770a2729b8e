"""Tiles that have a code for each heading: fast search against plain, stored in 8 bits, compared by the tracker."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from helpers.gallery_files import PX, write_noise
from x2localizer.config import BackboneSettings, LocalizeSettings, ModelSettings
from x2localizer.encoders import Bundle
from x2localizer.encoders.protocol import Capabilities
from x2localizer.gallery import Gallery, index, open_gallery
from x2localizer.gallery.tiles import TileReader
from x2localizer.localize import Localizer
from x2localizer.localize.track.fields import TileField, patches_of
from x2localizer.search import Searcher, build_index
from x2localizer.similarity import Query
from x2localizer.sources.imagery import open_imagery
from x2localizer.sources.roads import Roads
from x2localizer.types import Codes, Frame, Region

H, D = 8, 32
MODEL = ModelSettings(
    backbone=BackboneSettings(width=24, depth=2, heads=2, patch=16), frame_height=PX, frame_width=PX, tile_px=PX, dim=D
)
MIX = np.random.default_rng(3).normal(0, 1, (PX // 4 * (PX // 4) * 3, D))


class TurningBundle(Bundle):
    """Knows a tile turned by quarter turns by its pixels; a frame is the tile as the camera's heading turns it."""

    def encode_frames(self, images: npt.NDArray[np.uint8]) -> Codes:
        small = images.reshape(len(images), PX // 4, 4, PX // 4, 4, 3).mean((2, 4)).reshape(len(images), -1)
        codes = (small / 128.0 - 1.0) @ MIX
        return np.asarray(codes / np.linalg.norm(codes, axis=1, keepdims=True), np.float32)

    def encode_tiles(self, images: npt.NDArray[np.uint8]) -> Codes:
        turned = [self.encode_frames(np.rot90(images, h // 2, (1, 2))) for h in range(H)]  # heading up
        return np.stack(turned, 1)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    can = Capabilities(parts=("frame", "tile"), tokens=False, headings=H)
    return TurningBundle(tmp_path_factory.mktemp("turning"), MODEL, {}, "turning", capabilities=can)


@pytest.fixture(scope="module")
def imagery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_noise(tmp_path_factory.mktemp("imagery") / "a.tif", 160003, 200005, 14)


@pytest.fixture(scope="module")
def gallery(imagery: Path, bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    return index(imagery, bundle, tmp_path_factory.mktemp("gallery") / "g")


def _looking(imagery: Path, x: int, y: int, quarter: int) -> npt.NDArray[np.uint8]:
    """What a camera in a tile sees that looks north (0), east (1), south or west."""
    with open_imagery(imagery) as opened:
        tile = opened.region(Region(19, x, y, 1), PX).image
    return np.rot90(tile, quarter)


def test_codes_in_8_bits_are_nearly_those_of_the_encoder(imagery: Path, bundle: Bundle, gallery: Gallery) -> None:
    assert open_gallery(gallery.address).manifest.headings == H
    region = gallery.regions.region(0)
    grid = TileReader(gallery).grid([region])
    with open_imagery(imagery) as opened:
        area = opened.region(region, PX)
    codes = bundle.encode_area(area.image)
    assert grid.codes.shape == (1, 13, 13, H, D)
    held = grid.valid[0]
    assert held.any()
    assert np.abs(grid.codes[0][held] - codes[held]).max() < 0.004


@pytest.mark.parametrize("memory_mb", [1024, 0])
def test_place_and_heading_are_found_together(memory_mb: int, imagery: Path, bundle: Bundle, gallery: Gallery) -> None:
    searcher = Searcher.over(gallery, "s_path", memory_mb=memory_mb)
    frames = np.stack([_looking(imagery, 160008, 200010 - k, 0) for k in range(3)])  # drives north
    query = Query(bundle.encode_frames(frames))
    found, plain = searcher.search(query, 3), searcher.plain(query, 3)
    assert found.rows.tolist() == plain.rows.tolist()
    np.testing.assert_allclose(found.scores, plain.scores, atol=1e-6)
    best = gallery.regions.region(int(found.rows[0]))
    assert best.x <= 160008 < best.x + 7
    assert best.y <= 200008 < best.y + 7
    backward = searcher.plain(Query(bundle.encode_frames(frames[::-1])), 1)
    assert plain.scores[0] > backward.scores[0] + 0.005, "looking north while driving south fits no path"


def test_the_field_of_a_tracker_compares_as_floats_do(bundle: Bundle, gallery: Gallery, imagery: Path) -> None:
    field = TileField.of(gallery.tile_blocks(), patches_of(gallery, Roads.join([])))
    assert field is not None
    code = 0.6 * bundle.encode_frames(_looking(imagery, 160008, 200010, 1)[None])[0]
    found = field.compared(code)
    blocks = np.concatenate([block.codes[block.valid] for block in gallery.tile_blocks()])
    np.testing.assert_allclose(found, blocks @ code, atol=2e-3)
    tile, heading = np.unravel_index(int(found.argmax()), found.shape)
    x, y = (float(values[tile]) for values in field.places())
    assert (x, y, int(heading) // 2) == (160008.5, 200010.5, 1)


def test_a_window_localizer_moves_the_way_it_looks(bundle: Bundle, gallery: Gallery, imagery: Path) -> None:
    settings = LocalizeSettings(keyframe_spacing_s=4.0, sharpness=30.0)
    localizer = Localizer(gallery, bundle, settings)
    for k in range(6):
        fix = localizer.update(Frame(k, 4.0 * k, _looking(imagery, 160006 + k, 200010, 1)))
    assert fix.guess is not None
    x, y = _tile_of(fix.guess.lat_deg, fix.guess.lon_deg)
    assert abs(x - 160011.5) < 1.0
    assert abs(y - 200010.5) < 1.0


def test_a_window_localizer_gives_the_same_fixes_with_an_approximate_index(
    bundle: Bundle, gallery: Gallery, imagery: Path, tmp_path: Path
) -> None:
    shutil.copytree(gallery.address, tmp_path / "g")
    copy = open_gallery(tmp_path / "g")
    build_index(copy)
    settings = LocalizeSettings(keyframe_spacing_s=4.0, sharpness=30.0)
    exact, approximate = (Localizer(copy, bundle, settings, search=mode) for mode in ("exact", "approximate"))
    for k in range(4):
        frame = Frame(k, 4.0 * k, _looking(imagery, 160006 + k, 200010, 1))
        a, b = exact.update(frame), approximate.update(frame)
        assert a.guess == b.guess
        assert [one.region for one in a.candidates] == [one.region for one in b.candidates]


def _tile_of(lat: float, lon: float) -> tuple[float, float]:
    from x2localizer import geo

    x, y = geo.tile_coordinates(np.array([lat]), np.array([lon]), 19)
    return float(x[0]), float(y[0])
