"""Do the pictures and the odometry agree?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.streets import ROUTE, drive_along, write_streets
from x2localizer.config import TrackSettings
from x2localizer.gallery import index_roads, open_gallery
from x2localizer.localize.track.confidence import track_confidence
from x2localizer.localize.track.movements import movements_between
from x2localizer.localize.track.snapshot import pack, restore
from x2localizer.localize.track.track_map import TrackMap
from x2localizer.localize.track.tracker import Tracker
from x2localizer.localize.track.view_watch import FROZEN_FRAMES, STEADY_FRAMES, ViewWatch
from x2localizer.types import Codes, Fix, Movement

FAST = TrackSettings(start_poses=40_000, most_poses=40_000, unclear_poses=30_000, least_poses=2_000)
SAME = np.eye(8)[0].astype(np.float32)


def still(time_s: float) -> list[Movement]:
    return [Movement(time_s - 1.0, time_s, 0.0, 0.0, 0.1, 0.1)]


def turned(degrees: float) -> Codes:
    """A view that is as similar to ``SAME`` as the cosine says."""
    angle = np.radians(degrees)
    view: Codes = (np.cos(angle) * np.eye(8)[0] + np.sin(angle) * np.eye(8)[1]).astype(np.float32)
    return view


def seen(views: list[Codes | None]) -> ViewWatch:
    watch = ViewWatch()
    for second, view in enumerate(views):
        assert watch.see(float(second), still(float(second)), view) == 0.0
    return watch


def test_a_view_that_stays_is_believed() -> None:
    assert not seen([SAME, turned(10), turned(25), turned(15), SAME, turned(30), turned(12)]).doubtful


def test_a_lorry_that_drives_by_is_no_doubt() -> None:
    assert not seen([SAME, turned(5), SAME, turned(80), turned(5), SAME, turned(5), SAME, turned(5)]).doubtful


def test_another_view_that_stays_is_doubted() -> None:
    assert seen([SAME, turned(5), turned(80), turned(85)]).doubtful


def test_a_view_that_changes_all_the_time_is_doubted() -> None:
    views = [turned(30.0 * (k % 2)) for k in range(STEADY_FRAMES + 1)]  # never far from the first
    assert not seen(list(views[:-1])).doubtful
    assert seen(list(views)).doubtful


def test_without_pictures_nothing_is_doubted() -> None:
    assert not seen([None, None, np.full(8, np.nan, np.float32), None]).doubtful


def test_the_end_of_a_doubtful_stand_says_how_long_it_was() -> None:
    watch = seen([SAME, turned(80), turned(80), turned(80)])
    assert watch.see(4.0, [Movement(3.0, 4.0, 9.0, 0.0, 0.1, 0.1)], SAME) == 4.0
    assert not watch.doubtful
    fine = seen([SAME, SAME, SAME])
    assert fine.see(3.0, [Movement(2.0, 3.0, 9.0, 0.0, 0.1, 0.1)], SAME) == 0.0


def moving(time_s: float) -> list[Movement]:
    return [Movement(time_s - 1.0, time_s, 9.0, 0.0, 0.1, 0.1)]


def test_the_same_view_again_and_again_is_a_frozen_picture() -> None:
    watch = ViewWatch()
    for second in range(FROZEN_FRAMES):
        watch.see(float(second), moving(float(second)), turned(0.5 * second))
        assert not watch.frozen
    watch.see(9.0, moving(9.0), turned(0.5 * FROZEN_FRAMES))
    assert watch.frozen
    watch.see(10.0, moving(10.0), turned(20))
    assert not watch.frozen


def test_a_camera_that_stands_has_no_frozen_picture() -> None:
    assert not seen([SAME] * 9).frozen


@pytest.fixture(scope="module")
def streets(tmp_path_factory: pytest.TempPathFactory) -> TrackMap:
    folder: Path = tmp_path_factory.mktemp("streets")
    index_roads([write_streets(folder / "streets.geojson")], str(folder / "gallery"))
    return TrackMap.of(open_gallery(folder / "gallery"))


def test_a_speed_that_is_stuck_at_zero_is_not_believed(streets: TrackMap) -> None:
    """Found on its way, then the speed sticks at zero while the view changes: unsure, and so after a restart."""
    record = drive_along(ROUTE, speed_m_s=12.0).record()
    stuck_s, last_s = 150, 190

    def new_tracker() -> Tracker:
        return Tracker(
            streets, None, FAST, scale_sd=record.scale_sd, bias_sd_deg_s=record.bias_sd_deg_s,
            confidence=track_confidence(None, TrackSettings()),
        )  # fmt: skip

    def follow(tracker: Tracker, start: int, end: int, views: Codes) -> list[Fix]:
        fixes = []
        for second in range(start, end):
            driven = movements_between(record, second - 1.0, float(second), FAST.step_s) if second else []
            movements = still(float(second)) if second >= stuck_s else driven
            fixes.append(tracker.advance(second, float(second), movements, views[second]))
        return fixes

    rng = np.random.default_rng(0)
    changing = rng.standard_normal((last_s, 32)).astype(np.float32)
    tracker = new_tracker()
    fixes = follow(tracker, 0, stuck_s, changing)
    if fixes[-1].status != "tracking":
        pytest.fail("the drive should be found by then")
    state = pack(tracker)
    assert all(fix.status == "tracking" for fix in follow(tracker, stuck_s, last_s, np.repeat(changing[:1], last_s, 0)))
    restored = new_tracker()
    restore(restored, state)
    first = follow(restored, stuck_s, stuck_s + 3, changing)
    again = new_tracker()
    restore(again, pack(restored))
    later = follow(again, stuck_s + 3, last_s, changing)
    assert not any(fix.status == "tracking" for fix in [*first[2:], *later])
    assert max(fix.confidence for fix in later) == 0.0
