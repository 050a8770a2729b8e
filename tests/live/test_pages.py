"""The live map, the browser's camera and the way in, in a real browser against the real commands."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from PIL import Image as Pillow
from playwright.sync_api import Browser, Page

from helpers.browser import chromium, needs_chromium, page_of
from helpers.tiny_bundle import TINY_BUNDLE
from helpers.watched import Running, command
from x2localizer.serve.client import Client
from x2localizer.town.drive import draw_drive, open_film
from x2localizer.town.town import Town

pytestmark = [pytest.mark.slow, needs_chromium]
QUIETLY = ("--port", "0", "--no-browser")
TOWN = ("--seed", "5", "--tiles", "16", "--bundle", str(TINY_BUNDLE))
WAIT_MS = 120_000


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live")


@pytest.fixture(scope="module")
def town_live(out: Path) -> Iterator[Running]:
    """Two cars in the small town. Its bundle knows nothing, so the cars are found by their roads, or not at all."""
    with command(
        "live", "--out", str(out), *TOWN, "--drive", "3", "--cars", "2", "--port", "0", "--no-browser"
    ) as running:
        yield running


@pytest.fixture
def browser() -> Iterator[Browser]:
    """Closed after each test: only one may be driven at a time."""
    with chromium() as opened:
        yield opened


def _until(what: Callable[[], Any], within_s: float = 120.0) -> Any:
    end = time.monotonic() + within_s
    while not (value := what()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)
    return value


def _wait_for_fixes(page: Page, count: int = 3) -> None:
    page.wait_for_function(
        f"window.liveMap && liveMap.camera && liveMap.camera.fixes.length >= {count}", timeout=WAIT_MS
    )


def test_the_map_shows_cameras_and_loads_nothing_from_elsewhere(browser: Browser, town_live: Running) -> None:
    with page_of(browser, town_live.address) as page:
        hosts: set[str] = set()
        page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
        page.reload()
        _wait_for_fixes(page)
        page.wait_for_function("document.querySelectorAll('.live-cameras button').length === 2", timeout=WAIT_MS)
        page.wait_for_function("[...document.querySelectorAll('img.leaflet-tile')].some((t) => t.naturalWidth === 256)")
        page.wait_for_function("liveMap.roads && liveMap.map.hasLayer(liveMap.roads)")
        page.wait_for_selector(".live-camera svg .arrow")
        page.wait_for_selector(".live-beacon")
        page.wait_for_function("document.querySelector('.live-frame img').naturalWidth > 100", timeout=WAIT_MS)
        page.wait_for_function("document.querySelector('img.live-belief')", timeout=WAIT_MS)
        assert re.search(r"(Locating|Lost|Sure|Not on this map)", page.inner_text(".live-status"))
        assert "confidence" in page.inner_text(".live-one dl")
        assert hosts == {urlsplit(town_live.address).netloc} | ({""} & hosts), hosts


def test_a_box_and_a_pin_say_where_the_camera_is(browser: Browser, town_live: Running) -> None:
    with page_of(browser, town_live.address) as page, Client(town_live.address) as client:
        _wait_for_fixes(page)
        chosen = page.evaluate("liveMap.chosen")

        def prior() -> Any:
            return next(s for s in client.sessions() if s["id"] == chosen)["prior"]

        box = page.locator(".live-stage").bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        _drag(page, "box", (x - 150, y - 150), (x + 150, y + 150))
        found = _until(prior)
        assert found["west"] < found["east"]
        assert found["south"] < found["north"]
        page.wait_for_function("liveMap.camera.row.prior && liveMap.camera.row.prior.kind === 'box'")
        _drag(page, "pin", (x, y), (x + 120, y))
        _until(lambda: "radius_m" in (prior() or {}))
        page.click("[data-do=free]")
        _until(lambda: prior() is None)


def _drag(page: Page, tool: str, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.click(f"[data-do={tool}]")
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=4)
    page.mouse.up()


def test_a_track_is_replayed_and_exported(browser: Browser, town_live: Running, tmp_path: Path) -> None:
    with page_of(browser, town_live.address) as page:
        _wait_for_fixes(page, 6)
        page.locator(".live-strip input").fill("2")
        assert page.evaluate("liveMap.at") == 2
        assert not page.locator(".live-live.on").count()
        page.click("[data-do=play]")
        page.wait_for_function("liveMap.at === null || liveMap.at > 3")
        page.click("[data-do=live]")
        assert page.evaluate("liveMap.at") is None
        assert page.locator(".live-live.on").count()
        with page.expect_download() as download:
            page.click(".live-export a >> text=CSV")
        download.value.save_as(tmp_path / "track.csv")
        assert (tmp_path / "track.csv").read_text().count("\n") >= 6
        names = page.locator(".live-export a").all_inner_texts()
        assert names == ["GPX", "GeoJSON", "KML", "CSV"]


def test_the_map_fits_a_phone_and_the_night(browser: Browser, town_live: Running) -> None:
    with page_of(browser, town_live.address, width=390, height=844, dark=True, touch=True) as page:
        _wait_for_fixes(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate("document.body.classList.contains('body--dark')")
        page.click("[data-do=night]")
        page.wait_for_function("!document.body.classList.contains('body--dark')")


def test_what_is_not_on_the_map_is_said_in_plain_sight(browser: Browser, town_live: Running) -> None:
    with page_of(browser, town_live.address) as page:
        _wait_for_fixes(page)
        said = page.evaluate("""() => {
            const last = liveMap.camera.fixes[liveMap.camera.fixes.length - 1], lost = [...last];
            lost[3] = "x"; lost[7] = 0.02; lost[12] = 1e6;
            liveMap.update({ cameras: [{ ...liveMap.camera.row, name: "<b>bus", fixes: [lost] }] });
            return [".live-banner", ".live-status"].map((name) => document.querySelector(name).innerText);
        }""")
        assert said == ["<b>bus: not on this map", "Not on this map"]


@pytest.fixture(scope="module")
def film(town: Town, out: Path) -> Path:
    """A drive as the motion JPEG that Chromium takes for a camera; it is played again and again."""
    drive = draw_drive(town, 3, 20.0)
    assert drive is not None
    path = out / "drive.mjpeg"
    with path.open("wb") as file:
        for frame in open_film(town, drive, 216, 384).frames(np.arange(0.0, 20.0, 0.1)):
            Pillow.fromarray(frame.image).save(file, "JPEG", quality=85)
    return path


def test_a_browser_sends_its_own_camera(town_live: Running, film: Path) -> None:
    fake = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    with (
        chromium([*fake, f"--use-file-for-fake-video-capture={film}"]) as browser,
        page_of(browser, f"{town_live.address}/camera", 390, 844) as page,
        Client(town_live.address) as client,
    ):
        page.fill("#name", "my phone")
        page.click("button.main")

        def session() -> Any:
            return next((s for s in client.sessions() if s["name"] == "my phone" and s["counts"]["fixes"] >= 2), None)

        found = _until(session, 120.0)
        assert found["odometry"] == "frames"
        assert found["counts"]["bad"] == 0
        page.wait_for_function("/(Locating|Lost|Sure|Not on)/.test(document.querySelector('.status').textContent)")
        assert "frames sent" in page.inner_text("dl")
        page.click("button.main")
        _until(lambda: next(s for s in client.sessions() if s["name"] == "my phone")["state"] == "ended")
        assert "Stopped" in page.inner_text(".status")


def test_ctrl_c_ends_everything(town_live: Running) -> None:
    """The last test of the module: it ends what the others used."""
    assert town_live.stop() == 0
    assert "Stopped" in "".join(town_live.lines)
    assert "Traceback" not in "".join(town_live.lines)


def test_it_ends_by_itself_and_uses_a_town_again(out: Path) -> None:
    written = (out / "town" / "aerial.tif").stat().st_mtime_ns
    with command("live", "--out", str(out), *TOWN, *QUIETLY, "--seconds", "20") as running:
        assert running.process.wait(300) == 0
    assert re.search(r"Stopped after [1-9]\d* frames", "".join(running.lines))
    assert (out / "town" / "aerial.tif").stat().st_mtime_ns == written


def test_a_token_is_asked_for_once(browser: Browser, out: Path, tmp_path: Path) -> None:
    token = "a-token-of-some-length-1234"
    (tmp_path / "token").write_text(token)
    gallery = next(out.glob("gallery-*"))
    options = (
        "--bundle",
        str(TINY_BUNDLE),
        "--state",
        str(tmp_path / "state"),
        "--token-file",
        str(tmp_path / "token"),
    )
    with command("serve", "--gallery", str(gallery), *options, "--port", "0") as running:
        _until(lambda: _ready(running.address))
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{running.address}/camera")
        assert page.url == f"{running.address}/login?/camera"
        page.fill("#token", "something else entirely")
        page.click("button")
        page.wait_for_function("document.querySelector('.problem').textContent.includes('wrong')")
        page.fill("#token", token)
        page.click("button")
        page.wait_for_url(f"{running.address}/camera")
        page.goto(running.address)
        page.wait_for_function("window.liveMap", timeout=WAIT_MS)
        assert page.inner_text(".live-banner") == "Waiting for the first camera"
        cookies = context.cookies()
        assert [cookie["httpOnly"] for cookie in cookies if cookie["name"] == "x2l"] == [True]
        assert all(token not in str(cookie["value"]) for cookie in cookies)
        assert context.request.get(f"{running.address}/map/roads.json").ok
        context.clear_cookies()
        for path in ("/map/roads.json", "/map/tiles/16/0/0", "/map/live.js"):
            assert context.request.get(running.address + path).status == 401
        context.close()
    assert token not in "".join(running.lines)


def _ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/readyz", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def test_no_map_leaves_the_pages_out(out: Path, tmp_path: Path) -> None:
    gallery = next(out.glob("gallery-*"))
    options = ("--bundle", str(TINY_BUNDLE), "--state", str(tmp_path / "state"), "--no-map", "--port", "0")
    with command("serve", "--gallery", str(gallery), *options) as running:
        _until(lambda: _ready(running.address))
        assert httpx.get(running.address, trust_env=False).status_code == 404


def test_a_display_decides_whether_a_browser_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    from x2localizer.cli import live

    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert not live._has_display()
    monkeypatch.setenv("DISPLAY", ":0")
    assert live._has_display()
