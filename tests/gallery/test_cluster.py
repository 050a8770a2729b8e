"""Indexing on a Ray cluster: the same gallery as on one machine, also when workers die; and clear errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.dying_workers import KILL_ONCE, NO_MEMORY, NO_MEMORY_ONCE, encode_or_die
from helpers.gallery_files import write_noise
from helpers.same_gallery import assert_same
from x2localizer import __version__
from x2localizer.encoders import Bundle
from x2localizer.errors import ConfigError, GalleryError, ImageryError, UserError
from x2localizer.gallery import index
from x2localizer.gallery.cluster import Job, _open_imagery, join_cluster
from x2localizer.gallery.parts import tile_parts
from x2localizer.sources.imagery import open_imagery


@pytest.fixture(scope="module")
def ray_workers() -> Iterator[None]:
    """A Ray cluster of two workers on this machine."""
    folders = [path for path in sys.path if path]  # workers find the helpers, too
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(folders))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray = pytest.importorskip("ray")
        if not any(_starts(ray) for _ in range(3)):
            pytest.skip("Ray gives up when its own processes take long to start: this machine is too busy")
        yield
        ray.shutdown()


def _starts(ray: Any) -> bool:
    try:
        ray.init(
            num_cpus=2, object_store_memory=100_000_000, include_dashboard=False, log_to_driver=False,
            logging_level="error",
        )  # fmt: skip
    except Exception as problem:
        if "timed out" not in str(problem):
            raise
        ray.shutdown()
        return False
    return True


@pytest.mark.slow
def test_a_cluster_makes_the_same_gallery_also_when_workers_die(
    ray_workers: None, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("x2localizer.gallery.parts.SIDES", (1,))
    monkeypatch.setattr("x2localizer.gallery.cluster.encode_part", encode_or_die)
    files = [
        write_noise(tmp_path / "a.tif", 160003, 200005, 13),
        write_noise(tmp_path / "b.tif", 160012, 200005, 11, 1),
    ]
    plain = index(files, tiny_bundle, tmp_path / "plain", codes=("tiles", "regions"))
    orders = [tmp_path / KILL_ONCE, tmp_path / NO_MEMORY_ONCE]
    for order in orders:
        order.touch()
    shared = index(files, tiny_bundle, tmp_path / "shared", codes=("tiles", "regions"), ray="auto")
    assert not any(order.exists() for order in orders), "workers did die"
    assert_same(plain, shared)


@pytest.mark.slow
def test_workers_without_memory_are_a_clear_error_and_the_index_resumes(
    ray_workers: None, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("x2localizer.gallery.parts.SIDES", (1,))
    monkeypatch.setattr("x2localizer.gallery.work.COMMIT_S", 0.0)
    monkeypatch.setattr("x2localizer.gallery.cluster.AHEAD", 1)
    monkeypatch.setattr("x2localizer.gallery.cluster.encode_part", encode_or_die)
    imagery = write_noise(tmp_path / "a.tif", 160003, 200005, 20)
    plain = index(imagery, tiny_bundle, tmp_path / "plain", codes=("tiles", "regions"))

    def use_up(what: str, done: int, total: int) -> None:
        (tmp_path / NO_MEMORY).touch()

    with pytest.raises(GalleryError, match=r"ran out of memory, 5 times.* it resumes"):
        index(imagery, tiny_bundle, tmp_path / "shared", codes=("tiles", "regions"), ray="auto", progress=use_up)
    (tmp_path / NO_MEMORY).unlink()
    begun: list[int] = []
    shared = index(
        imagery, tiny_bundle, tmp_path / "shared", codes=("tiles", "regions"), ray="auto",
        progress=lambda what, done, total: begun.append(done),
    )  # fmt: skip
    assert begun[0] > 1, "what was stored is not encoded again"
    assert_same(plain, shared)


def test_parts_are_squares_of_blocks_and_hold_each_block_once() -> None:
    corners = [(x, y) for y in range(64, 128, 8) for x in range(40, 120, 8)]
    parts = tile_parts(corners, 4)
    assert sorted(corner for part in parts for corner in part.corners) == sorted(corners)
    for part in parts:
        assert all(0 <= x - part.x < 32 and 0 <= y - part.y < 32 for x, y in part.corners)


def test_without_ray_the_extra_is_named(tmp_path: Path, tiny_bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    imagery = write_noise(tmp_path / "a.tif", 160000, 200000, 8)
    with pytest.raises(UserError, match=r"x2localizer\[cluster\]"):
        index(imagery, tiny_bundle, tmp_path / "g", ray="auto")


def test_a_cluster_that_is_not_there_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**options: object) -> None:
        raise ConnectionError("no cluster")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=refuse))
    with (
        pytest.raises(ConfigError, match=r"no Ray cluster to join at '10\.0\.0\.1:6379'"),
        join_cluster("10.0.0.1:6379"),
    ):
        pass


def test_a_ray_that_does_not_start_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**options: object) -> None:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=fail))
    with pytest.raises(UserError, match="does not start on this machine: The current node"), join_cluster("local"):
        pass


def test_a_machine_that_sees_other_imagery_or_has_another_version_says_so(tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.tif", 160000, 200000, 8)
    with open_imagery(path) as opened:
        bounds = opened.info.bounds
    with _open_imagery(Job(str(path), bounds, "", 19)) as opened:
        assert opened.info.bounds == bounds
    with pytest.raises(ImageryError, match="has other imagery"):
        _open_imagery(Job(str(path), (0.0, 0.0, 1.0, 1.0), "", 19))
    with pytest.raises(ImageryError, match=r"cannot open the imagery.*shared folder"):
        _open_imagery(Job(str(tmp_path / "missing.tif"), bounds, "", 19))
    with pytest.raises(ConfigError, match=f"has x2localizer {__version__}, this is 9.9"):
        _open_imagery(Job(str(path), bounds, "", 19, version="9.9"))
