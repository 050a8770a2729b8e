"""Smaller bundles beside the one they were made from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from x2localizer.cli import app
from x2localizer.encoders import Bundle, open_bundle
from x2localizer.evaluate.compression import CompressionRow, precision_of, size_of, table_text, times_ms
from x2localizer.evaluate.page import page_text


@pytest.fixture(scope="module")
def other(tiny_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The same graphs, said to be of another precision."""
    folder = tmp_path_factory.mktemp("bundles") / "tiny-int8"
    shutil.copytree(tiny_bundle.root, folder)
    manifest = json.loads((folder / "bundle.json").read_text())
    (folder / "bundle.json").write_text(json.dumps({**manifest, "precision": "int8"}))
    return open_bundle(folder)


def test_the_same_graphs_lose_nothing(tiny_dataset: Path, tiny_bundle: Bundle, other: Bundle, tmp_path: Path) -> None:
    words = ["evaluate", str(tiny_bundle.root), str(other.root), "--protocol", "compression", "--split", "val"]
    words += ["--data", str(tiny_dataset), "--work", str(tmp_path / "work"), "--out", str(tmp_path / "compression")]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, (run.output, run.exception)
    values = json.loads((tmp_path / "compression" / "results.json").read_text())
    full, small = values["rows"]
    assert (full["precision"], small["precision"]) == ("fp32", "int8")
    assert full["r1"] == small["r1"]
    assert small["lost"] == [0.0, 0.0, 0.0]
    assert small["bytes"] == full["bytes"] == size_of(tiny_bundle)
    assert "| tiny-int8 | int8 |" in run.output
    assert "| tiny-int8 | int8 |" in page_text({"compression": values})


def test_what_is_lost_and_won() -> None:
    full = CompressionRow("a", "fp32", "s_path", {"1": 50.0, "8": 90.0}, (0.0, 0.0, 0.0), 2.0, 1.0, 8_000_000)
    small = CompressionRow("b", "int8", "s_path", {"1": 49.0, "8": 90.0}, (0.5, 0.1, 0.9), 1.0, 1.0, 2_000_000)
    first, second = table_text([full, small]).splitlines()[2:]
    assert first == "| a | fp32 | 50.0 | 90.0 | - | 2.00 (1.00x) | 1.00 (1.00x) | 8.0 (1.00x) |"
    assert second == "| b | int8 | 49.0 | 90.0 | +0.50 (+0.10 to +0.90) | 1.00 (2.00x) | 1.00 (1.00x) | 2.0 (4.00x) |"


def test_times_are_taken_of_every_bundle(tiny_bundle: Bundle, other: Bundle) -> None:
    times = times_ms([tiny_bundle, other], turns=2)
    assert len(times) == 2
    assert all(np.isfinite(pair).all() and min(pair) > 0 for pair in times)
    assert precision_of(other) == "int8"


def test_one_bundle_is_not_compared(tiny_dataset: Path, tiny_bundle: Bundle) -> None:
    words = ["evaluate", str(tiny_bundle.root), "--protocol", "compression", "--data", str(tiny_dataset)]
    run = CliRunner().invoke(app, words)
    assert "Compression compares bundles" in str(run.exception)
