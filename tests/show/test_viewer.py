"""The map of a report: what is written into the page, and what a browser makes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from helpers.browser import chromium, needs_chromium, page_of
from helpers.driven_town import DrivenTown, drive_through
from helpers.gallery_files import write_noise
from x2localizer import geo
from x2localizer.encoders import Bundle
from x2localizer.gallery import Gallery, index
from x2localizer.localize.summary import summarize
from x2localizer.show import viewer as viewer_module
from x2localizer.show.report import report_page
from x2localizer.show.viewer import bounded_webp, viewer
from x2localizer.sources.tracks import Track
from x2localizer.town.town import Town
from x2localizer.types import Candidate, ErrorEllipse, Fix, Frame, Position, Region, Status, View

ELLIPSE = ErrorEllipse(20.0, 8.0, 90.0)


def _at(column: float, row: float) -> Position:
    lat, lon = geo.from_tile_coordinates(160_000 + column, 200_000 + row, 19)
    return Position(float(lat), float(geo.wrap_longitude(lon)))


def _fixes() -> list[Fix]:
    """Forty seconds to the east: locating, sure, lost without a guess, then probably not on the map."""
    region = Region(19, 160_000, 200_000, 7)
    fixes = []
    for i in range(40):
        status: Status = "locating" if i < 8 else "lost" if i >= 30 else "tracking"
        fixes.append(
            Fix(i, float(i), status, None if 30 <= i < 35 else _at(1.0 + 0.1 * i, 3.0), 0.1 + i / 50, 0.5, region,
                (Candidate(region, 0.8),), i in (0, 8), None, None, 90.0, 6.0, ELLIPSE, 0.2 if i >= 35 else 0.9)
        )  # fmt: skip
    return fixes


def _views(fixes: list[Fix]) -> list[View]:
    region, held = Region(19, 160_000, 200_000, 7), np.ones((13, 13), np.bool_)
    frame = np.full((24, 48, 3), 90, np.uint8)
    return [View(Frame(i, float(i), frame), region, np.eye(13, dtype=np.float32), held) for i in (5, 25)]


def _truth() -> Track:
    places = [_at(1.0 + 0.1 * i, 3.1) for i in range(40)]
    return Track(np.arange(40.0), np.array([p.lat_deg for p in places]), np.array([p.lon_deg for p in places]), None)


def _data(page: str) -> dict[str, Any]:
    found = re.search(r'id="map-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory, tiny_bundle: Bundle) -> Gallery:
    folder = tmp_path_factory.mktemp("imagery")
    return index(write_noise(folder / "a.tif", 160_000, 200_000, 8), tiny_bundle, folder / "g")


@pytest.fixture(scope="module")
def driven(town: Town, tmp_path_factory: pytest.TempPathFactory) -> DrivenTown:
    return drive_through(town, tmp_path_factory.mktemp("driven"), seconds=60.0)


@pytest.fixture(scope="module")
def followed(driven: DrivenTown) -> list[Fix]:
    return driven.follow()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def report(gallery: Gallery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    fixes = _fixes()
    path = tmp_path_factory.mktemp("report") / "report.html"
    text = report_page(fixes, _views(fixes), gallery, summarize(fixes, _truth()), _truth(), "</script><b>A drive")
    path.write_text(text, encoding="utf-8")
    return path


def test_places_are_where_they_belong(gallery: Gallery) -> None:
    data = _data(viewer(gallery, _fixes(), [], _truth()) or "")
    frame, fixes = data["map"], data["fixes"]
    column = frame["west"] + fixes["x"][10] / frame["units"]
    row = frame["north"] + fixes["y"][10] / frame["units"]
    assert (column, row) == pytest.approx((160_002.0, 200_003.0), abs=0.002)
    assert data["truth"]["y"][10] - fixes["y"][10] == pytest.approx(0.1 * 256, abs=0.2)
    assert fixes["x"][30:35] == [None] * 5
    assert fixes["status"] == "l" * 8 + "t" * 22 + "x" * 10
    assert frame["metres"] * 256 == pytest.approx(geo.tile_size_m(_at(0, 3).lat_deg, 19), rel=1e-3)
    assert data["picture"].startswith("data:image/webp;base64,")


def test_roads_alone_make_a_map_without_a_picture(driven: DrivenTown, followed: list[Fix]) -> None:
    data = _data(viewer(driven.gallery, followed, []) or "")
    assert data["picture"] is None
    roads = driven.gallery.roads()
    assert 0 < sum(len(lines) for lines in data["roads"]) <= len(roads)
    first = data["roads"][1][0]
    end = (sum(first[::2]) / 10, sum(first[1::2]) / 10)
    frame = data["map"]
    x, y = geo.tile_coordinates(roads.points_deg[:, 0], roads.points_deg[:, 1], frame["z"])
    there = np.stack([(x - frame["west"]) * 256, (y - frame["north"]) * 256], 1)
    assert np.hypot(*(there - end).T).min() < 0.5, "steps add up to a point of a road"


def test_very_many_points_of_roads_are_thinned(
    driven: DrivenTown, followed: list[Fix], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _data(viewer(driven.gallery, followed, []) or "")["roads"]
    most = sum(len(line) // 2 for line in whole[1]) // 2
    monkeypatch.setattr(viewer_module, "MOST_ROAD_POINTS", most)
    thinned = _data(viewer(driven.gallery, followed, []) or "")["roads"]
    assert 0 < sum(len(line) // 2 for line in thinned[1]) <= most
    assert {tuple(line[:2]) for line in thinned[1]} <= {tuple(line[:2]) for line in whole[1]}


def test_a_picture_is_made_small_enough() -> None:
    noise = np.random.default_rng(0).integers(0, 255, (256, 256, 4), dtype=np.uint8)
    assert len(bounded_webp(noise, 20_000)) <= 20_000 < len(bounded_webp(noise))


def test_a_day_of_driving_is_thinned(gallery: Gallery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer_module, "MOST_FIXES", 10)
    assert _data(viewer(gallery, _fixes(), []) or "")["fixes"]["time"] == [0.0, *(4.0 * k for k in range(1, 10))]


@needs_chromium
def test_the_map_pans_zooms_and_says_where_the_pointer_is(browser: Browser, report: Path) -> None:
    with page_of(browser, report, offline=True) as page:
        assert page.title() == "</script><b>A drive"
        stage = page.locator(".map-stage canvas")
        stage.scroll_into_view_if_needed()
        zoom = page.evaluate("trackMap.zoom")
        stage.focus()
        page.keyboard.press("+")
        assert page.evaluate("trackMap.zoom") == pytest.approx(1.5 * zoom)
        left = page.evaluate("trackMap.left")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("trackMap.left") > left
        page.keyboard.press("0")
        assert page.evaluate("trackMap.zoom") == pytest.approx(zoom)
        box = stage.bounding_box()
        assert box is not None
        middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.move(*middle)
        page.mouse.wheel(0, -300)
        page.wait_for_function(f"trackMap.zoom > {1.9 * zoom}")
        before = page.evaluate("[trackMap.left, trackMap.top]")
        page.mouse.down()
        page.mouse.move(middle[0] + 50, middle[1] + 20)
        page.mouse.up()
        after = page.evaluate("[trackMap.left, trackMap.top]")
        moved = [(b - a) * page.evaluate("trackMap.zoom") for a, b in zip(after, before, strict=True)]
        assert moved == pytest.approx([50.0, 20.0], abs=1.5)
        lat, lon = _where(page, *page.evaluate("trackMap.toScreen(trackMap.fixes.x[20], trackMap.fixes.y[20])"))
        assert float(geo.distance_m(lat, lon, _at(3, 3).lat_deg, _at(3, 3).lon_deg)) < 2.0
        assert re.fullmatch(r"\d+ k?m", page.inner_text(".map-scale span"))


def _where(page: Page, x: float, y: float) -> tuple[float, float]:
    """What the map says under a place on its canvas."""
    page.locator(".map-stage canvas").hover(position={"x": x, "y": y})
    lat, lon = page.inner_text(".map-place").split(", ")
    return float(lat), float(lon)


@needs_chromium
def test_a_click_shows_the_fix_and_its_frame(browser: Browser, report: Path) -> None:
    with page_of(browser, report) as page:
        stage = page.locator(".map-stage canvas")
        x, y = page.evaluate("trackMap.toScreen(trackMap.fixes.x[22], trackMap.fixes.y[22])")
        stage.click(position={"x": x, "y": y})
        assert "Sure of the position" in page.inner_text(".map-status")
        assert "00:22" in page.inner_text(".map-panel dl")
        assert "Frame at 00:25" in page.inner_text(".map-panel figcaption")
        assert "20 × 8 m" in page.inner_text(".map-panel dl")
        page.locator("input[type=range]").fill("31")
        assert "Lost: no guess" in page.inner_text(".map-status")
        assert page.locator(".map-banner").is_hidden()
        page.locator("input[type=range]").fill("37")
        assert page.inner_text(".map-banner") == "Probably not on this map"


@needs_chromium
def test_the_track_replays(browser: Browser, report: Path) -> None:
    with page_of(browser, report) as page:
        page.select_option("select", "100")
        page.click("[data-do=play]")
        page.wait_for_function("trackMap.at > 5 && trackMap.at < 39", polling=5)
        page.wait_for_function("trackMap.at === 39 && !trackMap.playing")


@needs_chromium
def test_two_fingers_zoom_on_a_phone_at_night(browser: Browser, report: Path) -> None:
    with page_of(browser, report, 390, 844, dark=True, touch=True) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate("trackMap.colours.ground") == "#16191d"
        zoom = page.evaluate("trackMap.zoom")
        page.evaluate("""() => {
            const canvas = trackMap.canvas, box = canvas.getBoundingClientRect();
            canvas.setPointerCapture = () => {};  // these fingers are not real
            const finger = (type, id, x) => canvas.dispatchEvent(new PointerEvent(type,
                { pointerId: id, pointerType: "touch", clientX: box.x + x, clientY: box.y + 200, bubbles: true }));
            finger("pointerdown", 1, 150); finger("pointerdown", 2, 200);
            finger("pointermove", 2, 250); finger("pointerup", 1, 150); finger("pointerup", 2, 250);
        }""")
        assert page.evaluate("trackMap.zoom") == pytest.approx(2 * zoom, rel=0.01)


@needs_chromium
def test_roads_alone_can_be_looked_at(
    browser: Browser, driven: DrivenTown, followed: list[Fix], tmp_path: Path
) -> None:
    path = tmp_path / "roads.html"
    path.write_text(report_page(followed, [], driven.gallery, summarize(followed)), encoding="utf-8")
    with page_of(browser, path) as page:
        assert "imagery" not in page.inner_text(".map-layers")
        colours = page.evaluate("""() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
            const { width, height } = trackMap.canvas, data = trackMap.pen.getImageData(0, 0, width, height).data;
            const seen = new Set();
            for (let i = 0; i < data.length; i += 4) seen.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
            done([...seen]);
        })))""")
        assert "255,255,255" in colours, "streets are drawn"
