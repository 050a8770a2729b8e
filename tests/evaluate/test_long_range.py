"""Long drives: the figures of known fixes, and the whole protocol on a small dataset."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from x2localizer import geo
from x2localizer.cli import app
from x2localizer.datasets.dataset import open_dataset
from x2localizer.encoders import Bundle
from x2localizer.errors import DatasetError
from x2localizer.evaluate.embed import Embeddings
from x2localizer.evaluate.entrants import entrants
from x2localizer.evaluate.linked_clips import run_clip_arms
from x2localizer.evaluate.long_range import all_arms, decoder_arms, window_arms
from x2localizer.evaluate.long_range_table import (
    LongRange,
    curve,
    median_first_s,
    once_of,
    ours_of,
    panels,
    panels_by_model,
    summarize,
    table_text,
)
from x2localizer.evaluate.rides import Followed, Ride, long_rides, ride_frames
from x2localizer.types import Position, Region

REGION = Region(19, 160000, 200000, 7)


def _ride(name: str, seconds: int = 40) -> Ride:
    """Eastward out of the region: half of the way inside."""
    columns = np.linspace(0.5, 13.5, seconds)
    lats, lons = geo.from_tile_coordinates(REGION.x + columns, np.full(seconds, REGION.y + 3.5), 19)
    truth = tuple(Position(float(a), float(b)) for a, b in zip(lats, lons, strict=True))
    return Ride(name, REGION, (), np.arange(seconds, dtype=float), truth, False)


def _followed(right: np.ndarray) -> Followed:
    return Followed(np.where(right, 10.0, 500.0), np.where(right, 0.9, 0.1), right)


def test_a_region_that_was_left_stays_left() -> None:
    ride = _ride("a")
    assert not ride.left[:20].any()
    assert ride.left[20:].all()
    there_and_back = Ride("b", REGION, (), ride.times_s, ride.truth[:25] + ride.truth[14::-1], False)
    assert not there_and_back.left[0]
    assert there_and_back.left[-1]


def test_the_figures_of_known_fixes() -> None:
    rides = [_ride("a"), _ride("b")]
    half = np.arange(40) < 20
    found = {
        "SWRL": [_followed(np.ones(40, np.bool_)), _followed(half)],
        "once": [_followed(half), _followed(np.zeros(40, np.bool_))],
    }
    result = summarize(rides, found)
    swrl, once = result.rows
    assert (swrl.within, swrl.before, swrl.after) == (75.0, 100.0, 50.0)
    assert (once.within, once.before, once.after) == (25.0, 50.0, 0.0)
    assert (swrl.sure, swrl.sure_within, swrl.median_m) == (75.0, 100.0, 10.0)
    assert once.median_m == 500.0
    assert result.gains["SWRL over once"][0] == 50.0
    assert result.curves["SWRL"] == [(5.0, 100.0, 20), (15.0, 100.0, 20), (25.0, 50.0, 20), (35.0, 50.0, 20)]
    (low, wrong, few), (high, good, many) = result.reliability
    assert (round(low, 6), wrong, few, round(high, 6), good, many) == (0.1, 0.0, 20, 0.9, 1.0, 60)
    text = table_text(result)
    assert (
        "| SWRL | 75.0% (50.0 to 100.0) | 100.0% | 50.0% (0.0 to 100.0) | 10 m | 0 s | 75.0% | 100.0% | 0 s |" in text
    )
    assert "+50.0" in text


def test_the_time_to_the_first_right_frame() -> None:
    rides = [_ride("a"), _ride("b"), _ride("c")]
    late, never = np.arange(40) >= 7, np.zeros(40, np.bool_)
    assert median_first_s(rides, [late, late, never]) == rides[0].times_s[7]
    assert median_first_s(rides, [late, never, never]) is None


def test_a_frame_without_a_guess_is_not_right() -> None:
    ride = _ride("a", 10)
    found = Followed(np.full(10, np.nan), np.zeros(10), np.zeros(10, np.bool_))
    assert curve([ride], [found]) == [(5.0, 0.0, 10)]


def test_rides_are_on_one_clock_across_their_gap(tiny_dataset: Path) -> None:
    data = open_dataset(tiny_dataset)
    rides = long_rides(data, "test")
    assert {ride.has_gap for ride in rides} == {False, True}
    for ride in rides:
        steps = np.diff(ride.times_s)
        assert (steps > 0).all()
        assert bool((steps > 15).any()) == ride.has_gap
        assert ride.left.any()
        frames = list(ride_frames(data, ride))
        assert [frame.time_s for frame in frames] == ride.times_s.tolist()
        assert len(frames) == len(ride.truth)
    with pytest.raises(DatasetError, match="no long drives in its val split"):
        long_rides(data, "val")


@pytest.mark.slow
def test_the_protocol_from_the_command_line(tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "long"
    words = ["evaluate", str(tiny_bundle.root), "--protocol", "long-range", "--data", str(tiny_dataset)]
    words += ["--work", str(tmp_path / "work"), "--out", str(out)]
    run = CliRunner().invoke(app, [*words, "--arms", "sensors, roads", "--rides", "1"])
    assert run.exit_code == 0, run.output
    values = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert [row["arm"] for row in values["tracking"]["rows"]] == ["sensors, roads"]
    assert "| sensors, roads |" in run.output
    ours = ["SWRL", "once", "SWRL, 1 frame", "SWRL, 5 s", "SWRL, 20 s"]
    assert [row["arm"] for row in values["rows"]] == ours + [f"{arm}, as in the paper" for arm in ours]
    assert "SWRL, 5 s, as in the paper over once, as in the paper" in values["gains"]
    assert len(values["gains"]) == 8
    assert values["rows"][0]["sure"] == 0.0  # it is not calibrated
    assert all(row["frames"] > 200 for row in values["rows"])
    assert len(values["curves"]["SWRL"]) >= 12
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "after the first region is left" in run.output
    assert "after the first region is left" in (out / "table.md").read_text(encoding="utf-8")
    two = CliRunner().invoke(app, [*words, str(tiny_bundle.root), "--no-tracking"])
    assert two.exit_code == 0, two.output
    values = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert "tracking" not in values
    garet = "GAReT's objective, as in the paper"
    assert [row["arm"] for row in values["rows"][10:]] == [f"SWRL, {garet}", f"once, {garet}"]
    assert f"SWRL, {garet} over once, {garet}" in values["gains"]
    assert f"SWRL, as in the paper over SWRL, {garet}" in values["gains"]


def test_arms_are_chosen_by_name() -> None:
    assert list(window_arms(["once", "SWRL", "video"])) == ["SWRL", "once"]
    assert window_arms(["sensors, roads"]) == window_arms() == all_arms()
    only = panels(LongRange((), {}, {"SWRL": []}, []))
    assert list(only) == ["regions by s_path, frames along the path"]


def test_arms_are_compared_with_the_one_that_searches_once() -> None:
    assert once_of("SWRL") == "once"
    assert once_of("SWRL, 5 s") == "once"
    assert once_of("SWRL, 5 s, as in the paper") == "once, as in the paper"
    assert once_of("SWRL, 5 s, run") == "once, run"
    garet = "GAReT's objective, as in the paper"
    assert once_of(f"SWRL, {garet}") == f"once, {garet}"


def test_garets_objective_is_compared_with_ours_by_the_same_refresh() -> None:
    rides = [_ride("a"), _ride("b")]
    good, bad = (np.full(40, share, np.bool_) for share in (True, False))
    garet = "GAReT's objective, as in the paper"
    arms = {"SWRL, as in the paper": good, "once, as in the paper": bad, f"SWRL, {garet}": bad, f"once, {garet}": bad}
    found = {arm: [_followed(right) for _ in rides] for arm, right in arms.items()}
    gains = summarize(rides, found).gains
    assert gains[f"SWRL, as in the paper over SWRL, {garet}"][0] == 100.0
    assert gains[f"once, as in the paper over once, {garet}"][0] == 0.0
    assert len(gains) == 4
    assert ours_of("SWRL, 5 s, GAReT's objective", ["SWRL, 5 s, X²Localizer"]) == "SWRL, 5 s, X²Localizer"
    assert ours_of("SWRL, 5 s", ["SWRL"]) == "SWRL, 5 s"
    assert set(panels(LongRange((), {}, {arm: [] for arm in arms}, []))) == {"regions by s_mix, each frame by itself"}


def test_a_decoder_has_arms_of_its_own() -> None:
    assert set(window_arms(decoder=True)) == {*all_arms(), *decoder_arms()}
    assert list(window_arms(["SWRL, decoder", "SWRL"], decoder=True)) == ["SWRL", "SWRL, decoder"]
    assert once_of("SWRL, decoder, as in the paper") in decoder_arms()


@pytest.fixture(scope="module")
def without_imagery(tiny_dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of regions and tiles alone, as GAMa is."""
    copy = tmp_path_factory.mktemp("data") / "bare"
    shutil.copytree(tiny_dataset, copy, ignore=shutil.ignore_patterns("imagery"))
    return copy


def test_the_protocol_runs_on_a_dataset_without_imagery(
    without_imagery: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    words = ["evaluate", str(tiny_bundle.root), "--protocol", "long-range", "--data", str(without_imagery)]
    words += ["--work", str(tmp_path / "work"), "--out", str(tmp_path / "out")]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, run.output
    values = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert [row["arm"] for row in values["rows"]] == ["once", "SWRL", "SWRL, 1 frame", "SWRL, 5 s", "SWRL, 20 s"]
    assert (tmp_path / "out" / "curves.png").is_file()
    refused = CliRunner().invoke(app, [*words, "--gallery", "imagery"])
    assert "--gallery dataset" in str(refused.exception)


def test_linked_clips_equal_a_naive_loop(without_imagery: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    """Every frame by itself: search when it is due, from pixels, and the nearest tile by brute force."""
    data = open_dataset(without_imagery)
    rides = long_rides(data, "test")
    (entrant,) = entrants(str(tiny_bundle.root))
    clips = Embeddings(data, "test", tiny_bundle, tmp_path)
    videos = [video for ride in rides for video in ride.videos]
    drives = Embeddings(data, "test", tiny_bundle, tmp_path, videos=videos)
    arms = run_clip_arms(entrant, clips, drives, rides, "gps")
    regions = clips.region_codes
    tiles = [(int(clips.region_of[v]), clips.tile_codes[i, 0], clips.places[i]) for v in range(len(clips.videos))
             for i in range(clips.first_frame[v], clips.first_frame[v + 1])]  # fmt: skip
    for arm, budget, once in (("once", 8, True), ("SWRL, 5 s", 2, False)):
        for ride, followed in zip(rides, arms[arm], strict=True):
            window: list[np.ndarray] = []
            searches, searched_s, at = 0, -np.inf, 0
            for number, video in enumerate(ride.videos):
                if number and not once:
                    window, searches = [], 0
                for row in data.frames(video.video_id):
                    image, time_s = data.picture(row.image), ride.times_s[at]
                    if row.keyframe >= 0:
                        window = [*window, image][-budget:]
                        if searches < budget or (not once and time_s - searched_s >= 20):
                            code = tiny_bundle.encode_prefixes(np.stack(window)[None])
                            s_tok = np.einsum("kd,rld->rkl", code.tokens[0], regions.tokens)
                            s_f = np.array([_fine(s) for s in s_tok])
                            scores = s_f if entrant.similarities[-1] == "s_f" else s_tok.max(2).mean(1)
                            best = set(np.argsort(-scores, kind="stable")[:10].tolist())
                            searches, searched_s = searches + 1, time_s
                    code = tiny_bundle.encode_frames(image[None])[0]
                    _, place = max(((float(code @ t), p) for r, t, p in tiles if r in best), key=lambda pair: pair[0])
                    error = float(geo.distance_m(row.lat_deg, row.lon_deg, *place))
                    assert followed.errors_m[at] == pytest.approx(error, rel=0.01, abs=1.0)
                    at += 1


def _fine(s: np.ndarray) -> float:
    """s_f of one region, (k, l)."""

    def soft(values: np.ndarray) -> float:
        weights = np.exp((values - values.max()) / 0.01)
        return float((weights * values).sum() / weights.sum())

    ground = soft(np.array([soft(row) for row in s]))
    return (ground + soft(np.array([soft(column) for column in s.T]))) / 2


def test_each_model_has_a_panel_of_its_own() -> None:
    line = [(5.0, 10.0, 3)]
    one = LongRange((), {}, {"once": line}, [])
    assert panels_by_model(one, ["town"]) == {"each frame by itself": {"once": line}}
    two = LongRange((), {}, {"once, town": line, "SWRL, 5 s, town": [], "once, small town": []}, [])
    assert panels_by_model(two, ["town", "small town"]) == {
        "town, each frame by itself": {"once": line, "SWRL, 5 s": []},
        "small town, each frame by itself": {"once": []},
    }
