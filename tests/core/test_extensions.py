"""Adding a similarity, a refresh policy or an output format takes one new file: these tests add one of each.

Each file lies in tests/extensions and is found because its folder is put on the package's path, which is what copying
it into the package would do. A toy encoder is added in tests/learn/test_families.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.command_line import x2l
from x2localizer import localize_video
from x2localizer.config import LocalizeSettings
from x2localizer.datasets.dataset import open_dataset
from x2localizer.encoders import Bundle
from x2localizer.errors import ConfigError
from x2localizer.evaluate.coarse import coarse
from x2localizer.evaluate.embed import Embeddings
from x2localizer.evaluate.protocols import clip_windows
from x2localizer.gallery import Gallery, index
from x2localizer.localize import Localizer
from x2localizer.localize.refresh import policies
from x2localizer.registry import Registry
from x2localizer.search import Searcher
from x2localizer.similarity import Query, similarities
from x2localizer.sinks import TrackContext, TrackFolder, sinks
from x2localizer.sinks.live import live_sinks, open_sinks
from x2localizer.town.folder import save_drive, save_town
from x2localizer.town.town import Town
from x2localizer.types import Fix, Frame, Position

EXTENSIONS = Path(__file__).parent.parent / "extensions"


@contextmanager
def _added(registry: Registry[Any], package: str, folder: str) -> Iterator[None]:
    """A package with one more file in it."""
    module = import_module(package)
    registry.names()  # imports what the package has by itself
    before = dict(registry._classes)
    module.__path__.append(str(EXTENSIONS / folder))
    try:
        yield
    finally:
        module.__path__.remove(str(EXTENSIONS / folder))
        registry._classes.clear()
        registry._classes.update(before)
        for path in (EXTENSIONS / folder).glob("*.py"):
            sys.modules.pop(f"{package}.{path.stem}", None)


@pytest.fixture(scope="module")
def place(town: Town, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    save_town(town, folder)
    save_drive(town, folder, 1, 30.0, fps=1.0, height=64, width=128)
    return folder


@pytest.fixture(scope="module")
def gallery(place: Path, tiny_bundle: Bundle) -> Gallery:
    return index(place / "aerial.tif", tiny_bundle, place / "g")


def test_a_similarity_is_one_file(
    place: Path, gallery: Gallery, tiny_bundle: Bundle, tiny_dataset: Path, tmp_path: Path
) -> None:
    assert "s_toy" not in similarities.names()
    with _added(similarities, "x2localizer.similarity", "similarity"):
        assert "s_toy" in similarities.names()
        frames = np.random.default_rng(0).integers(0, 256, (3, 32, 64, 3), dtype=np.uint8)
        query = Query(tiny_bundle.encode_frames(frames))
        for memory_mb in (1024, 0):  # with bounds that it never had to write
            searcher = Searcher.over(gallery, "s_toy", memory_mb=memory_mb)
            np.testing.assert_array_equal(searcher.search(query, 3).rows, searcher.plain(query, 3).rows)
        result = localize_video(
            place / "drive.mp4", gallery, tiny_bundle, tmp_path, LocalizeSettings(similarity="s_toy"), formats=["csv"]
        )
        assert result.fixes[-1].guess is not None
        split = Embeddings(open_dataset(tiny_dataset), "test", tiny_bundle, tmp_path)
        assert len(coarse(split, 2, ["s_toy", "s_mix"])["s_toy"].ranks) == len(split.videos)


def test_a_refresh_policy_is_one_file(gallery: Gallery, tiny_bundle: Bundle) -> None:
    with _added(policies, "x2localizer.localize.refresh", "refresh"):
        localizer = Localizer(gallery, tiny_bundle, LocalizeSettings(policy="every-second"))
        rng = np.random.default_rng(1)
        frames = [Frame(i, float(i), rng.integers(0, 256, (32, 64, 3), dtype=np.uint8)) for i in range(31)]
        assert [fix.time_s for fix in localizer.run(frames) if fix.refreshed] == [0, 10, 20, 30]
        assert clip_windows("every-second", 8, 2) == [(1, 2), (3, 4), (5, 6)], "the protocols replay it"


def test_an_output_format_is_one_file(tmp_path: Path) -> None:
    with _added(sinks, "x2localizer.sinks", "sinks"):
        with TrackFolder(TrackContext(tmp_path), ["wkt"]) as folder:
            folder.write(Fix(0, 0.0, "tracking", Position(39.0, -70.0), 0.9))
            folder.write(Fix(1, 1.0, "lost", Position(12.0, 12.0), 0.1))
            folder.write(Fix(2, 2.0, "tracking", Position(39.5, -70.5), 0.9))
        assert folder.files == [tmp_path / "track.wkt"]
    assert (tmp_path / "track.wkt").read_text() == "LINESTRING (-70.0 39.0, -70.5 39.5)\n"


def test_a_live_sink_is_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    with _added(live_sinks, "x2localizer.sinks.live", "live"), open_sinks(["print:"]) as opened:
        opened.start(datetime(2026, 5, 1, 12, tzinfo=UTC))
        opened.fix(Fix(0, 1.5, "tracking", Position(39.0, -70.0), 0.9))
        opened.fix(Fix(1, 2.5, "lost", Position(12.0, 12.0), 0.1))
    assert capsys.readouterr().out.splitlines() == [
        "2026-05-01 12:00:01.500000+00:00 Position(lat_deg=39.0, lon_deg=-70.0)",
        "2026-05-01 12:00:02.500000+00:00 None",
    ]


def test_a_name_that_is_not_known_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"no similarity .s_mixx.\. Did you mean .s_mix."):
        similarities.get("s_mixx")


def test_the_command_line_names_what_there_is(place: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    words = ["localize", str(place / "drive.mp4"), "--gallery", str(place / "g"), "--bundle", str(tiny_bundle.root)]
    text = x2l(*words, "--out", str(tmp_path), "--formats", "gpx,cvs", code=2)
    assert "no output format 'cvs'" in text
    assert "Did you mean 'csv'?" in text
