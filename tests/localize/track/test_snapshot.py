"""A tracker that was stored and restored goes on as if nothing had happened."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from helpers.streets import ROUTE, StreetDrive, drive_along, write_streets
from x2localizer.config import TrackSettings
from x2localizer.encoders import Bundle
from x2localizer.gallery import index, index_roads, open_gallery
from x2localizer.localize.track.movements import movements_between
from x2localizer.localize.track.snapshot import SnapshotError, pack, restore
from x2localizer.localize.track.track_map import TrackMap
from x2localizer.localize.track.tracker import Tracker
from x2localizer.sources.motion import MotionRecord
from x2localizer.town.folder import save_town
from x2localizer.town.town import Town
from x2localizer.types import Codes, Fix

FAST = TrackSettings(start_poses=10_000, most_poses=10_000, unclear_poses=8_000, least_poses=1_000)


@pytest.fixture(scope="module")
def streets(tmp_path_factory: pytest.TempPathFactory) -> TrackMap:
    folder = tmp_path_factory.mktemp("streets")
    index_roads([write_streets(folder / "streets.geojson")], str(folder / "gallery"))
    return TrackMap.of(open_gallery(folder / "gallery"))


@pytest.fixture(scope="module")
def drive() -> StreetDrive:
    return drive_along(ROUTE, speed_m_s=12.0)


def new_tracker(track_map: TrackMap, tuned: TrackSettings = FAST, bundle: Bundle | None = None) -> Tracker:
    return Tracker(track_map, bundle, tuned, scale_sd=0.03, bias_sd_deg_s=0.05)


def follow(tracker: Tracker, record: MotionRecord, start: int, end: int, codes: Codes | None = None) -> list[Fix]:
    fixes = []
    for second in range(start, end):
        movements = movements_between(record, second - 1.0, float(second), 0.5) if second else ()
        fixes.append(tracker.advance(second, float(second), movements, None if codes is None else codes[second]))
    return fixes


def rows(fixes: list[Fix]) -> list[tuple[object, ...]]:
    return [
        (f.index, f.guess, f.confidence, f.heading_deg, f.on_map, f.status, f.similarity, f.evidence) for f in fixes
    ]


@pytest.mark.parametrize("stop", [1, 20, 47])
def test_a_restored_tracker_gives_the_same_fixes(streets: TrackMap, drive: StreetDrive, stop: int) -> None:
    whole = follow(new_tracker(streets), drive.record(), 0, 60)
    first = new_tracker(streets)
    follow(first, drive.record(), 0, stop)
    second = new_tracker(streets)
    restore(second, pack(first))
    assert rows(follow(second, drive.record(), stop, 60)) == rows(whole[stop:])


def test_a_search_that_is_under_way_is_kept(streets: TrackMap, drive: StreetDrive) -> None:
    doubtful = FAST.model_copy(update={"search_below": 1.0, "search_pause_s": 0.0, "search_s": 500.0})
    first = new_tracker(streets, doubtful)
    follow(first, drive.record(), 0, 40)
    assert first._search is not None
    second = new_tracker(streets, doubtful)
    restore(second, pack(first))
    there = follow(first, drive.record(), 40, 60)
    assert rows(follow(second, drive.record(), 40, 60)) == rows(there)
    assert first.searches == second.searches


def test_tiles_are_kept_too(tmp_path: Path, town: Town, tiny_bundle: Bundle, drive: StreetDrive) -> None:
    save_town(town, tmp_path)
    gallery = index(tmp_path / "aerial.tif", tiny_bundle, tmp_path / "gallery", roads=[tmp_path / "roads.geojson"])
    track_map = TrackMap.of(gallery)
    codes = np.random.default_rng(1).normal(size=(30, tiny_bundle.spec.dim)).astype(np.float32)
    codes /= np.linalg.norm(codes, axis=1, keepdims=True)
    first = new_tracker(track_map, bundle=tiny_bundle)
    follow(first, drive.record(), 0, 15, codes)
    second = new_tracker(track_map, bundle=tiny_bundle)
    restore(second, pack(first))
    there = follow(first, drive.record(), 15, 30, codes)
    assert rows(follow(second, drive.record(), 15, 30, codes)) == rows(there)


def test_damaged_bytes_are_refused_and_change_nothing(streets: TrackMap, drive: StreetDrive) -> None:
    tracker = new_tracker(streets)
    follow(tracker, drive.record(), 0, 5)
    data = pack(tracker)
    untouched, other = new_tracker(streets), new_tracker(streets)
    for bad in (b"", b"PK", data[: len(data) // 2], b"\x80\x04N.", data.replace(b'"format": 1', b'"format": 9')):
        with pytest.raises(SnapshotError, match="damaged"):
            restore(other, bad)
    assert rows(follow(other, drive.record(), 0, 3)) == rows(follow(untouched, drive.record(), 0, 3))


def test_an_archive_with_objects_is_not_opened(streets: TrackMap) -> None:
    out = io.BytesIO()
    np.savez(out, about=np.array([{"format": 1}], dtype=object))
    with pytest.raises(SnapshotError, match="damaged"):
        restore(new_tracker(streets), out.getvalue())


def test_a_snapshot_of_other_settings_is_refused(streets: TrackMap) -> None:
    data = pack(new_tracker(streets))
    with pytest.raises(SnapshotError, match="another gallery"):
        restore(new_tracker(streets, FAST.model_copy(update={"road_weight": 0.6})), data)


def test_the_state_is_plain_json_and_arrays(streets: TrackMap) -> None:
    with np.load(io.BytesIO(pack(new_tracker(streets))), allow_pickle=False) as archive:
        assert json.loads(archive["about"].tobytes())["format"] == 1
        assert archive["poses"].dtype == np.float64
