"""Long drives: the figures of known fixes, and the whole protocol on a small data set."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from x2localizer import geo
from x2localizer.cli import app
from x2localizer.datasets.dataset import open_dataset
from x2localizer.encoders import Bundle
from x2localizer.errors import DatasetError
from x2localizer.evaluate.long_range import (
    Followed,
    Ride,
    curve,
    long_rides,
    median_first_s,
    ride_frames,
    summarize,
    table_text,
)
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
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, run.output
    values = json.loads((out / "results.json").read_text(encoding="utf-8"))
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
    two = CliRunner().invoke(app, [*words, "another"])
    assert "takes one bundle" in str(two.exception)
