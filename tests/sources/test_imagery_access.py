"""What imagery may reach: its own folder, what the user allows, and no server that nobody asked for."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from helpers.command_line import x2l
from helpers.gallery_files import PX, WORLD, write_noise
from x2localizer import geo
from x2localizer.errors import ImageryError
from x2localizer.sources.imagery import Access, open_imagery, raster_file, raster_open
from x2localizer.types import TileId

AT = TileId(19, 160005, 200006)


class _Server:
    """Counts connections, and closes them."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.host, self.connections = f"127.0.0.1:{self.socket.getsockname()[1]}", 0
        # GDAL remembers for good that an address failed, and a port may be given out twice.
        self.image = f"/vsicurl/http://{self.host}/{uuid.uuid4()}.tif"
        self.asked = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            self.asked.set()
            connection.close()


@pytest.fixture
def server() -> Iterator[_Server]:
    server = _Server()
    yield server
    server.socket.close()


def _vrt(path: Path, source: str, *, relative: bool = False, raw: bool = False) -> Path:
    name = f'<SourceFilename relativeToVRT="{int(relative)}">{source}</SourceFilename>'
    band = f"<SimpleSource>{name}<SourceBand>1</SourceBand></SimpleSource>"
    if raw:
        band = f"{name}<ImageOffset>0</ImageOffset><PixelOffset>1</PixelOffset><LineOffset>8</LineOffset>"
    west, _, _, north = geo.mercator_bounds(160003, 200005, 19)
    step = geo.WEB_MERCATOR_HALF_M * 2 / WORLD / PX
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        '<VRTDataset rasterXSize="352" rasterYSize="352"><SRS>EPSG:3857</SRS>'
        f"<GeoTransform>{west}, {step}, 0, {north}, 0, {-step}</GeoTransform>"
        f'<VRTRasterBand dataType="Byte" band="1" subClass="VRT{"Raw" if raw else "Sourced"}RasterBand">'
        f"{band}</VRTRasterBand></VRTDataset>"
    )
    return path


@pytest.mark.parametrize(
    "address",
    ["http://{}/a.tif", "/vsicurl/http://{}/a.tif", "/vsizip//vsicurl/http://{}/a.zip/a.tif", "s3://bucket/a.tif"],
)
def test_addresses_need_the_network(address: str, server: _Server) -> None:
    with pytest.raises(ImageryError, match=r"is on the network.*--network"):
        open_imagery(address.format(server.host))
    assert server.connections == 0


@pytest.mark.parametrize("deep", [False, True])
def test_a_vrt_that_names_a_server_is_refused_before_it_is_asked(
    deep: bool, server: _Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _vrt(tmp_path / "net.vrt", server.image)
    if deep:
        path = _vrt(tmp_path / "outer.vrt", "net.vrt", relative=True)
    with pytest.raises(ImageryError, match="--network"):
        open_imagery(path)
    assert server.connections == 0
    monkeypatch.setenv("GDAL_HTTP_MAX_RETRY", "0")
    for module in (raster_open, raster_file):
        monkeypatch.setattr(module, "HTTP_SILENCE_S", 1)
    with open_imagery(path, access=Access(network=True)) as imagery, pytest.raises(ImageryError, match="server"):
        imagery.tile(AT)
    assert server.asked.wait(30)  # the thread that counts may be late on a busy machine


def test_even_what_is_not_recognised_does_not_reach_the_network(
    server: _Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _vrt(tmp_path / "net.vrt", server.image)
    for name in ("check_address", "check_dataset"):
        monkeypatch.setattr(f"x2localizer.sources.imagery.raster_file.{name}", lambda *_: None)
    with open_imagery(path) as imagery, pytest.raises(ImageryError, match="the server failed"):
        imagery.tile(AT)
    assert server.connections == 0


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("relative", [False, True])
def test_files_outside_of_the_folder_have_to_be_allowed(raw: bool, relative: bool, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    if raw:
        outside.write_bytes(b"secret" * 25_000)
    else:
        write_noise(outside, 160003, 200005, 4)
    source = "../outside" if relative else str(outside)
    path = _vrt(tmp_path / "maps" / "a.vrt", source, relative=relative, raw=raw)
    with pytest.raises(ImageryError, match=r"outside of its folder.*--allow-path"):
        open_imagery(path)
    with open_imagery(path, access=Access(paths=(tmp_path,))) as imagery:
        assert imagery.info.kind == "VRT"


def test_files_of_the_same_folder_and_links_that_were_named_are_fine(tmp_path: Path) -> None:
    write_noise(tmp_path / "a.tif", 160003, 200005, 4)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "b.tif").symlink_to(tmp_path / "a.tif")
    with (
        open_imagery(_vrt(tmp_path / "a.vrt", "a.tif", relative=True)) as one,
        open_imagery(tmp_path / "links" / "b.tif"),
    ):
        assert one.info.kind == "VRT"
    with pytest.raises(ImageryError, match="outside of its folder"):  # a link in a VRT may lead anywhere
        open_imagery(_vrt(tmp_path / "links" / "a.vrt", "b.tif", relative=True))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<VRTDataset>" + "<a>" * 100_000, "nested"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><VRTDataset>&b;</VRTDataset>', "document type"),
        ("<VRTDataset><SourceFilename>a.tif", "cannot be read"),
        ("<VRTDataset><SourceFilename>NETCDF:/etc/a.nc:x</SourceFilename></VRTDataset>", "no plain file"),
    ],
)
def test_hostile_descriptions_are_clear_errors(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "a.vrt").write_text(text)
    with pytest.raises(ImageryError, match=why):
        open_imagery(tmp_path / "a.vrt")


def test_vrts_that_name_each_other_end(tmp_path: Path) -> None:
    for number in range(12):
        _vrt(tmp_path / f"{number}.vrt", f"{number + 1}.vrt", relative=True)
    with pytest.raises(ImageryError, match="name each other"):
        open_imagery(tmp_path / "0.vrt")


def test_the_command_line_asks_for_the_network(tmp_path: Path, server: _Server) -> None:
    path = _vrt(tmp_path / "net.vrt", server.image)
    assert "--network" in x2l("inspect", str(path), code=2)
    assert "--network" in x2l("index", str(path), "--out", str(tmp_path / "g"), code=2)
    write_noise(tmp_path / "a.tif", 160003, 200005, 4)
    assert "VRT" in x2l("inspect", str(_vrt(tmp_path / "a.vrt", "a.tif", relative=True)))


def test_the_second_process_gives_the_same_pixels(tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.tif", 160003, 200005, 4)
    with open_imagery(path) as plain, open_imagery(path, access=Access(own_process=True)) as guarded:
        assert plain.info == guarded.info
        assert plain.edges(19) == guarded.edges(19)
        for size in (64, 100):
            ours, theirs = plain.tile(AT, size), guarded.tile(AT, size)
            np.testing.assert_array_equal(ours.image, theirs.image)
            np.testing.assert_array_equal(ours.valid, theirs.valid)
        assert plain.pixels_behind(plain.tile(AT).centre, 12) == guarded.pixels_behind(plain.tile(AT).centre, 12)
    with pytest.raises(ImageryError, match="There is no imagery"):
        open_imagery(tmp_path / "no.tif", access=Access(own_process=True))
