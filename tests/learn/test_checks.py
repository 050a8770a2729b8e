"""Datasets that cannot be trained on are refused before anything heavy starts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.small_model import SETTINGS
from x2localizer.errors import DatasetError
from x2localizer.learn import loop
from x2localizer.learn.loop import train


def _with_keyframes(source: Path, target: Path, split: str, keyframes: int | None) -> Path:
    """A copy of a dataset whose clips of one split have other counts of keyframes, or are gone."""
    shutil.copytree(source, target)
    table = pq.read_table(target / "videos.parquet")
    rows = table.to_pylist()
    if keyframes is None:
        rows = [row for row in rows if row["split"] != split]
    for row in rows:
        if row["split"] == split and keyframes is not None:
            row["keyframes"] = keyframes
    pq.write_table(pa.Table.from_pylist(rows, table.schema), target / "videos.parquet")
    return target


@pytest.mark.parametrize(
    ("split", "keyframes", "told"),
    [
        ("val", None, r"has train: 6 of 6 clips, val: no clips\..*--val"),
        ("val", 5, r"val: 0 of 4 clips, the longest with 5 keyframes"),
        ("train", 7, r"train: 0 of 6 clips, the longest with 7 keyframes, val: 4 of 4 clips"),
    ],
)
def test_a_dataset_without_clips_to_judge_by_is_refused_at_once(
    split: str, keyframes: int | None, told: str, tiny_dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def heavy(*_: object) -> None:
        raise AssertionError("something heavy was started")

    monkeypatch.setattr(loop, "_launch", heavy)
    monkeypatch.setattr(loop, "Videos", heavy)
    data = _with_keyframes(tiny_dataset, tmp_path / "data", split, keyframes)
    with pytest.raises(DatasetError, match=told):
        train(SETTINGS, data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_validation_split_without_tiles_cannot_judge_stage_1(tiny_dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_dataset, tmp_path / "data")
    table = pq.read_table(tmp_path / "data" / "frames.parquet")
    rows = [{**row, "tile_path": "" if row["keyframe"] >= 0 else row["tile_path"]} for row in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), tmp_path / "data" / "frames.parquet")
    with pytest.raises(DatasetError, match=r"No keyframe in the split val.*--stages full,progressive"):
        train(SETTINGS, tmp_path / "data", tmp_path / "run")
