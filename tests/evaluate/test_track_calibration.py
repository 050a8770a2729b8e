"""Calibration of tracking: the threshold, the split of drives, and the whole fit on few drives."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers.small_world import TINY
from x2localizer.cli import app
from x2localizer.config import SplitSettings, TrackSettings
from x2localizer.datasets.dataset import open_dataset
from x2localizer.datasets.motion import motion_path, write_record
from x2localizer.datasets.town import make_dataset
from x2localizer.encoders import Bundle
from x2localizer.errors import BundleError, DatasetError, UserError
from x2localizer.evaluate.recordings import recordings, ride_motion, sources_of, tracked_rides
from x2localizer.evaluate.track_calibration import LIES, OutsidePrior, calibration_runs, with_lies
from x2localizer.evaluate.track_fit import (
    LEAST_SURE,
    NEVER,
    Run,
    choose_threshold,
    fit_confidence,
    fit_map,
    report_lines,
    save_confidence,
)
from x2localizer.evaluate.tracked import Arm
from x2localizer.localize.confidence import fit
from x2localizer.localize.track.confidence import FEATURES, track_confidence, track_features
from x2localizer.search.prior import BoxPrior
from x2localizer.types import Movement, TrackEvidence

FEW = TrackSettings(most_poses=3000, least_poses=1000)


def _quiet(what: str, done: int, total: int) -> None:
    """No progress."""


def _run(ride: int, ground: str, arm: Arm, rng: np.random.Generator, *, frames: int = 60) -> Run:
    """A drive whose share of the belief tells nearly always whether it is right."""
    right = (rng.uniform(size=frames) < 0.6) & (ground != "off")
    share = np.where(right, rng.uniform(0.85, 1.0, frames), rng.uniform(0.0, 0.8, frames))
    evidence = tuple(
        TrackEvidence(
            share=float(s), rival=0.1 * (1.0 - float(s)), on_map=0.9, spread_m=10.0, along_m=8.0, held_s=30.0,
            held_m=300.0, held_deg=90.0, driven_m=400.0, turned_deg=90.0, tile_margin=0.5, road_margin=0.5,
            has_tiles=arm.tiles, has_roads=arm.roads,
        )
        for s in share
    )  # fmt: skip
    return Run(f"ride{ride}", f"town{ride // 2}", ride % 4 == 2, ground, arm, evidence, right)  # type: ignore[arg-type]


def _runs() -> list[Run]:
    rng = np.random.default_rng(0)
    arms = (Arm(), Arm(roads=False), Arm(tiles=False))
    return [_run(ride, ground, arm, rng) for ride in range(8) for ground in ("all", "own", "off") for arm in arms]


# Thresholds ----------------------------------------------------------------------------------------------------------


def test_the_threshold_keeps_both_promises() -> None:
    p = np.array([0.99, 0.98, 0.97, 0.9, 0.8, 0.7])
    one = np.ones(6)
    on = np.zeros(6, np.bool_)
    good = np.array([True, True, True, True, False, True])
    assert choose_threshold(p, good, on, one, on) == 0.9  # one of five wrong is too many
    off = np.array([False, False, True, False, False, False])
    assert choose_threshold(p, good & ~off, off, one, on) == 0.98  # the only frame off the map would have a position
    assert choose_threshold(p, ~good, on, one, on) == NEVER


def test_few_positions_that_lies_made_wrong_are_stated() -> None:
    p, right = np.linspace(0.99, 0.5, 1000), np.ones(1000, np.bool_)
    right[[100, 200, 300]] = False
    lying = np.arange(1000) % 100 < 50  # three of 500 frames wrong; at most two are half a percent
    chosen = choose_threshold(p, right, lying & ~right, np.ones(1000), lying)
    assert p[300] < chosen <= p[299]


def test_equal_probabilities_are_not_split_by_the_threshold() -> None:
    p, on = np.array([0.9, 0.5, 0.5, 0.5]), np.zeros(4, np.bool_)
    assert choose_threshold(p, np.array([True, True, True, False]), on, np.ones(4), on) == 0.9


def test_rows_count_as_often_as_they_should() -> None:
    rng = np.random.default_rng(1)
    features = np.stack([np.ones(50), rng.normal(size=50)], 1)
    right = rng.uniform(size=50) < 1 / (1 + np.exp(-features[:, 1]))
    counts = rng.integers(1, 4, 50)
    repeated = fit(np.repeat(features, counts, 0), np.repeat(right, counts))
    assert fit(features, right, counts=counts.astype(float)) == pytest.approx(repeated)


def test_the_own_area_can_be_left_out() -> None:
    box = BoxPrior(10.0, 50.0, 11.0, 51.0)
    lats, lons = np.array([50.5, 52.0]), np.array([10.5, 10.5])
    assert OutsidePrior(box).contains(lats, lons).tolist() == [False, True]


# Fits ----------------------------------------------------------------------------------------------------------------


def test_a_fit_holds_on_other_drives(tmp_path: Path) -> None:
    runs = _runs()
    lines = save_confidence(runs, tmp_path / "track.json", tmp_path / "roads.json", TrackSettings(), "val")
    fitted = track_confidence(tmp_path, TrackSettings())
    assert fitted.calibrated
    assert LEAST_SURE <= fitted.threshold < 1.0
    for run in runs:
        sure = np.array([fitted.is_sure(one, fitted.probability(one)) for one in run.evidence])
        if run.arm.tiles:
            assert run.right[sure].all()
            assert sure.sum() >= 0.5 * run.right.sum()
    assert (tmp_path / "roads.json").is_file()
    assert lines[0] == "with tiles:"
    assert any("sensors, tiles, day" in line for line in lines)


def test_maps_without_roads_have_a_threshold_of_their_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    runs = [_run(ride, ground, Arm(), rng) for ride in range(8) for ground in ("all", "off")]
    # Without roads, right and wrong guesses look alike: there no threshold is good enough.
    blurred = [_run(ride, "all", Arm(roads=False), rng) for ride in range(8)]
    runs += [replace(run, right=rng.uniform(size=len(run.right)) < 0.5) for run in blurred]
    fit_confidence(runs, TrackSettings(), "").confidence.save(tmp_path / "track.json")
    fitted = track_confidence(tmp_path, TrackSettings())
    assert LEAST_SURE <= fitted.threshold < 1.0 == fitted.threshold_without_roads
    best = max((one for run in runs for one in run.evidence if run.arm.roads), key=fitted.probability)
    assert fitted.is_sure(best, fitted.probability(best))
    assert not fitted.is_sure(replace(best, has_roads=False), 0.999)


def test_guesses_that_lies_made_wrong_must_not_be_stated() -> None:
    rng = np.random.default_rng(5)
    run = _run(0, "lies", Arm(), rng)
    assert np.array_equal(run.unfounded, ~run.right)
    failed = _run(0, "fails", Arm(), rng, frames=61)
    assert not failed.unfounded[:30].any()  # the sensor is sound until halfway
    assert np.array_equal(failed.unfounded[30:], ~failed.right[30:])
    assert _run(0, "off", Arm(), rng).unfounded.all()
    assert not _run(0, "own", Arm(), rng).unfounded.any()


@pytest.mark.parametrize("number", range(len(LIES)))
def test_each_lie_changes_a_movement(number: int) -> None:
    told = Movement(0.0, 1.0, 10.0, 5.0, 0.1, 0.2)
    assert LIES[number](told) != told
    assert LIES[number](told).end_s == 1.0


def test_a_sensor_that_fails_halfway_was_sound_before(two_towns: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    data = open_dataset(two_towns)
    rides = tracked_rides(data, "val")[:1]
    (sound,) = recordings(data, rides, sources_of(data, rides), tiny_bundle, tmp_path, _quiet, step_s=1.0, workers=1)
    failed = with_lies(sound, 40)
    for source, own in sound.odometry.items():
        now = failed.odometry[source].movements
        assert now[:40] == own.movements[:40]
        assert len(now) == len(own.movements)
        assert all(a != b for a, b in zip(now[45:], own.movements[45:], strict=True) if b and b[0].distance_m > 1.0)


def test_drives_count_alike_however_long_they_are() -> None:
    rng = np.random.default_rng(2)
    runs = [_run(ride, ground, Arm(), rng, frames=40) for ride in range(6) for ground in ("all", "off")]
    longer = [Run(r.ride, r.area, r.night, r.ground, r.arm, r.evidence * 5, np.tile(r.right, 5)) for r in runs]
    first, second = (fit_confidence(chosen, TrackSettings(), "") for chosen in (runs, longer))
    assert first.confidence.weights == pytest.approx(second.confidence.weights)


def test_an_area_is_judged_by_the_others() -> None:
    rng = np.random.default_rng(2)
    runs = [_run(ride, "all", Arm(), rng) for ride in range(6)]
    plain = fit_confidence(runs, TrackSettings(), "")
    spoiled = [replace(run, right=~run.right) if run.area == "town0" else run for run in runs]
    own = np.repeat([run.area == "town0" for run in runs], 60)
    again = fit_confidence(spoiled, TrackSettings(), "")
    assert np.array_equal(plain.elsewhere[own], again.elsewhere[own])
    assert not np.allclose(plain.elsewhere[~own], again.elsewhere[~own])
    assert "each area by a fit without it" in "".join(report_lines(plain, runs))


def test_a_place_far_along_a_straight_is_not_sure(tmp_path: Path) -> None:
    runs = _runs()
    save_confidence(runs, tmp_path / "track.json", None, TrackSettings(), "val")
    fitted = track_confidence(tmp_path, TrackSettings())
    best = max((one for run in runs for one in run.evidence), key=fitted.probability)
    assert fitted.probability(best) >= fitted.threshold
    far = [fitted.probability(replace(best, along_m=metres)) for metres in (8.0, 40.0, 80.0, 400.0)]
    assert far == sorted(far, reverse=True)
    assert far[2] < 0.7  # the normal distribution within one standard deviation
    assert fitted.probability(replace(best, along_m=0.0)) >= fitted.threshold
    away = [replace(run, evidence=tuple(replace(one, along_m=100.0) for one in run.evidence)) for run in runs]
    assert fit_confidence(away, TrackSettings(), "").elsewhere.max() < 0.6


# On the map or off it ------------------------------------------------------------------------------------------------


def test_one_place_that_stands_out_says_that_the_camera_is_on_the_map(tmp_path: Path) -> None:
    runs = _runs()  # the belief alone is 0.9 sure in all of them
    weights, apart = fit_map(runs)
    assert apart is not None
    assert apart[0].mean == 50.0
    assert apart[1].mean > 60.0
    lines = save_confidence(runs, tmp_path / "track.json", None, TrackSettings(), "val")
    assert any(line.startswith("on the map told from off it after 20 s") for line in lines)
    fitted = track_confidence(tmp_path, TrackSettings())
    assert len(fitted.map_weights) == len(weights)
    alone, rivalled = runs[0].evidence[0], runs[0].evidence[1]
    alone, rivalled = replace(alone, share=0.95, rival=0.001), replace(rivalled, share=0.1, rival=0.1)
    assert fitted.on_map(alone, 0.0) > 0.6 > fitted.on_map(rivalled, 0.0)
    assert fitted.on_map(rivalled, 0.99) == 0.99  # a camera whose place is known is on the map
    assert replace(fitted, map_weights=()).on_map(rivalled, 0.99) == rivalled.on_map


def test_lies_and_drives_of_one_kind_say_nothing_of_the_map() -> None:
    rng = np.random.default_rng(6)
    runs = _runs()
    lies = [_run(ride, ground, Arm(), rng) for ride in range(8) for ground in ("lies", "fails")]
    assert fit_map([*runs, *lies]) == fit_map(runs)
    assert fit_map([run for run in runs if run.ground != "off"]) == ((), None)


@pytest.mark.parametrize(
    "change", [{"map_weights": [1.0]}, {"map_features": ["constant"]}, {"map_weights": [float("nan")] * 6}]
)
def test_weights_of_the_map_that_do_not_fit_are_refused(change: dict[str, object], tmp_path: Path) -> None:
    save_confidence(_runs(), tmp_path / "track.json", None, TrackSettings(), "val")
    values = json.loads((tmp_path / "track.json").read_text())
    (tmp_path / "track.json").write_text(json.dumps(values | change))
    with pytest.raises(BundleError, match="damaged"):
        track_confidence(tmp_path, TrackSettings())


def test_too_few_drives_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="too few drives"):
        save_confidence(_runs()[:9], tmp_path / "track.json", None, TrackSettings(), "val")


# Following -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_towns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of two validation towns with one long drive each."""
    none = SplitSettings(towns=0)
    val = SplitSettings(towns=2, first_seed=5000, videos_per_region=0, long_drives_per_town=1)
    settings = TINY.model_copy(update={"train": none, "val": val, "test": none, "long_drive_s": 80.0})
    root = make_dataset(settings, tmp_path_factory.mktemp("data") / "two", "made by a test", workers=1)
    data = open_dataset(root)
    for ride in tracked_rides(data, "val"):
        for video in ride.videos:
            write_record(motion_path(root, video, "video"), ride_motion(data, video, "sensors"))
    return root


def test_drives_are_followed_on_and_off_the_map(two_towns: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    data = open_dataset(two_towns)
    runs = calibration_runs(tiny_bundle, data, "val", tmp_path, settings=FEW, workers=1)
    assert len({run.ride for run in runs}) == 2
    assert len(runs) == 2 * 5 * 2
    assert len({run.arm for run in runs}) == 6
    sizes = {ground: {run.km2 for run in runs if run.ground == ground} for ground in ("all", "own")}
    assert 0.0 < max(sizes["own"]) < min(sizes["all"])
    assert {run.area for run in runs} == {"town5000", "town5001"}
    assert not any(run.right.any() for run in runs if run.ground == "off")
    assert any(run.right.any() for run in runs if run.ground == "own")


def test_one_area_is_too_few(tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    root = Path(shutil.copytree(tiny_dataset, tmp_path / "data"))
    data = open_dataset(root)
    with pytest.raises(DatasetError, match="two areas"):
        calibration_runs(tiny_bundle, data, "test", tmp_path / "work", settings=FEW, workers=1)


def test_calibration_from_the_command_line(
    two_towns: Path, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = Path(shutil.copytree(tiny_bundle.root, tmp_path / "bundle"))
    asked: list[object] = []

    def follow(*args: object, **options: object) -> list[Run]:
        asked.append(options["most_rides"])
        return _runs()

    monkeypatch.setattr("x2localizer.evaluate.track_calibration.calibration_runs", follow)
    words = ["calibrate", str(bundle), "--data", str(two_towns), "--roads-out", str(tmp_path / "roads.json")]
    run = CliRunner().invoke(app, [*words, "--rides", "7", "--work", str(tmp_path / "work")])
    assert run.exit_code == 0, run.output
    assert asked == [7]
    assert "with tiles:" in run.output
    assert track_confidence(bundle, TrackSettings()).calibrated
    assert (tmp_path / "roads.json").is_file()


def test_features_are_as_many_as_a_file_must_have() -> None:
    evidence = _run(0, "all", Arm(), np.random.default_rng(0)).evidence[0]
    assert track_features(evidence).shape == (len(FEATURES),)
