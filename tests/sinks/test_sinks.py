"""A track in every format, as it comes and at the end; and the whole job in one call from Python."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from x2localizer import localize_video
from x2localizer.encoders import Bundle
from x2localizer.gallery import Gallery, index
from x2localizer.localize.stretches import stretches
from x2localizer.localize.summary import summarize
from x2localizer.show.report import heatmap, report_page
from x2localizer.sinks import TrackContext, TrackFolder, sinks
from x2localizer.sinks.folder import MOST_VIEWS
from x2localizer.sources.tracks import Track, read_track
from x2localizer.town.folder import save_drive, save_town
from x2localizer.town.town import Town
from x2localizer.types import Candidate, Fix, Frame, Position, Region, View


def _fixes(count: int, lost: range = range(0)) -> list[Fix]:
    """A drive to the east; every fifth frame is searched."""
    region = Region(19, 160000, 200000, 7)
    image = np.full((8, 16, 3), 90, np.uint8)
    fixes = []
    for i in range(count):
        view = View(Frame(i, float(i), image), region, np.eye(13, dtype=np.float32), np.ones((13, 13), np.bool_))
        fixes.append(
            Fix(i, float(i), "lost" if i in lost else "tracking", Position(39.0, -70.0 + i * 1e-4), 0.9, 0.7, region,
                (Candidate(region, 0.8),), i % 5 == 0, None, view)
        )  # fmt: skip
    return fixes


def test_the_track_is_written_in_every_format(tmp_path: Path) -> None:
    fixes = _fixes(60, lost=range(20, 24))
    formats = [name for name in sinks.names() if name not in ("report", "map")]
    with TrackFolder(TrackContext(tmp_path / "t", "a drive"), formats) as folder:
        for count, fix in enumerate(fixes, 1):
            folder.write(fix)
            lines = (tmp_path / "t" / "fixes.jsonl").read_text().splitlines()
            assert len(lines) == count, "on disk as they come"
    assert json.loads(lines[0])["candidates"] == [["19/160000/200000x7", 0.8]]
    assert "candidates" not in json.loads(lines[1])
    assert {path.name for path in folder.files} == {path.name for path in (tmp_path / "t").iterdir()}
    track = read_track(tmp_path / "t" / "track.gpx")
    assert len(track) == 56
    assert (tmp_path / "t" / "track.csv").read_text().count("\n") == 61
    shapes = json.loads((tmp_path / "t" / "track.geojson").read_text())["features"]
    assert sum(shape["geometry"]["type"] == "Point" for shape in shapes) == 60
    assert sum(shape["geometry"]["type"] == "LineString" for shape in shapes) == 2
    lines_of_kml = ET.fromstring((tmp_path / "t" / "track.kml").read_text()).iter(
        "{http://www.opengis.net/kml/2.2}coordinates"
    )
    assert [len((line.text or "").split()) for line in lines_of_kml] == [20, 36]


def test_what_came_before_a_crash_is_on_disk(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), TrackFolder(TrackContext(tmp_path), ["jsonl", "gpx"]) as folder:
        folder.write(_fixes(1)[0])
        raise RuntimeError("a crash")
    assert (tmp_path / "fixes.jsonl").read_text().count("\n") == 1
    assert not (tmp_path / "track.gpx").exists()
    with pytest.raises(KeyboardInterrupt), TrackFolder(TrackContext(tmp_path), ["jsonl", "gpx"]) as folder:
        folder.write(_fixes(1)[0])
        raise KeyboardInterrupt
    assert len(read_track(tmp_path / "track.gpx")) == 1


def test_a_name_with_control_characters_makes_a_file_that_can_be_read(tmp_path: Path) -> None:
    with TrackFolder(TrackContext(tmp_path, "a\x01b<c>\x7f"), ["kml"]) as folder:
        folder.write(_fixes(1)[0])
    root = ET.fromstring((tmp_path / "track.kml").read_text())
    assert root.findtext(".//{http://www.opengis.net/kml/2.2}name") == "ab<c>"


def test_views_are_spread_over_the_whole_track(tmp_path: Path) -> None:
    """Also where frames are missing: an interruption must not end the views."""
    fixes = [fix for fix in _fixes(3000) if not 601 <= fix.index < 640]
    context = TrackContext(tmp_path)
    with TrackFolder(context, []) as folder:
        for fix in fixes:
            folder.write(fix)
    times = [view.frame.time_s for view in context.views]
    assert MOST_VIEWS / 2 <= len(times) <= MOST_VIEWS
    assert max(np.diff([0.0, *times, 3000.0])) <= 3000 / MOST_VIEWS * 3
    assert all(fix.view is None for fix in context.fixes), "pictures of a long drive would fill the memory"


def test_a_track_breaks_where_it_is_not_sure() -> None:
    fixes = _fixes(8, lost=range(3, 5))
    assert [[fix.index for fix in stretch] for stretch in stretches(fixes)] == [[0, 1, 2], [5, 6, 7]]
    jumped = [replace(fix, guess=Position(39.01, -70.0)) if fix.index >= 6 else fix for fix in fixes]
    assert [[fix.index for fix in stretch] for stretch in stretches(jumped)] == [[0, 1, 2], [5], [6, 7]]
    assert summarize(fixes).tracking_percent == 75.0
    assert summarize([]).frames == 0


def test_a_summary_has_labels_and_units() -> None:
    fixes = _fixes(40, lost=range(2, 40))
    truth = Track(np.arange(40.0), np.full(40, 39.0), np.linspace(-70.0, -70.0 + 39e-4, 40), None)
    rows = dict(summarize(fixes, truth).to_rows())
    assert rows["sure of the position"] == "5% of the frames"
    assert rows["first sure position"] == "after 0 s"
    assert rows["within 80 m of the truth"] == "100% of all guesses"
    assert rows["median error"] == "0 m"


def test_a_heatmap_is_bright_where_the_similarity_is_high() -> None:
    values = np.zeros((3, 3), np.float32)
    values[1, 2] = 1.0
    picture = heatmap(values, np.ones((3, 3), np.bool_), scale=2)
    assert picture.shape == (6, 6, 3)
    assert picture[2:4, 4:6].mean() > 2 * picture[0:2, 0:2].mean()


@pytest.fixture(scope="module")
def place(town: Town, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    save_town(town, folder)
    save_drive(town, folder, 1, 30.0, fps=2.0, height=64, width=128)
    return folder


@pytest.fixture(scope="module")
def gallery(place: Path, tiny_bundle: Bundle) -> Gallery:
    return index(place / "aerial.tif", tiny_bundle, place / "g")


def test_one_call_localizes_a_video_and_writes_files_and_report(
    place: Path, gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    truth = read_track(place / "drive.gpx")
    done: list[float] = []
    result = localize_video(
        place / "drive.mp4", place / "g", tiny_bundle.root, tmp_path / "a", truth=truth, title="A <drive>",
        progress=lambda done_s, total_s: done.append(done_s),
    )  # fmt: skip
    assert result.summary.with_truth == len(result.fixes) == len(done) == 30
    assert not result.calibrated
    assert {path.name for path in result.files} == {path.name for path in (tmp_path / "a").iterdir()}
    page = (tmp_path / "a" / "report.html").read_text()
    assert "A &lt;drive&gt;" in page
    assert page.count("<figure id=") > 1
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert (tmp_path / "a" / "map.jpg").read_bytes().startswith(b"\xff\xd8")
    again = localize_video(place / "drive.mp4", gallery, tiny_bundle, tmp_path / "b", formats=["gpx"])
    assert [path.name for path in again.files] == ["track.gpx"]
    assert [fix.guess for fix in again.fixes] == [fix.guess for fix in result.fixes]


def test_a_report_without_truth_and_without_any_region_is_still_a_page(gallery: Gallery) -> None:
    fixes = [Fix(0, 0.0, "lost")]
    page = report_page(fixes, [], gallery, summarize(fixes))
    assert "<h1>" in page
    assert "never" in page
