"""Models against the first one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from x2localizer.cli import app
from x2localizer.datasets.dataset import open_dataset
from x2localizer.encoders import Bundle
from x2localizer.errors import UserError
from x2localizer.evaluate.page import page_text
from x2localizer.evaluate.variants import Found, VariantRow, find_regions, measure_variants, table_text


def test_a_model_gains_nothing_over_itself(tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    words = ["evaluate", str(tiny_bundle.root), str(tiny_bundle.root), "--protocol", "variants", "--split", "val"]
    words += ["--data", str(tiny_dataset), "--work", str(tmp_path / "work"), "--out", str(tmp_path / "variants")]
    run = CliRunner().invoke(app, [*words, "--budgets", "1,8"])
    assert run.exit_code == 0, (run.output, run.exception)
    values = json.loads((tmp_path / "variants" / "results.json").read_text())
    first, second = values["rows"]
    assert [*first["r1"]] == ["1", "8"]
    assert first["r1"] == second["r1"]
    assert second["gained"] == [0.0, 0.0, 0.0]
    assert "+0.0 (+0.0 to +0.0)" in run.output
    assert f"| {tiny_bundle.root.name} | s_path |" in page_text({"eye-changes": values})


def test_gains_are_paired_by_video() -> None:
    # Of four videos the second model finds one more with one keyframe, and none more with eight.
    hits = np.tile([0.0, 0.0, 100.0, 100.0], 50)
    better = np.tile([100.0, 0.0, 100.0, 100.0], 50)
    first, second = Found("a", "s_path", {1: hits, 8: hits}), Found("b", "s_path", {1: better, 4: hits, 8: hits})
    mean, low, high = second.gained_over(first)
    assert mean == pytest.approx(12.5)
    assert 8.0 < low < 12.5 < high < 17.0  # over the budgets 1 and 8, which both have
    assert first.gained_over(second)[0] == pytest.approx(-12.5)
    assert second.r1 == {"1": 75.0, "4": 50.0, "8": 50.0}


def test_rows_have_titles_and_gaps() -> None:
    rows = [
        VariantRow("all", "s_path", {"1": 40.0, "8": 90.0}, (0.0, 0.0, 0.0)),
        VariantRow("mine", "s_g", {"8": 80.0}, (-10.0, -12.04, -7.96)),
    ]
    first, second = table_text(rows, {"all": "all changes"}).splitlines()[2:]
    assert first == "| all changes | s_path | 40.0 | 90.0 | - |"
    assert second == "| mine | s_g | - | 80.0 | -10.0 (-12.0 to -8.0) |"


def test_models_are_ranked_by_the_similarity_that_is_asked_for(
    tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    words = ["evaluate", str(tiny_bundle.root), str(tiny_bundle.root), "--protocol", "variants", "--split", "val"]
    words += ["--data", str(tiny_dataset), "--work", str(tmp_path / "work"), "--budgets", "1", "--json"]
    run = CliRunner().invoke(app, [*words, "--similarity", "s_mix"])
    assert run.exit_code == 0, (run.output, run.exception)
    assert [row["similarity"] for row in json.loads(run.stdout)["rows"]] == ["s_mix", "s_mix"]
    wrong = CliRunner().invoke(app, [*words, "--similarity", "s_mixed"])
    assert isinstance(wrong.exception, UserError)
    rankings = tmp_path / "theirs.csv"
    rankings.write_text("query,item,score\n")
    with pytest.raises(UserError, match="cannot be ranked by s_mix"):
        find_regions([str(rankings)], open_dataset(tiny_dataset), "val", tmp_path, _quiet, similarity="s_mix")


def _quiet(what: str, done: int, total: int) -> None:
    """Reports nothing."""


def test_one_model_is_not_compared(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="compared with the first model"):
        measure_variants(["town"], None, "val", tmp_path, _quiet)  # type: ignore[arg-type]
