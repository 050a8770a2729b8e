"""A whole drive from Python: tracked by its video, by recorded motion, on roads alone; and what cannot work."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from helpers.driven_town import DrivenTown, drive_through, write_roads
from x2localizer import localize_odometry, localize_video, open_gallery, read_track
from x2localizer.config import LocalizeSettings, TrackSettings
from x2localizer.encoders import Bundle
from x2localizer.errors import ConfigError, GalleryError, MotionError, VideoError
from x2localizer.gallery import Gallery, index
from x2localizer.search import CirclePrior
from x2localizer.sources.motion import write_motion
from x2localizer.town.folder import save_drive, save_town
from x2localizer.town.town import Town
from x2localizer.types import Position

SECONDS = 40.0


@pytest.fixture(scope="module")
def place(town: Town, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A town with its roads, and a short drive through it at 5 frames a second."""
    folder = tmp_path_factory.mktemp("place")
    save_town(town, folder)
    save_drive(town, folder, 3, SECONDS, fps=5.0, height=108, width=192)
    return folder


@pytest.fixture(scope="module")
def driven(town: Town, place: Path) -> DrivenTown:
    """The same drive by its sensors, and the roads alone."""
    return drive_through(town, place / "driven", 3, SECONDS)


@pytest.fixture(scope="module")
def gallery(town: Town, place: Path, tiny_bundle: Bundle) -> Gallery:
    """Tiles and roads."""
    return index(place / "aerial.tif", tiny_bundle, place / "g", roads=[write_roads(town, place / "r.geojson")])


def _rows(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "fixes.jsonl").read_text().splitlines()]


def test_a_video_is_tracked_by_its_own_odometry(
    place: Path, gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    done: list[float] = []
    result = localize_video(
        place / "drive.mp4", gallery, tiny_bundle, tmp_path, truth=read_track(place / "drive.gpx"),
        progress=lambda done_s, total_s: done.append(done_s),
    )  # fmt: skip
    summary = result.summary
    assert result.method == "track"
    assert result.note is None
    assert (summary.odometry, summary.smoothed) == ("from the video", True)
    assert len(result.fixes) == len(done) == summary.with_truth == SECONDS
    assert summary.on_map is not None
    rows = _rows(tmp_path)
    assert [row["lat_deg"] for row in rows] == [
        None if fix.guess is None else round(fix.guess.lat_deg, 7) for fix in result.fixes
    ], "the smoothed fixes, as in all files"
    last = rows[-1]
    assert all(isinstance(last[name], float) for name in ("heading_deg", "speed_m_s", "ellipse_major_m", "on_map"))
    header = (tmp_path / "track.csv").read_text().splitlines()[0].split(",")
    assert {"ellipse_minor_m", "ellipse_angle_deg"} <= set(header)
    page = (tmp_path / "report.html").read_text()
    assert "smoothed" in page
    assert page.count("data:image/jpeg") > 3


def test_live_fixes_are_kept_as_they_came(place: Path, driven: DrivenTown, tmp_path: Path) -> None:
    live = localize_odometry(driven.motion, driven.gallery, tmp_path / "a", live=True, formats=["jsonl"])
    assert not live.summary.smoothed
    assert dict(live.summary.to_rows())["fixes"] == "live"
    plain = driven.follow()
    assert [fix.guess for fix in live.fixes] == [fix.guess for fix in plain]


def test_roads_alone_need_no_bundle(place: Path, driven: DrivenTown, tmp_path: Path) -> None:
    result = localize_video(place / "drive.mp4", driven.gallery.address, "no such bundle", tmp_path)
    assert len(result.fixes) == SECONDS
    assert all(fix.guess is not None for fix in result.fixes)
    with Pillow.open(tmp_path / "map.jpg") as picture:
        assert max(picture.size) > 1000


def test_recorded_motion_replaces_that_of_the_video(place: Path, driven: DrivenTown, tmp_path: Path) -> None:
    write_motion(tmp_path / "motion.csv", driven.motion)
    result = localize_video(
        place / "drive.mp4", driven.gallery, out=tmp_path, odometry=tmp_path / "motion.csv", formats=["jsonl"]
    )
    assert result.summary.odometry == "recorded"
    assert len(result.fixes) == SECONDS
    early = localize_video(place / "drive.mp4", driven.gallery, out=tmp_path, odometry=driven.motion.shifted(25.0))
    assert sum(fix.guess is not None for fix in early.fixes) < 18, "nothing is known after its end"
    for shift in (1000.0, -1000.0):
        with pytest.raises(MotionError, match="--odometry-offset"):
            localize_video(place / "drive.mp4", driven.gallery, out=tmp_path, odometry=driven.motion.shifted(shift))


def test_motion_alone_becomes_a_track(driven: DrivenTown, tmp_path: Path) -> None:
    write_motion(tmp_path / "drive.csv", driven.motion)
    result = localize_odometry(tmp_path / "drive.csv", driven.gallery.address, tmp_path / "t", truth=driven.truth)
    assert len(result.fixes) == SECONDS
    assert result.summary.with_truth == SECONDS
    assert (tmp_path / "t" / "report.html").is_file()
    far = localize_odometry(driven.motion, driven.gallery, tmp_path / "u", formats=[])
    assert far.files == ()


def test_pictures_far_apart_are_localized_by_windows(
    gallery: Gallery, driven: DrivenTown, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    folder = tmp_path / "images"
    folder.mkdir()
    for i in range(15):
        Pillow.fromarray(rng.integers(0, 256, (64, 128, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    (folder / "times.csv").write_text("file,time_s\n" + "".join(f"{i}.png,{5 * i}\n" for i in range(15)))
    result = localize_video(folder, gallery, tiny_bundle, tmp_path / "t")
    assert result.method == "window"
    assert result.note is not None
    assert result.summary.odometry is None
    assert [fix.time_s for fix in result.fixes] == [5.0 * i for i in range(15)]
    assert result.summary.searches > 0
    with pytest.raises(VideoError, match="--odometry FILE"):
        localize_video(folder, driven.gallery, out=tmp_path / "u")


def test_what_cannot_work_is_a_clear_error(
    place: Path, gallery: Gallery, driven: DrivenTown, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    video = place / "drive.mp4"
    with pytest.raises(GalleryError, match="no tiles"):
        localize_video(video, driven.gallery, tiny_bundle, tmp_path, method="window")
    with pytest.raises(ConfigError, match="not settings of the method"):
        localize_video(video, gallery, tiny_bundle, tmp_path, LocalizeSettings(), method="track")
    with pytest.raises(ConfigError, match="not settings of the method"):
        localize_video(video, gallery, tiny_bundle, tmp_path, TrackSettings(), method="window")
    with pytest.raises(ConfigError, match="no method 'tracking'"):
        localize_video(video, gallery, tiny_bundle, tmp_path, method="tracking")  # type: ignore[arg-type]
    elsewhere = CirclePrior(Position(-33.0, 151.0), 5000.0)
    with pytest.raises(GalleryError, match="nothing near that place"):
        localize_video(video, gallery, tiny_bundle, tmp_path, prior=elsewhere)
    with pytest.raises(GalleryError, match="nothing to track on there"):
        localize_video(video, driven.gallery, out=tmp_path, prior=elsewhere)
    bare = replace(open_gallery(gallery.address), manifest=replace(gallery.manifest, roads=()))
    with pytest.raises(GalleryError, match="no roads"):
        localize_odometry(driven.motion, bare, tmp_path)
