"""A file of roads reaches nothing but itself: no server and no other file, whatever it names."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from x2localizer.errors import RoadError
from x2localizer.sources.roads import read_roads

LINE = {
    "type": "Feature", "properties": {}, "geometry": {"type": "LineString", "coordinates": [[11, 48], [11.001, 48]]},
}  # fmt: skip


class _Server:
    """A server that counts who connects, and hangs up."""

    def __init__(self, listening: socket.socket) -> None:
        self.address, self.connections = f"http://127.0.0.1:{listening.getsockname()[1]}", 0
        self._listening = listening
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):  # closed
            while True:
                self._listening.accept()[0].close()
                self.connections += 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield _Server(listening)


@pytest.mark.parametrize("remote", [True, False])
def test_a_description_of_other_sources_is_refused_before_it_is_opened(
    remote: bool, server: _Server, tmp_path: Path
) -> None:
    other = tmp_path / "other.geojson"
    other.write_text(json.dumps({"type": "FeatureCollection", "features": [LINE]}))
    source = f"/vsicurl/{server.address}/a.geojson" if remote else str(other)
    (tmp_path / "roads.gpkg").write_text(
        f'<OGRVRTDataSource><OGRVRTLayer name="other"><SrcDataSource>{source}</SrcDataSource></OGRVRTLayer>'
        "</OGRVRTDataSource>"
    )
    with pytest.raises(RoadError, match="not a file of roads"):
        read_roads(tmp_path / "roads.gpkg")
    assert server.connections == 0


@pytest.mark.parametrize(
    "crs",
    [
        {"type": "link", "properties": {"href": "SERVER/ref/epsg/4326", "type": "proj4"}},
        {"type": "URL", "properties": {"url": "SERVER/ref/epsg/4326"}},
    ],
)
def test_a_coordinate_system_that_names_a_server_does_not_reach_it(
    crs: dict[str, object], server: _Server, tmp_path: Path
) -> None:
    text = json.dumps({"type": "FeatureCollection", "crs": crs, "features": [LINE]})
    (tmp_path / "roads.geojson").write_text(text.replace("SERVER", server.address))
    assert len(read_roads(tmp_path / "roads.geojson")) == 1
    assert server.connections == 0


def test_a_server_that_needs_no_proxy_is_not_reached_from_the_second_process(
    server: _Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("NO_PROXY", "*")
    crs = {"type": "link", "properties": {"href": f"{server.address}/ref/epsg/4326", "type": "proj4"}}
    (tmp_path / "roads.geojson").write_text(json.dumps({"type": "FeatureCollection", "crs": crs, "features": [LINE]}))
    assert len(read_roads(tmp_path / "roads.geojson", own_process=True)) == 1
    assert server.connections == 0
