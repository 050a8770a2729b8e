"""Tile servers: the same pixels as a folder of the same tiles; missing tiles are holes, failures are errors."""

from __future__ import annotations

import http.server
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from helpers.command_line import x2l
from x2localizer import geo
from x2localizer.encoders import Bundle
from x2localizer.errors import ImageryError
from x2localizer.gallery import open_gallery
from x2localizer.sources.imagery import Access, open_imagery, xyz_server
from x2localizer.types import Position, Region, TileId

Z, X, Y, SIDE = 17, 68000, 45000, 12
NETWORK = Access(network=True)


class _Server(http.server.ThreadingHTTPServer):
    """Serves a folder of tiles; ``answers`` are codes to give instead, one after the other, by path."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.asked = folder, Counter[str]()
        self.answers: dict[str, list[int]] = {}
        self.page: bytes | None = None

    def address(self, box: str | None = None, zoom: int = Z) -> str:
        if box is None:
            lats, lons = geo.from_tile_coordinates(
                np.array([X + 0.1, X + SIDE - 0.1]), np.array([Y + SIDE - 0.1, Y + 0.1]), Z
            )
            box = ",".join(f"{value:.8f}" for value in (lons[0], lats[0], lons[1], lats[1]))
        return f"http://127.0.0.1:{self.server_address[1]}/{{z}}/{{x}}/{{y}}.png#box={box}&zoom={zoom}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self.server.asked[self.path] += 1
        codes = self.server.answers.get(self.path) or self.server.answers.get("*") or []
        file = self.server.folder / self.path.lstrip("/")
        code = codes.pop(0) if codes else 200 if file.is_file() else 404
        self.send_response(code)
        self.end_headers()
        if code == 200:
            self.wfile.write(self.server.page or file.read_bytes())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    monkeypatch.setattr(xyz_server, "FIRST_WAIT_S", 0.01)
    noise = np.random.default_rng(7).integers(0, 256, (SIDE, SIDE, 256, 256, 3), dtype=np.uint8)
    for row in range(SIDE):
        for column in range(SIDE):
            path = tmp_path / "tiles" / str(Z) / str(X + column) / f"{Y + row}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            PIL.Image.fromarray(noise[row, column]).save(path, compress_level=0)
    with _Server(tmp_path / "tiles") as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def test_pixels_are_those_of_a_folder_and_each_tile_is_fetched_once(server: _Server) -> None:
    (server.folder / str(Z) / str(X + 3) / f"{Y + 4}.png").unlink()
    lat, lon = geo.from_tile_coordinates(X + 4.3, Y + 5.6, Z)
    with open_imagery(server.folder) as folder, open_imagery(server.address(), access=NETWORK) as served:
        assert served.info.kind == "tile server"
        assert served.info.bounds == pytest.approx(folder.info.bounds)
        assert list(served.tiles(Z)) == list(folder.tiles(Z))
        place = Position(float(lat), float(lon))
        pictures = [
            [
                imagery.region(Region(Z, X + 1, Y + 2, 7)), imagery.region(Region(Z, X + 4, Y + 2, 7)),
                imagery.square(place, Z, 300, 2.5), imagery.tile(TileId(Z, X - 1, Y)),
            ]
            for imagery in (folder, served)
        ]  # fmt: skip
        for expected, found in zip(*pictures, strict=True):
            np.testing.assert_array_equal(found.image, expected.image)
            np.testing.assert_array_equal(found.valid, expected.valid)
        assert not served.region(Region(Z, X + 1, Y + 2, 7)).valid.all(), "a tile is missing"
    assert max(server.asked.values()) == 1


def test_the_oldest_tiles_are_given_up(server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xyz_server, "KEPT", 4)
    with open_imagery(server.address(), access=NETWORK) as served:
        first = served.region(Region(Z, X + 1, Y + 1, 3)).image
        served.region(Region(Z, X + 7, Y + 7, 3))
        np.testing.assert_array_equal(served.region(Region(Z, X + 1, Y + 1, 3)).image, first)
    assert server.asked[f"/{Z}/{X + 2}/{Y + 2}.png"] == 2


def test_a_busy_server_is_asked_again(server: _Server) -> None:
    server.answers[f"/{Z}/{X + 2}/{Y + 2}.png"] = [503, 429]
    with open_imagery(server.address(), access=NETWORK) as served:
        assert served.tile(TileId(Z, X + 2, Y + 2)).valid.all()
    assert server.asked[f"/{Z}/{X + 2}/{Y + 2}.png"] == 3


@pytest.mark.parametrize(
    ("code", "told"), [(503, "sent nothing for 20 s, or no pictures"), (403, "refuses tiles .403")]
)
def test_a_server_that_fails_is_an_error_and_no_hole(server: _Server, code: int, told: str) -> None:
    with open_imagery(server.address(), access=NETWORK) as served:
        server.answers["*"] = [code] * 1000
        with pytest.raises(ImageryError, match=told):
            served.region(Region(Z, X + 1, Y + 1, 3))
        server.answers.clear()
        assert served.region(Region(Z, X + 1, Y + 1, 3)).valid.all(), "it recovers"


def test_a_silent_server_is_given_up(server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xyz_server, "HTTP_SILENCE_S", 0.2)
    silent = threading.Event()
    monkeypatch.setattr(_Handler, "do_GET", lambda self: silent.wait(30) and None)
    with pytest.raises(ImageryError, match="sent nothing"):
        open_imagery(server.address(), access=NETWORK)
    silent.set()


def test_pages_are_no_pictures(server: _Server) -> None:
    server.page = b"<html>Please log in.</html>"
    with pytest.raises(ImageryError, match="has no pictures of zoom 17"):
        open_imagery(server.address(), access=NETWORK)


@pytest.mark.parametrize(
    ("area", "told"),
    [
        ("", "which area"), ("#zoom=19", "which area"), ("#box=1,2,3", "is not a box"),
        ("#box=a,2,3,4", "is not a box"),
        ("#box=11,48,10,49", "west, south, east and north"), ("#box=nan,48,11,49", "west, south, east and north"),
        ("#box=11,48,12,49&zoom=40", "no tiles of zoom 40"), ("#box=11,48,12,49&zoom=x", "is not a box"),
        ("#box=-180,-80,180,80&zoom=22", "more tiles than"),
    ],
)  # fmt: skip
def test_areas_that_are_none_are_refused_before_anything_is_asked(area: str, told: str) -> None:
    with pytest.raises(ImageryError, match=told):
        open_imagery(f"http://127.0.0.1:9/{{z}}/{{x}}/{{y}}.png{area}", access=NETWORK)


@pytest.mark.parametrize("template", ["{z}/{x}", "{z}/{x}/{y}/{s}", "{z}/{x}/{y.real}", "{0}/{x}/{y}"])
def test_templates_with_other_names_are_refused(template: str) -> None:
    with pytest.raises(ImageryError, match="does not name"):
        open_imagery(f"http://127.0.0.1:9/{template}.png#box=11,48,12,49", access=NETWORK)


def test_it_needs_the_word_of_the_user_and_keeps_keys_to_itself(server: _Server) -> None:
    with pytest.raises(ImageryError, match="--network"):
        open_imagery(server.address())
    assert not server.asked
    server.answers["*"] = [401] * 10
    with pytest.raises(ImageryError) as refused:
        open_imagery(server.address().replace(".png", ".png?key=secret"), access=NETWORK)
    assert "secret" not in str(refused.value)


def test_a_gallery_of_a_server_has_the_codes_of_its_tiles(server: _Server, tmp_path: Path, tiny_bundle: Bundle) -> None:
    codes = []
    for name, imagery in (("a", str(server.folder)), ("b", server.address())):
        out = str(tmp_path / name)
        x2l("index", imagery, "--network", "--bundle", str(tiny_bundle.root), "--zoom", str(Z), "--out", out)
        codes.append(np.concatenate([block.codes.ravel() for block in open_gallery(out).tile_blocks()]))
    assert len(codes[0])
    np.testing.assert_array_equal(codes[0], codes[1])
    assert "tile server" in x2l("inspect", server.address(), "--network")
