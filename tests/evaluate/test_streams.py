"""Rules that choose frames, and recall against the frames they encode."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from x2localizer.cli import app
from x2localizer.datasets.dataset import open_dataset
from x2localizer.encoders import Bundle
from x2localizer.evaluate.coarse import coarse
from x2localizer.evaluate.embed import Embeddings
from x2localizer.evaluate.page import page_text
from x2localizer.evaluate.streams import RULES, Stream, distance, every, novelty, sharpest, stream_of


def _stream(frames: int = 12) -> Stream:
    """A car that stands for 4 s and then drives at 10 m/s; the picture changes as it drives."""
    times = np.arange(frames, dtype=float)
    travelled = 10.0 * np.maximum(times - 3, 0.0)
    pictures = np.broadcast_to((travelled / 1000)[:, None, None], (frames, 8, 16))
    return Stream(times, travelled, pictures, np.where(times % 3 == 1, 2.0, 1.0))


def test_rules_take_what_adds_something() -> None:
    stream = _stream()
    assert np.flatnonzero(every(stream, 5.0)).tolist() == [0, 5, 10]
    assert every(stream, 1.0).all()
    assert np.flatnonzero(distance(stream, 20.0)).tolist() == [0, 5, 7, 9, 11]  # none while it stands
    assert np.flatnonzero(novelty(stream, 0.0199)).tolist() == [0, 5, 7, 9, 11]
    assert np.flatnonzero(sharpest(stream, 3.0)).tolist() == [1, 4, 7, 10]


@pytest.mark.parametrize("name", list(RULES))
def test_a_rule_only_sees_the_past(name: str) -> None:
    rule, _, settings = RULES[name]
    rng = np.random.default_rng(0)
    whole = Stream(
        np.arange(20.0), np.cumsum(rng.uniform(0, 20, 20)), rng.uniform(0, 1, (20, 8, 16)), rng.uniform(0, 1, 20)
    )
    begun = whole.until(9.0)
    for setting in settings:
        if name == "sharpest" and 10 % setting:  # decides when an interval ends
            continue
        assert rule(whole, setting)[:10].tolist() == rule(begun, setting).tolist()


def test_keyframes_give_the_ranks_of_the_coarse_protocol(
    tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    words = ["evaluate", str(tiny_bundle.root), "--protocol", "streams", "--data", str(tiny_dataset), "--split", "val"]
    run = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")])
    assert run.exit_code == 0, (run.output, run.exception)
    values = json.loads((tmp_path / "out" / "results.json").read_text())
    rows = values["rows"]
    assert "--protocol streams --data data/tiny --split val`" in page_text({"streams": values})
    encoded = Embeddings(open_dataset(tiny_dataset), "val", tiny_bundle, tmp_path / "work")
    for span, budget in ((15.0, 4), (35.0, 8)):
        (row,) = (r for r in rows if (r["rule"], r["setting"], r["span_s"]) == ("every", 5.0, span))
        assert row["frames"] == budget
        assert row["r1"] == 100.0 * (coarse(encoded, budget, ["s_path"])["s_path"].ranks <= 1).mean()
    (dense,) = (r for r in rows if (r["rule"], r["setting"], r["span_s"]) == ("every", 1.0, 35.0))
    assert dense["frames"] == 36
    for rule in RULES:  # the finer the rule, the more frames
        counts = [r["frames"] for r in rows if r["rule"] == rule and r["span_s"] == 35.0]
        assert counts == sorted(counts)
    assert (tmp_path / "out" / "curves.png").stat().st_size > 1000
    assert "| every 5 s | 35 s | 8.0 |" in (tmp_path / "out" / "table.md").read_text()


def test_what_rules_see_of_a_clip(tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    encoded = Embeddings(open_dataset(tiny_dataset), "val", tiny_bundle, tmp_path)
    stream = stream_of(encoded, 0)
    rows = encoded.frames[0]
    assert stream.thumbnails.shape == (len(rows), 8, 16)
    assert stream.travelled_m[0] == 0.0
    speeds, times = [row.speed_m_s or 0.0 for row in rows], [row.time_s for row in rows]
    assert stream.travelled_m[-1] == pytest.approx(np.trapezoid(speeds, times))
    encoded.frames[0][:] = [replace(row, speed_m_s=None) for row in rows]  # then their places say it
    assert stream_of(encoded, 0).travelled_m[-1] == pytest.approx(stream.travelled_m[-1], rel=0.1)
    assert (stream.sharpness > 0).all()


def test_a_file_of_rankings_has_no_stream(tiny_dataset: Path, tmp_path: Path) -> None:
    file = tmp_path / "theirs.csv"
    file.write_text("query,item,score\n")
    run = CliRunner().invoke(app, ["evaluate", str(file), "--protocol", "streams", "--data", str(tiny_dataset)])
    assert "need a model with image codes" in str(run.exception)
