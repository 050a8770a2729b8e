"""Rankings files as others write them: repeated items, other encodings, datasets without regions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.command_line import x2l
from x2localizer.datasets.dataset import open_dataset
from x2localizer.errors import DatasetError
from x2localizer.evaluate.entrants import entrants
from x2localizer.evaluate.protocols import prefix_rows
from x2localizer.evaluate.rankings import ranks_of_file


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("wxyz"), st.integers(0, 3)), min_size=1))
def test_the_first_of_repeated_items_counts(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, str, int]]
) -> None:
    rows = [*drawn, ("a", "w", 0), ("b", "w", 0)]
    path = tmp_path_factory.mktemp("r") / "r.csv"
    path.write_text("query,item,score\n" + "".join(f"{q},{i},{s}\n" for q, i, s in rows))
    first: dict[tuple[str, str], int] = {}
    for query, item, score in rows:
        first.setdefault((query, item), score)
    found = ranks_of_file(path, ["a", "b"], list("wxyz"), np.array([1, 3]), keep_first=True)
    assert found.repeated == len(rows) - len(first)
    for q, (query, true) in enumerate((("a", "x"), ("b", "z"))):
        scores = [score for (name, _), score in first.items() if name == query]
        own = first.get((query, true))
        assert found.ranks[8][q] == (4 if own is None else sum(score >= own for score in scores))


def test_repeated_items_are_an_error_that_names_the_option(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("query,item,score\na,x,3\na,y,2\na,x,1\n")
    with pytest.raises(DatasetError, match=r"ranks x twice for a.*--keep-first"):
        ranks_of_file(path, ["a"], ["x", "y"], np.array([1]))


def test_items_repeated_far_apart_are_found(tmp_path: Path) -> None:
    """The file is read in several parts."""
    items = [f"item-{i:06d}" for i in range(120_000)]
    path = tmp_path / "r.csv"
    path.write_text(
        "query,item,score\n" + "".join(f"a,{name},{-i}\n" for i, name in enumerate(items)) + "a,item-000000,9\n"
    )
    found = ranks_of_file(path, ["a"], items, np.array([0]), keep_first=True)
    assert (found.ranks[8].tolist(), found.repeated) == ([1], 1)


def test_the_command_scores_a_file_with_repeated_items(tiny_dataset: Path, tmp_path: Path) -> None:
    data = open_dataset(tiny_dataset)
    path = tmp_path / "theirs.csv"
    rows = [f"{video.video_id},{video.region_id},1\n" for video in data.videos("test")]
    path.write_text("query,item,score\n" + "".join(rows) + rows[0])
    words = ("evaluate", str(path), "--data", str(tiny_dataset), "--work", str(tmp_path / "w"))
    assert "--keep-first" in x2l(*words, code=2)
    assert "theirs: repeated items dropped: 1" in x2l(*words, "--keep-first")
    values = json.loads(x2l(*words, "--keep-first", "--json").splitlines()[-1])
    assert values["repeated"] == {"theirs": 1}
    assert values["rows"][0]["r1"] == 100.0


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_text_is_a_clear_error(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes("query,item,score\na,x,1\n".encode(encoding))
    with pytest.raises(DatasetError, match="UTF-8"):
        ranks_of_file(path, ["a"], ["x"], np.array([0]))


def test_a_header_in_another_encoding_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes("query,item,score,größe\na,x,1,2\n".encode("latin-1"))
    with pytest.raises(DatasetError, match="UTF-8"):
        ranks_of_file(path, ["a"], ["x"], np.array([0]))


def test_a_dataset_without_regions_is_a_clear_error(tiny_dataset: Path, tmp_path: Path) -> None:
    root = tmp_path / "data"
    shutil.copytree(tiny_dataset, root)
    regions = pq.read_table(root / "regions.parquet")
    pq.write_table(regions.slice(0, 0), root / "regions.parquet")
    path = tmp_path / "r.csv"
    path.write_text("query,item,score\n")
    with pytest.raises(DatasetError, match="is not in the dataset"):
        prefix_rows(entrants(str(path)), open_dataset(root), "test", tmp_path, lambda what, done, total: None)
    with pytest.raises(DatasetError, match="no videos"):
        ranks_of_file(path, [], [], np.empty(0, np.int64))
