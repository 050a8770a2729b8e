from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.street import Square, circle, straight
from x2localizer.errors import VideoError
from x2localizer.odometry import CameraProfile, VisualOdometry, video_motion
from x2localizer.types import Frame, Movement

STEP_M = 0.8
STREET = Square(sides_m=(11.0, 70.0))


def _run(frames: list[Frame], camera: CameraProfile | None = None) -> list[Movement]:
    odometry = VisualOdometry(camera)
    movements = [odometry.update(frame) for frame in frames]
    assert movements[0] is None
    kept = [movement for movement in movements if movement is not None]
    for m in kept:
        assert np.isfinite([m.distance_m, m.turn_deg, m.distance_sd_m, m.turn_sd_deg]).all()
        assert m.distance_sd_m > 0
        assert m.turn_sd_deg > 0
    return kept


def _sums(movements: list[Movement]) -> tuple[float, float]:
    return sum(m.distance_m for m in movements), sum(m.turn_deg for m in movements)


@pytest.fixture(scope="module")
def bend() -> list[Frame]:
    """Half a circle of 13 m, clockwise."""
    return Square().frames(circle(52, STEP_M, 13.0))


def test_a_straight_road() -> None:
    frames = STREET.frames(straight(40, STEP_M))
    movements = _run(frames)
    assert len(movements) == 39
    assert [m.start_s for m in movements[1:]] == [m.end_s for m in movements[:-1]]
    distance_m, turn_deg = _sums(movements)
    assert distance_m == pytest.approx(39 * STEP_M, rel=0.04)
    assert abs(turn_deg) < 0.5


def test_a_bend(bend: list[Frame]) -> None:
    distance_m, turn_deg = _sums(_run(bend))
    assert turn_deg == pytest.approx(np.degrees(51 * STEP_M / 13.0), abs=2.5)
    assert distance_m == pytest.approx(51 * STEP_M, rel=0.06)


def test_mirrored_frames_turn_the_other_way(bend: list[Frame]) -> None:
    mirrored = [replace(frame, image=np.ascontiguousarray(frame.image[:, ::-1])) for frame in bend]
    distance_m, turn_deg = _sums(_run(bend))
    other_m, other_deg = _sums(_run(mirrored))
    assert other_deg == pytest.approx(-turn_deg, abs=0.5)
    assert other_m == pytest.approx(distance_m, rel=0.01)


def test_reverse(bend: list[Frame]) -> None:
    backward = [Frame(k, 0.1 * k, frame.image) for k, frame in enumerate(reversed(bend))]
    distance_m, turn_deg = _sums(_run(backward))
    assert distance_m == pytest.approx(-51 * STEP_M, rel=0.08)
    assert turn_deg == pytest.approx(-np.degrees(51 * STEP_M / 13.0), abs=4.0)


def test_a_standing_car_stands() -> None:
    movements = _run(Square(noise=4.0).frames([(2.0, -5.0, 20.0)] * 30))
    assert [m.distance_m for m in movements] == [0.0] * 29
    assert abs(_sums(movements)[1]) < 0.3


def test_the_horizon_and_the_mount_are_found() -> None:
    square = replace(STREET, horizon=0.6, mount_deg=2.0)
    odometry = VisualOdometry()
    assert odometry.horizon is None
    movements = [odometry.update(frame) for frame in square.frames(straight(60, STEP_M))]
    assert odometry.horizon == pytest.approx(0.6, abs=0.012)
    late = [m for m in movements[20:] if m is not None]
    assert _sums(late)[0] == pytest.approx(40 * STEP_M, rel=0.05)
    assert abs(_sums(late)[1]) < 1.0


def test_a_stated_height_scales_distances() -> None:
    frames = STREET.frames(straight(12, STEP_M))
    low, high = (_sums(_run(frames, CameraProfile(height_m=h, horizon=0.55)))[0] for h in (1.5, 3.0))
    assert high == pytest.approx(2 * low, rel=0.03)


def test_larger_and_grey_frames_say_the_same() -> None:
    places = straight(12, STEP_M)
    usual = Square().frames(places)
    large = _sums(_run(replace(STREET, height=432, width=768, noise=3.0).frames(places)))
    grey = _sums(_run([replace(frame, image=np.ascontiguousarray(frame.image[:, :, :1])) for frame in usual]))
    assert large[0] == pytest.approx(11 * STEP_M, rel=0.06)
    assert grey == pytest.approx(_sums(_run(usual)), rel=0.01, abs=0.01)


def test_a_covered_lens_is_no_movement() -> None:
    frames = STREET.frames(straight(14, STEP_M))
    for k in range(5, 9):
        frames[k] = replace(frames[k], image=np.zeros_like(frames[k].image))
    odometry = VisualOdometry()
    movements = [odometry.update(frame) for frame in frames]
    assert [k for k, movement in enumerate(movements) if movement is None] == [0, 5, 6, 7, 8, 9]


def test_a_gap_is_no_movement() -> None:
    frames = STREET.frames(straight(10, STEP_M))
    late = [*frames[:5], *(replace(frame, time_s=frame.time_s + 4.0) for frame in frames[5:])]
    back = [*frames[:5], *(replace(frame, time_s=frame.time_s - 0.3) for frame in frames[5:])]
    for some in (late, back):
        odometry = VisualOdometry()
        assert [k for k, frame in enumerate(some) if odometry.update(frame) is None] == [0, 5]


def test_a_repeated_frame_is_part_of_the_next_movement() -> None:
    frames = STREET.frames(straight(10, STEP_M))
    frames[5] = replace(frames[5], image=frames[4].image)
    odometry = VisualOdometry()
    movements = [odometry.update(frame) for frame in frames]
    assert movements[5] is None
    assert movements[6] is not None
    assert movements[6].start_s == pytest.approx(0.4)
    assert movements[6].distance_m == pytest.approx(2 * STEP_M, rel=0.1)


def test_a_picture_that_stays_the_same_stands() -> None:
    image = Square().image(2.0, -5.0, 20.0)
    movements = _run([Frame(k, 0.1 * k, image) for k in range(20)])
    assert _sums(movements) == pytest.approx((0.0, 0.0), abs=1e-6)
    assert movements[-1].end_s > 1.5


@pytest.mark.parametrize("shape", [(8, 8, 3), (40, 300, 3), (1, 1, 3)])
def test_tiny_frames_are_unusable(shape: tuple[int, int, int]) -> None:
    odometry, rng = VisualOdometry(), np.random.default_rng(0)
    for k in range(4):
        assert odometry.update(Frame(k, 0.1 * k, rng.integers(0, 255, shape, np.uint8))) is None


def test_noise_gives_numbers_with_large_deviations() -> None:
    rng = np.random.default_rng(0)
    frames = [Frame(k, 0.1 * k, rng.integers(0, 255, (216, 384, 3), np.uint8)) for k in range(20)]
    movements = _run(frames)
    assert sum(m.distance_sd_m**2 for m in movements) ** 0.5 > 5.0


def test_frames_of_another_size_start_again() -> None:
    odometry = VisualOdometry()
    wide, tall = STREET.frames(straight(2, STEP_M)), replace(STREET, height=288, width=288).frames(straight(4, STEP_M))
    later = [Frame(k, 0.1 * k + 0.2, frame.image) for k, frame in enumerate(tall)]
    assert [odometry.update(frame) is None for frame in [*wide, *later]] == [True, False, True, False, False, False]


def test_the_motion_of_frames(bend: list[Frame]) -> None:
    record = video_motion(iter(bend))
    assert record.times_s[-1] == pytest.approx(bend[-1].time_s)
    assert record.headings_deg[-1] == pytest.approx(np.degrees(51 * STEP_M / 13.0), abs=2.5)
    assert np.all(np.diff(record.distance_vars) > 0)
    assert record.scale_sd == pytest.approx(np.hypot(0.025, 0.02))


def test_a_short_gap_is_bridged_with_a_large_deviation() -> None:
    frames = STREET.frames(straight(40, STEP_M))
    for k in range(20, 26):
        frames[k] = replace(frames[k], image=np.zeros_like(frames[k].image))
    record = video_motion(frames)
    across = record.between(1.9, 2.6)
    assert across is not None
    assert across.distance_m == pytest.approx(7 * STEP_M, rel=0.1)
    assert across.distance_sd_m > 1.0


def test_a_long_gap_stays_a_gap() -> None:
    frames = STREET.frames(straight(20, STEP_M))
    later = [replace(frame, time_s=frame.time_s + 10.0) for frame in frames[10:]]
    record = video_motion([*frames[:10], *later])
    assert record.between(0.5, 11.5) is None
    assert record.between(11.2, 11.8) is not None


@pytest.mark.parametrize("count", [0, 1, 12])
def test_a_video_without_movement_is_an_error(count: int) -> None:
    with pytest.raises(VideoError, match="no movement"):
        video_motion([Frame(k, 0.1 * k, np.zeros((216, 384, 3), np.uint8)) for k in range(count)])
