"""Galleries and imagery in an object store: the same as local ones, offline too, and nothing is lost when it fails."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.command_line import x2l
from helpers.gallery_files import write_noise
from helpers.object_store import SECRET, ObjectStore, serve_objects
from helpers.same_gallery import assert_same
from x2localizer.encoders import Bundle
from x2localizer.errors import GalleryError, ImageryError
from x2localizer.gallery import index, open_gallery
from x2localizer.gallery.object_store import copy_folder, storage_options
from x2localizer.sources.imagery.access import Access

pytestmark = pytest.mark.slow
NETWORK = Access(network=True)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    pytest.importorskip("moto")
    with serve_objects(tmp_path_factory.mktemp("orders")) as store:
        yield store


@pytest.fixture
def store(running: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """The server, with variables that lead to it, and an empty folder for copies."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("X2L_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("x2localizer.gallery.parts.SIDES", (1,))
    yield running
    running.recover()


def test_a_gallery_in_a_store_is_the_same_and_is_searched_offline(
    store: ObjectStore, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    first, second = (
        write_noise(tmp_path / "a.tif", 160003, 200005, 11),
        write_noise(tmp_path / "b.tif", 160014, 200005, 9),
    )
    address = "s3://bucket/offline"
    index(store.upload(first), tiny_bundle, address, access=NETWORK)
    local = index(first, tiny_bundle, tmp_path / "g")
    assert_same(local, open_gallery(address, tiny_bundle))
    assert_same(index(second, tiny_bundle, tmp_path / "g"), index(second, tiny_bundle, address))
    copy = open_gallery(address, tiny_bundle)
    assert_same(open_gallery(tmp_path / "g"), copy)
    assert copy.address == address
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # nobody listens there
    with caplog.at_level(logging.WARNING):
        assert_same(open_gallery(tmp_path / "g"), open_gallery(address, tiny_bundle))
    assert "using the copy of" in caplog.text
    with pytest.raises(
        GalleryError, match=r"s3://bucket/other failed: it does not answer.*AWS_ENDPOINT_URL"
    ) as problem:
        open_gallery("s3://bucket/other")
    assert SECRET not in str(problem.value)


def test_a_store_that_fails_while_a_gallery_is_built_loses_nothing(
    store: ObjectStore, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("x2localizer.gallery.work.COMMIT_S", 0.0)
    imagery = write_noise(tmp_path / "a.tif", 160003, 200005, 11)
    address = "s3://bucket/broken"
    done: list[int] = []

    def fail(what: str, count: int, total: int) -> None:
        done.append(count)
        if count == 2:
            store.fail_after(3)

    with pytest.raises(GalleryError, match=r"failed: it answers with status 503.*it resumes") as problem:
        index(imagery, tiny_bundle, address, progress=fail)
    assert SECRET not in str(problem.value)
    store.recover()
    with pytest.raises(GalleryError, match="half built"):
        open_gallery(address, tiny_bundle)
    done.clear()
    index(imagery, tiny_bundle, address, progress=lambda what, count, total: done.append(count))
    assert done[0] >= 3, "what was stored is not encoded again"
    assert_same(index(imagery, tiny_bundle, tmp_path / "g"), open_gallery(address, tiny_bundle))


def test_a_copy_that_was_not_finished_is_not_used_offline(
    store: ObjectStore, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    imagery = write_noise(tmp_path / "a.tif", 160003, 200005, 11)
    address = "s3://bucket/fetched"
    index(imagery, tiny_bundle, address)
    store.fail_after(6)
    with pytest.raises(GalleryError, match="status 503"):
        open_gallery(address)
    assert any(copy_folder(address).rglob("*.lance")), "some files were fetched"
    store.recover()
    assert_same(index(imagery, tiny_bundle, tmp_path / "g"), open_gallery(address))


def test_imagery_that_a_server_does_not_deliver_is_an_error_and_no_hole(
    store: ObjectStore, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("x2localizer.sources.imagery.raster_open.HTTP_RETRIES", 0)
    monkeypatch.setattr("x2localizer.gallery.work.COMMIT_S", 0.0)
    path = write_noise(tmp_path / "large.tif", 160000, 200000, 24)
    address = store.upload(path)

    def fail(what: str, count: int, total: int) -> None:
        if count == 1:
            store.fail_after(0)

    with pytest.raises(ImageryError, match="the server failed"):
        index(address, tiny_bundle, tmp_path / "remote", access=NETWORK, progress=fail)
    store.recover()
    remote = index(address, tiny_bundle, tmp_path / "remote", access=NETWORK)
    assert_same(index(path, tiny_bundle, tmp_path / "local"), remote)


@pytest.mark.parametrize("kind", ["s3", "http"])
def test_a_server_that_is_overloaded_for_a_moment_is_asked_again(
    store: ObjectStore, tiny_bundle: Bundle, tmp_path: Path, kind: str
) -> None:
    path = write_noise(tmp_path / f"busy-{kind}.tif", 160003, 200005, 11)
    address = store.upload(path)
    store.fail_next(1)
    chosen = address if kind == "s3" else address.replace("s3:/", store.url)
    remote = index(chosen, tiny_bundle, tmp_path / "remote", access=NETWORK)
    assert_same(index(path, tiny_bundle, tmp_path / "local"), remote)


@pytest.mark.parametrize("address", ["s3://nowhere/gallery", "s3://bucket/empty"])
def test_a_gallery_that_is_not_there_is_a_clear_error(store: ObjectStore, address: str) -> None:
    with pytest.raises(GalleryError, match=f"no gallery at {address}"):
        open_gallery(address)


def test_the_command_line_says_what_a_failing_store_did(
    store: ObjectStore, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    write_noise(tmp_path / "a.tif", 160003, 200005, 11)
    words = ["index", str(tmp_path / "a.tif"), "--bundle", str(tiny_bundle.root), "--out", "s3://bucket/by-hand"]
    store.fail_after(0)
    text = x2l(*words, code=2)
    assert "failed: it answers with status 503" in text
    assert "run the same command again" in text
    assert SECRET not in text
    assert "Traceback" not in text
    store.recover()
    assert "complete" in x2l(*words)
    assert "complete" in x2l("index", "--info", "--out", "s3://bucket/by-hand")


def test_http_is_allowed_only_if_the_endpoint_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://store.example")
    assert storage_options("s3://bucket/g") == {"endpoint": "https://store.example", "allow_http": "false"}
    assert storage_options("gs://bucket/g") == {}
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert storage_options("s3://bucket/g") == {}
