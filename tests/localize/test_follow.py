"""Feeding a tracker: frames and movements in step, gaps, and odometry that lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from helpers.driven_town import DrivenTown, drive_through
from x2localizer.localize.follow import NoOdometryError, VideoFollower, joined, keyframes
from x2localizer.localize.summary import errors_m
from x2localizer.localize.track.track_map import TrackMap
from x2localizer.localize.track.tracker import Tracker
from x2localizer.odometry import VisualOdometry
from x2localizer.sources.motion import MotionRecord
from x2localizer.town.town import Town
from x2localizer.types import Fix, Frame, Image, Movement, TrackEvidence


@pytest.fixture(scope="module")
def driven(town: Town, tmp_path_factory: pytest.TempPathFactory) -> DrivenTown:
    return drive_through(town, tmp_path_factory.mktemp("driven"))


def _share_near(fixes: list[Fix]) -> float:
    """How much of the belief the guesses hold, on average over the second half."""
    evidence = [fix.evidence for fix in fixes[len(fixes) // 2 :]]
    return float(np.mean([e.share for e in evidence if isinstance(e, TrackEvidence)]))


def _on_map(fixes: list[Fix]) -> float:
    return float(np.mean([fix.on_map or 0.0 for fix in fixes[len(fixes) // 2 :]]))


def test_odometry_alone_finds_the_car_on_the_roads(driven: DrivenTown) -> None:
    fixes = driven.follow()
    assert [fix.index for fix in fixes] == list(range(len(fixes)))
    assert np.median(errors_m(fixes, driven.truth)[len(fixes) // 2 :]) < 20.0
    assert _on_map(fixes) > 0.9
    last = fixes[-1]
    assert last.ellipse is not None
    assert last.ellipse.major_m >= last.ellipse.minor_m > 0
    assert last.heading_deg is not None
    assert 0 <= last.heading_deg < 360
    assert max(fix.speed_m_s or 0.0 for fix in fixes) < 40.0


Lie = Callable[[MotionRecord], MotionRecord]


def _three_times_too_far(motion: MotionRecord) -> MotionRecord:
    return replace(motion, distances_m=3.0 * motion.distances_m)


def _stuck_gyroscope(motion: MotionRecord) -> MotionRecord:
    return replace(motion, headings_deg=np.zeros_like(motion.headings_deg))


def _turns_late(motion: MotionRecord) -> MotionRecord:
    """The gyroscope's clock is 40 s behind that of the wheel."""
    late = np.interp(motion.times_s - 40.0, motion.times_s, motion.headings_deg)
    return replace(motion, headings_deg=late)


@pytest.mark.parametrize("lie", [_three_times_too_far, _stuck_gyroscope, _turns_late])
def test_odometry_that_lies_makes_it_doubt(driven: DrivenTown, lie: Lie) -> None:
    honest, lying = driven.follow(), driven.follow(lie(driven.motion))
    assert min(_on_map(lying), _share_near(lying)) < 0.7 * min(_on_map(honest), _share_near(honest))


def test_a_gap_in_the_record_has_no_guess(driven: DrivenTown) -> None:
    motion = driven.motion
    kept = (motion.times_s < 100.0) | (motion.times_s > 115.0)
    names = ("times_s", "distances_m", "headings_deg", "distance_vars", "heading_vars")
    fixes = driven.follow(replace(motion, **{name: getattr(motion, name)[kept] for name in names}))
    inside = [fix for fix in fixes if 101.0 < fix.time_s < 115.0]
    assert len(inside) == 13
    assert all(fix.guess is None and fix.status == "lost" for fix in inside)
    assert all(fix.guess is not None for fix in fixes if not 100.0 <= fix.time_s <= 116.0)


def _movement(start_s: float, end_s: float) -> Movement:
    return Movement(start_s, end_s, 10.0 * (end_s - start_s), 5.0, 0.3, 0.4)


def test_short_movements_are_joined_to_steps() -> None:
    movements = [_movement(i / 7, (i + 1) / 7) for i in range(7)]
    steps = joined(movements, 0.5)
    assert [len(joined(movements, s)) for s in (0.01, 0.5, 2.0)] == [7, 3, 1]
    assert steps[0].start_s == 0.0
    assert steps[-1].end_s == pytest.approx(1.0)
    assert sum(m.distance_m for m in steps) == pytest.approx(10.0)
    assert sum(m.turn_deg for m in steps) == pytest.approx(35.0)
    assert sum(m.distance_sd_m**2 for m in steps) == pytest.approx(7 * 0.09)
    apart = [_movement(0.0, 0.2), _movement(0.3, 0.5)]
    assert joined(apart, 1.0) == apart, "not across a gap"


def _noise(seed: int) -> Image:
    return np.random.default_rng(seed).integers(0, 256, (64, 96, 3), dtype=np.uint8)


def _follower(driven: DrivenTown) -> VideoFollower:
    return VideoFollower(Tracker(TrackMap.of(driven.gallery)), VisualOdometry())


def test_frames_far_apart_have_no_odometry(driven: DrivenTown) -> None:
    frames = iter([Frame(i, 5.0 * i, _noise(i)) for i in range(30)])
    with pytest.raises(NoOdometryError) as problem:
        list(_follower(driven).run(frames))
    assert [frame.time_s for frame in problem.value.held] == [5.0 * i for i in range(12)]
    rest = list(keyframes(problem.value.held, frames, 10.0))[12:]
    assert [frame.index for frame in rest] == list(range(12, 12 + len(rest)))
    assert [frame.time_s for frame in rest] == [65.0, 75.0, 85.0, 95.0, 105.0, 115.0, 125.0, 135.0, 145.0]


def test_frames_without_content_are_known_at_the_end(driven: DrivenTown) -> None:
    black = [Frame(i, i / 7, np.zeros((64, 96, 3), np.uint8)) for i in range(70)]
    with pytest.raises(NoOdometryError) as problem:
        list(_follower(driven).run(black))
    assert len(problem.value.held) == 10


def test_a_lens_that_is_uncovered_late_loses_no_fix(driven: DrivenTown) -> None:
    dark = [Frame(i, i / 7, np.zeros((64, 96, 3), np.uint8)) for i in range(35)]
    bright = [Frame(i, i / 7, _noise(0)) for i in range(35, 70)]
    fixes = list(_follower(driven).run([*dark, *bright]))
    assert [fix.index for fix in fixes] == list(range(10))
    assert [fix.guess is None for fix in fixes[1:5]] == [True] * 4
    assert fixes[-1].guess is not None
