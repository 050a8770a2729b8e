"""A drive by odometry over a net of streets, without a picture: found, followed, lost, found again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.streets import ROUTE, StreetDrive, drive_along, drive_through, motorway, street_lines, write_streets
from x2localizer.config import TrackSettings
from x2localizer.encoders.bundle import shipped
from x2localizer.errors import BundleError, GalleryError
from x2localizer.gallery import Gallery, index_roads, open_gallery
from x2localizer.localize.track.confidence import FEATURES, UNFITTED, TrackConfidence, track_confidence
from x2localizer.localize.track.movements import movements_between
from x2localizer.localize.track.second_pass import second_pass
from x2localizer.localize.track.starts import Starts
from x2localizer.localize.track.track_map import TrackMap
from x2localizer.localize.track.tracker import Tracker
from x2localizer.search import BoxPrior, CirclePrior
from x2localizer.sources.motion import MotionRecord
from x2localizer.types import Fix, Position, TrackEvidence

FAST = TrackSettings(start_poses=40_000, most_poses=40_000, unclear_poses=30_000, least_poses=2_000)
Gap = tuple[float, float]
ARRAYS = ("times_s", "distances_m", "headings_deg", "distance_vars", "heading_vars")


def _gallery(folder: Path, mirrored: bool = False) -> Gallery:
    file = write_streets(folder / "streets.geojson", mirrored=mirrored)
    index_roads([file], str(folder / "gallery"))
    return open_gallery(folder / "gallery")


@pytest.fixture(scope="module")
def streets(tmp_path_factory: pytest.TempPathFactory) -> TrackMap:
    return TrackMap.of(_gallery(tmp_path_factory.mktemp("streets")))


@pytest.fixture(scope="module")
def drive() -> StreetDrive:
    return drive_along(ROUTE, speed_m_s=12.0)


def follow(
    track_map: TrackMap, record: MotionRecord, gap: Gap | None = None, tuned: TrackSettings = FAST,
    *, keeps_steps: bool = False,
) -> tuple[Tracker, list[Fix]]:  # fmt: skip
    tracker = Tracker(
        track_map, None, tuned, scale_sd=record.scale_sd, bias_sd_deg_s=record.bias_sd_deg_s, keeps_steps=keeps_steps,
        confidence=track_confidence(None, TrackSettings()),
    )  # fmt: skip
    times = np.arange(record.times_s[0], record.times_s[-1], 1.0)
    fixes: list[Fix] = []
    last = float(times[0])
    for index, time_s in enumerate(times):
        if gap is not None and gap[0] < time_s < gap[1]:
            continue
        known = gap is None or not (last <= gap[0] < time_s)
        movements = movements_between(record, last, float(time_s), tuned.step_s) if known else []
        fixes.append(tracker.advance(index, float(time_s), movements))
        last = float(time_s)
    return tracker, fixes


def errors(drive: StreetDrive, fixes: list[Fix], shift_s: float = 0.0, mirrored: bool = False) -> np.ndarray:
    return np.array([
        drive.error_m(fix.time_s - shift_s, fix.guess.lat_deg, fix.guess.lon_deg, mirrored)
        for fix in fixes
        if fix.guess is not None
    ])  # fmt: skip


def test_a_drive_is_found_by_its_turns_alone(streets: TrackMap, drive: StreetDrive) -> None:
    _, fixes = follow(streets, drive.record())
    late = errors(drive, fixes)[-60:]
    assert np.median(late) < 10.0
    assert late.max() < 40.0
    last = fixes[-1]
    assert last.on_map is not None
    assert last.on_map > 0.9
    heading = float(np.interp(last.time_s, drive.times_s, drive.headings_deg))
    assert last.heading_deg is not None
    assert abs((last.heading_deg - heading + 180) % 360 - 180) < 8.0
    assert last.speed_m_s == pytest.approx(12.0, rel=0.06)
    assert last.ellipse is not None
    assert 1.0 < last.ellipse.major_m < 60.0


def test_the_answer_is_the_same_each_time(streets: TrackMap, drive: StreetDrive) -> None:
    half = drive.record()
    short = replace(half, **{name: getattr(half, name)[:600] for name in ARRAYS})
    first, again = (follow(streets, short)[1] for _ in range(2))
    assert [fix.guess for fix in first] == [fix.guess for fix in again]


@pytest.mark.parametrize("shift", [-777, 86_400])
def test_shifting_the_clock_changes_nothing(streets: TrackMap, drive: StreetDrive, shift: int) -> None:
    record = drive.record()
    plain = follow(streets, record)[1]
    shifted = follow(streets, record.shifted(-float(shift)))[1]
    there = errors(drive, plain)[-40:]
    assert errors(drive, shifted, shift_s=float(shift))[-40:] == pytest.approx(there, abs=3.0)


def test_a_mirrored_world_gives_the_mirrored_answer(tmp_path: Path, drive: StreetDrive) -> None:
    mirrored = TrackMap.of(_gallery(tmp_path, mirrored=True))
    record = drive.record()
    turned = replace(record, headings_deg=-np.asarray(record.headings_deg))
    late = errors(drive, follow(mirrored, turned)[1], mirrored=True)[-60:]
    assert np.median(late) < 10.0


def test_the_scale_of_the_odometry_is_estimated(streets: TrackMap, drive: StreetDrive) -> None:
    many = FAST.model_copy(update={"start_poses": 120_000, "most_poses": 120_000})  # scales are one dimension more
    tracker, fixes = follow(streets, drive.record(scale=0.93, scale_sd=0.08), tuned=many)
    assert np.median(errors(drive, fixes)[-40:]) < 15.0
    assert tracker.belief.estimate().scale == pytest.approx(1 / 0.93, abs=0.03)


def test_after_a_gap_it_is_found_again(streets: TrackMap, drive: StreetDrive) -> None:
    end = float(drive.times_s[-1])
    _, fixes = follow(streets, drive.record(), gap=(0.35 * end, 0.45 * end))
    assert np.median(errors(drive, fixes)[-30:]) < 15.0


def test_a_second_pass_knows_the_start(streets: TrackMap, drive: StreetDrive) -> None:
    tracker, fixes = follow(streets, drive.record(), keeps_steps=True)
    sure = [replace(fix, confidence=0.0) for fix in fixes]
    tracker.confidence = replace(tracker.confidence, weights=(0.0, 1.0, *(0.0,) * (len(FEATURES) - 2)), threshold=0.5)
    smoothed = second_pass(tracker, sure)
    assert [fix.index for fix in smoothed] == [fix.index for fix in fixes]
    early = slice(5, 40)
    assert np.median(errors(drive, smoothed)[early]) < 15.0
    assert np.median(errors(drive, fixes)[early]) > 50.0


def test_a_second_pass_needs_the_steps(streets: TrackMap, drive: StreetDrive) -> None:
    tracker, fixes = follow(streets, drive.record())
    assert tracker.steps == []  # a tracker that runs for days keeps nothing of what was
    with pytest.raises(ValueError, match="keeps its steps"):
        second_pass(tracker, fixes)


@pytest.fixture(scope="module")
def motorway_map(tmp_path_factory: pytest.TempPathFactory) -> TrackMap:
    folder = tmp_path_factory.mktemp("motorway")
    index_roads([write_streets(folder / "roads.geojson", motorway()[0])], str(folder / "gallery"))
    return TrackMap.of(open_gallery(folder / "gallery"))


@pytest.mark.parametrize("scale", [0.93, 0.965, 1.0, 1.035, 1.07])
def test_nothing_wrong_is_sure_on_a_motorway(motorway_map: TrackMap, scale: float) -> None:
    drive = drive_through(motorway()[1], speed_m_s=25.0, radius_m=15.0)
    _, fixes = follow(motorway_map, drive.record(scale=scale))
    wrong = errors(drive, fixes) > 80.0
    assert not any(fix.position is not None and bad for fix, bad in zip(fixes, wrong, strict=True))
    last = fixes[-1]
    assert last.position is None
    assert last.ellipse is not None
    assert last.ellipse.major_m > errors(drive, fixes[-1:])[0]  # the ellipse owns up to it


def test_standing_for_ten_minutes_changes_nothing(streets: TrackMap, drive: StreetDrive) -> None:
    tracker, fixes = follow(streets, drive.record())
    before, start = fixes[-1], fixes[-1].time_s
    for k in range(600):  # ten minutes
        still = MotionRecord(
            np.array([start + k, start + k + 1.0]), np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2), 0.03, 0.05
        )
        fix = tracker.advance(
            len(fixes) + k, start + k + 1.0, movements_between(still, start + k, start + k + 1.0, 0.5)
        )
    assert before.guess is not None
    assert fix.guess is not None
    assert abs(fix.guess.lat_deg - before.guess.lat_deg) * 111_000 < 10.0
    assert fix.on_map == pytest.approx(before.on_map, abs=0.05)


def test_poses_stay_bounded(streets: TrackMap, drive: StreetDrive) -> None:
    tracker, _ = follow(streets, drive.record())
    assert FAST.least_poses <= tracker.belief.poses.shape[1] <= FAST.most_poses


SELDOM = 0.1
"""Share of a drive for which a lie may be believed. It should be 0, but nets of streets have ways that fit a lie."""


def test_odometry_that_lies_by_a_factor_of_three_is_seldom_believed(streets: TrackMap, drive: StreetDrive) -> None:
    _, fixes = follow(streets, drive.record(scale=3.0))
    assert np.median([fix.on_map or 0.0 for fix in fixes[-60:]]) < 0.5
    assert np.mean([fix.position is not None for fix in fixes]) < SELDOM


def test_a_stuck_gyroscope_is_not_believed(streets: TrackMap, drive: StreetDrive) -> None:
    record = drive.record()
    stuck = replace(record, headings_deg=np.zeros_like(record.headings_deg))
    _, fixes = follow(streets, stuck)
    wrong = errors(drive, fixes) > 80.0
    assert not any(fix.position is not None and bad for fix, bad in zip(fixes, wrong, strict=True))


def test_roads_of_another_city_are_seldom_believed(tmp_path: Path, drive: StreetDrive) -> None:
    rng = np.random.default_rng(3)
    lines = [line + rng.normal(0, 70, line.shape) for line in street_lines()]
    index_roads([write_streets(tmp_path / "other.geojson", lines)], str(tmp_path / "gallery"))
    _, fixes = follow(TrackMap.of(open_gallery(tmp_path / "gallery")), drive.record())
    assert np.mean([fix.position is not None for fix in fixes]) < SELDOM


def test_guesses_that_nothing_supports_are_never_sure() -> None:
    good = TrackEvidence(0.999, 0.0, 0.999, 5.0, 5.0, 100.0, 500.0, 300.0, 2000.0, 500.0, 0.0, 0.3, False, True)
    confidence = track_confidence(None, TrackSettings())
    assert confidence.probability(good) > confidence.threshold
    assert confidence.probability(replace(good, road_margin=-0.1)) == 0.0
    assert confidence.probability(replace(good, road_margin=-0.1, has_tiles=True, tile_margin=0.5)) > 0.0


def test_the_confidence_holds_for_more_poses_and_not_for_fewer() -> None:
    usual = TrackSettings()
    more, fewer = (usual.model_copy(update={"most_poses": poses}) for poses in (2_000_000, 100_000))
    denser, sparser = (usual.model_copy(update={"pose_spacing_m": metres}) for metres in (1.0, 8.0))
    for folder in (None, shipped("eye")):
        assert track_confidence(folder, usual).calibrated
        assert track_confidence(folder, more).calibrated
        assert track_confidence(folder, denser).calibrated
        assert not track_confidence(folder, fewer).calibrated
        assert not track_confidence(folder, sparser).calibrated
        assert not track_confidence(folder, more.model_copy(update={"road_weight": 0.6})).calibrated


def test_a_larger_map_than_the_fitted_one_must_be_surer() -> None:
    fitted = TrackConfidence((1.0,) * len(FEATURES), 0.9, 0.8, map_km2=10.0)
    larger = fitted.for_map(40.0)
    assert larger.threshold == pytest.approx(72.0 / 73.0)  # odds of 9 times 4^1.5
    assert larger.threshold_without_roads == pytest.approx(32.0 / 33.0)
    assert larger.for_map(40.0) == larger
    assert fitted.for_map(10.0) == fitted.for_map(2.0) == fitted
    assert UNFITTED.for_map(40.0) == UNFITTED
    unknown = replace(fitted, map_km2=0.0)
    assert unknown.for_map(40.0) == unknown
    never = replace(fitted, threshold_without_roads=1.0)
    assert never.for_map(40.0).threshold_without_roads == 1.0


def test_the_size_of_the_fitted_map_is_kept(tmp_path: Path) -> None:
    own = track_confidence(shipped("eye"), TrackSettings())
    assert own.map_km2 > 20.0  # six towns
    own.save(tmp_path / "track.json")
    assert track_confidence(tmp_path, TrackSettings()) == own
    text = (tmp_path / "track.json").read_text(encoding="utf-8")
    (tmp_path / "track.json").write_text(text.replace(f'"map_km2": {own.map_km2}', '"map_km2": -1'), encoding="utf-8")
    with pytest.raises(BundleError, match="damaged"):
        track_confidence(tmp_path, TrackSettings())


def test_a_tracker_takes_the_size_of_its_map_into_account(streets: TrackMap) -> None:
    assert 0.1 < streets.km2 < 100.0
    confidence = TrackConfidence((1.0,) * len(FEATURES), 0.9, 0.9, map_km2=0.25 * streets.km2)
    assert Tracker(streets, None, TrackSettings(), confidence=confidence).confidence.threshold > 0.98
    assert Tracker(streets, None, TrackSettings()).confidence == track_confidence(None, TrackSettings())


def test_a_map_with_more_roads_has_more_poses(streets: TrackMap) -> None:
    starts = len(Starts.on(streets.patches, streets.roads, streets.tiles, streets.prior))
    least = {"start_poses": 1000, "pose_spacing_m": 5.0}
    for most, expected in ((10**6, int(starts * 4 / 5.0)), (5000, 5000)):
        tuned = TrackSettings().model_copy(update={**least, "most_poses": most})
        assert Tracker(streets, None, tuned).belief.poses.shape[1] == expected


def test_a_drive_that_leaves_the_map_is_off_it(tmp_path: Path) -> None:
    route = drive_along([*ROUTE, (4, 0), (6, 0)], speed_m_s=12.0)
    beyond = np.arange(0.1, 60.0, 0.1)
    times = np.concatenate([route.times_s, route.times_s[-1] + beyond])
    east = np.concatenate([route.east_m, route.east_m[-1] + 12.0 * beyond])
    north = np.concatenate([route.north_m, np.full(len(beyond), route.north_m[-1])])
    heading = np.concatenate([route.headings_deg, np.full(len(beyond), route.headings_deg[-1])])
    long = StreetDrive(times, east, north, heading)
    _, fixes = follow(TrackMap.of(_gallery(tmp_path)), long.record())
    on_map = np.array([fix.on_map for fix in fixes])
    assert on_map[len(on_map) - 65] > 0.9
    assert on_map[-1] < 0.5


def test_a_prior_says_where_to_look(streets: TrackMap, drive: StreetDrive) -> None:
    start = Position(48.0, 11.0 + 140.0 / 74_400)
    near = TrackMap.of(streets.gallery, CirclePrior(start, 150.0))
    tracker = Tracker(near, None, FAST)
    fix = tracker.advance(0, 0.0)
    assert fix.guess is not None
    assert drive.error_m(0.0, fix.guess.lat_deg, fix.guess.lon_deg) < 250.0


def test_a_prior_beside_the_map_is_refused(streets: TrackMap) -> None:
    with pytest.raises(GalleryError, match="nothing to track on"):
        TrackMap.of(streets.gallery, BoxPrior(20.0, 10.0, 20.1, 10.1))


def test_settings_that_use_nothing_are_refused(streets: TrackMap) -> None:
    with pytest.raises(GalleryError, match="nothing that these settings use"):
        Tracker(streets, None, FAST.model_copy(update={"use_roads": False}))
