"""Faults upstream of the tracker: each changes what it says it changes; the table counts what is sure and wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from x2localizer.config import TrackSettings
from x2localizer.datasets.dataset import open_dataset
from x2localizer.encoders import Bundle, open_bundle
from x2localizer.evaluate.fault_table import FaultRow, _row, run_faults, table_text, to_values
from x2localizer.evaluate.faults import FAULTS, SHIFT_M, Fault, Given, faulty, first_frame
from x2localizer.evaluate.recordings import Odometry, Recording
from x2localizer.evaluate.rides import Ride
from x2localizer.geo import distance_m
from x2localizer.localize.track.confidence import FEATURES, FILE, TrackConfidence
from x2localizer.types import Movement, Position, Region

FEW = TrackSettings(start_poses=3000, most_poses=3000, unclear_poses=2000, least_poses=1000)
SECONDS = 40


def _recording() -> Recording:
    times = np.arange(float(SECONDS))
    movements = tuple(
        () if t == 0 else (Movement(t - 1.0, t, 8.0 + t, 2.0, 0.1, 0.1),) for t in times.tolist()
    )  # fmt: skip
    truth = tuple(Position(48.0, 11.0 + 1e-4 * t) for t in times)
    ride = Ride("ride", Region(19, 0, 0, 7), (), times, truth, False)
    codes = np.random.default_rng(0).normal(size=(SECONDS, 16)).astype(np.float32)
    return Recording(ride, codes, {"sensors": Odometry(movements, 0.1, 0.1)})


def _given(first: int) -> Given:
    recording = _recording()
    foreign = np.full((7, 16), 9.0, np.float32)
    return Given(recording, -recording.codes, foreign, first)


def _named(start: str) -> Fault:
    return next(fault for fault in FAULTS if fault.name.startswith(start))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("first", [0, SECONDS // 2])
def test_a_fault_begins_at_its_onset_and_changes_its_part_alone(fault: Fault, first: int) -> None:
    given = _given(first)
    sound, made = given.recording, faulty(fault, given)
    before, after = sound.odometry["sensors"].movements, made.odometry["sensors"].movements
    assert made.codes.shape == sound.codes.shape and len(before) == len(after)
    assert np.array_equal(made.codes[:first], sound.codes[:first]) and before[:first] == after[:first]
    same_codes, same_movements = np.array_equal(made.codes, sound.codes), before == after
    assert (same_codes, same_movements) == (fault.part != "frames", fault.part != "odometry")
    assert (made.ride.truth == sound.ride.truth) == (not fault.moves_roads)


def test_what_some_faults_are() -> None:
    given = _given(20)
    codes = given.recording.codes
    assert (faulty(_named("frozen"), given).codes[20:] == codes[20]).all()
    assert (faulty(_named("repeated"), given).codes[30:40] == codes[20:30]).all()
    assert sorted(faulty(_named("shuffled"), given).codes[20:, 0]) == sorted(codes[20:, 0])
    assert (faulty(_named("foreign"), given).codes[20:] == 9.0).all()
    late = faulty(_named("clock off"), given).odometry["sensors"].movements
    assert late[30][0].distance_m == 8.0 + 25 and (late[30][0].start_s, late[30][0].end_s) == (29.0, 30.0)
    shifted = faulty(_named("imagery"), given).ride.truth[0]
    assert float(distance_m(48.0, 11.0, shifted.lat_deg, shifted.lon_deg)) == pytest.approx(SHIFT_M, rel=0.01)
    assert first_frame(given.recording, "start") == 0 and first_frame(given.recording, "halfway") == 20


def test_the_table_counts_positions_that_are_wrong() -> None:
    sure, wrong = np.array([True] * 30 + [False] * 70), np.array([True] * 3 + [False] * 97)
    row = _row(FAULTS[1], "halfway", [(sure, wrong), (sure, np.zeros(100, np.bool_))])
    assert (row.frames, row.sure, row.wrong, row.met) == (200, 30.0, 1.5, False)
    assert row.wrong_of_sure == pytest.approx(5.0)
    never = _row(FAULTS[0], "start", [(np.zeros(9, np.bool_), np.zeros(9, np.bool_))])
    assert never.met and never.wrong_of_sure is None
    text = table_text([row, never])
    assert "1.50% (0.00 to 3.00)" in text and "1 of 2 rows meet the target" in text
    assert to_values([row, never])["missed"] == 1


@pytest.mark.slow
def test_drives_of_a_dataset_are_followed_with_faults(tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    """From its snapshot a drive goes on as one that was never stopped."""
    data = open_dataset(tiny_dataset)
    chosen = [_named("none"), _named("frozen"), _named("stuck gyroscope"), _named("imagery")]
    rows = run_faults(tiny_bundle, data, "test", tmp_path, settings=FEW, workers=2, most_rides=1, faults=chosen)
    assert [(row.fault.split(":")[0], row.onset) for row in rows] == [
        ("none", "start"), ("none", "halfway"), ("frozen", "start"), ("frozen", "halfway"),
        ("stuck gyroscope", "start"), ("stuck gyroscope", "halfway"), ("imagery shifted by 100 m", "start"),
    ]  # fmt: skip
    assert all(isinstance(row, FaultRow) and row.sure == 0.0 for row in rows)  # nobody has calibrated the tiny bundle
    kept = sorted((tmp_path / "tracked").glob("*.npz"))
    again = run_faults(tiny_bundle, data, "test", tmp_path, settings=FEW, workers=1, most_rides=1, faults=chosen)
    assert again == rows and sorted((tmp_path / "tracked").glob("*.npz")) == kept
    errors = {len(e): e for e in (np.load(path)["errors_m"] for path in kept)}
    assert len(errors) == 2  # whole drives, and halves


@pytest.mark.slow
def test_positions_are_counted_by_the_threshold_of_the_map(
    tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    data, root = open_dataset(tiny_dataset), Path(shutil.copytree(tiny_bundle.root, tmp_path / "bundle"))
    weights = tuple(9.0 * (name == "constant") for name in FEATURES)
    sure = []
    for km2 in (1e9, 1e-6):  # of the fit: larger than the map, and far smaller
        TrackConfidence(weights, 0.3, 0.3, "", FEW, map_km2=km2).save(root / FILE)
        (row,) = run_faults(
            open_bundle(root), data, "test", tmp_path / "work", settings=FEW, workers=1, most_rides=1,
            onsets=["halfway"], faults=[_named("none")],
        )  # fmt: skip
        sure.append(row.sure)
    assert sure[0] > 0.0 == sure[1]
