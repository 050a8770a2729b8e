"""Rankings by any method: tables of query, item and score, evaluated in the same way as our own models.

CSV or Parquet with the columns ``query`` (the id of a video), ``item`` (the id of a region), ``score`` (higher is
better) and optionally ``budget`` (1, 2, 4, 8; 8 by default). Items that are not listed rank after all that are, so a
true region that is not listed has the worst rank. Every query must be listed. Files are read in parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq

from x2localizer.datasets.tables import RegionRow, VideoRow
from x2localizer.errors import DatasetError
from x2localizer.files import atomic_path
from x2localizer.types import Ints

SUFFIXES = (".csv", ".parquet")
FULL_BUDGET = 8


@dataclass(frozen=True, slots=True, eq=False)
class FileRanks:
    """The ranks of each query's true item by budget, shape (queries,), and the number of rows that repeat an item."""

    ranks: dict[int, Ints]
    repeated: int


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Some rows of a file: indices of queries and items, scores and budgets, each of shape (rows,)."""

    query: Ints
    item: Ints
    score: npt.NDArray[np.float64]
    budget: Ints

    def where(self, keep: npt.NDArray[np.bool_]) -> _Part:
        """The rows where a mask is True."""
        return _Part(self.query[keep], self.item[keep], self.score[keep], self.budget[keep])


def true_items(videos: Sequence[VideoRow], regions: Sequence[RegionRow]) -> Ints:
    """The index of each video's region, shape (videos,)."""
    number = {row.region_id: i for i, row in enumerate(regions)}
    for video in videos:
        if video.region_id not in number:
            raise DatasetError(
                f"The region of video '{video.video_id}' is not in the dataset.", "Run `x2l check` on the dataset."
            )
    return np.array([number[video.region_id] for video in videos], np.int64)


def ranks_of_file(
    path: Path, queries: list[str], items: list[str], truth: Ints, *, keep_first: bool = False
) -> FileRanks:
    """The rank of each query's true item by budget, from a rankings file.

    ``truth`` is the index of each query's true item. With ``keep_first``, the first of several rows with the same query
    and item is kept and the others are counted; otherwise they are an error.
    """
    if not queries:
        raise DatasetError("The dataset has no videos in this split.", "Choose another --split.")
    own: dict[int, npt.NDArray[np.float64]] = {}
    listed: dict[int, npt.NDArray[np.bool_]] = {}
    repeated = 0
    for part, dropped in _once(path, queries, items, keep_first):
        repeated += dropped
        for budget in np.unique(part.budget).tolist():
            rows = part.budget == budget
            listed.setdefault(budget, np.zeros(len(queries), np.bool_))[part.query[rows]] = True
            mine = own.setdefault(budget, np.full(len(queries), -np.inf))
            true = rows & (part.item == truth[part.query])
            mine[part.query[true]] = part.score[true]
    if not own:
        raise DatasetError(f"{path} has no rows.", "Write one row for each query and item.")
    for budget, ranked in listed.items():
        silent = np.flatnonzero(~ranked)
        if len(silent):
            raise DatasetError(
                f"{path} does not rank {len(silent)} of {len(queries)} queries at budget {budget}, such as "
                f"{queries[silent[0]]}.",
                "Rank every video of the split.",
            )
    before = {budget: np.zeros(len(queries), np.int64) for budget in own}
    for part, _ in _once(path, queries, items, keep_first):
        for budget, mine in own.items():
            ahead = (part.budget == budget) & (part.score >= mine[part.query])
            before[budget] += np.bincount(part.query[ahead], minlength=len(queries))
    ranks = {budget: np.where(np.isneginf(mine), len(items), before[budget]) for budget, mine in own.items()}
    return FileRanks({budget: found.astype(np.int64) for budget, found in ranks.items()}, repeated)


def _once(path: Path, queries: list[str], items: list[str], keep_first: bool) -> Iterator[tuple[_Part, int]]:
    """The rows of a file in parts, each pair of query and item once, and the number of rows dropped from the part."""
    seen: dict[int, npt.NDArray[np.bool_]] = {}
    for part in _parts(path, queries, items):
        keep = np.ones(len(part.query), np.bool_)
        pair = part.query * len(items) + part.item
        for budget in np.unique(part.budget).tolist():
            known = seen.setdefault(budget, np.zeros(len(queries) * len(items), np.bool_))
            rows = np.flatnonzero(part.budget == budget)
            first = np.zeros(len(rows), np.bool_)
            first[np.unique(pair[rows], return_index=True)[1]] = True
            keep[rows] = first & ~known[pair[rows]]
            known[pair[rows]] = True
        if not keep_first and not keep.all():
            query, item = divmod(int(pair[~keep][0]), len(items))
            raise DatasetError(
                f"{path} ranks {items[item]} twice for {queries[query]}.",
                "Keep one score of each, or keep the first with --keep-first.",
            )
        yield part.where(keep), int((~keep).sum())


def write_rankings(path: Path, parts: Iterator[tuple[str, int, list[str], npt.NDArray[np.floating]]]) -> None:
    """Write rankings as Parquet, from parts of one query each: query, budget, items and their scores."""
    schema = pa.schema([("query", pa.string()), ("item", pa.string()), ("score", pa.float64()), ("budget", pa.int16())])
    with atomic_path(path) as target, pq.ParquetWriter(target, schema, compression="zstd") as file:
        for query, budget, items, scores in parts:
            count = len(items)
            columns = [[query] * count, items, np.asarray(scores, np.float64), np.full(count, budget, np.int16)]
            file.write_table(pa.table(columns, schema=schema))


def _parts(path: Path, queries: list[str], items: list[str]) -> Iterator[_Part]:
    """The rows of a file in parts, with names replaced by indices; raises for the first invalid row."""
    query_of, item_of = pa.array(queries), pa.array(items)
    for batch in _batches(path):
        missing = [name for name in ("query", "item", "score") if name not in batch.schema.names]
        if missing:
            raise DatasetError(f"{path} has no column '{missing[0]}'.", "It needs the columns query, item and score.")
        score = _column(path, batch, "score", pa.float64()).to_numpy(zero_copy_only=False)
        if np.isnan(score).any():
            raise DatasetError(f"{path} has a score that is not a number.", "Remove the row, or give it a score.")
        budget = np.full(len(score), FULL_BUDGET, np.int64)
        if "budget" in batch.schema.names:
            budget = _column(path, batch, "budget", pa.int64()).to_numpy(zero_copy_only=False)
        numbers = []
        for name, known in (("query", query_of), ("item", item_of)):
            words = _column(path, batch, name, pa.string())
            found = pc.index_in(words, value_set=known)
            if found.null_count:
                strange = words.filter(pc.is_null(found))[0].as_buffer().to_pybytes().decode("utf-8", "replace")
                raise DatasetError(
                    f"{path} has a {name} '{strange}' that is not in the dataset.",
                    "Queries are video ids, items are region ids of the split.",
                )
            numbers.append(found.to_numpy(zero_copy_only=False).astype(np.int64))
        yield _Part(numbers[0], numbers[1], score, budget)


def _column(path: Path, batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    try:
        column = batch.column(name).cast(kind)
    except pa.ArrowException as problem:
        raise DatasetError(f"{path} has a column '{name}' that is not {kind}.", "Fix the column.") from problem
    if column.null_count:
        raise DatasetError(f"{path} has a row without {name}.", "Fill it in, or remove the row.")
    return column


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a file as they are stored, in parts."""
    try:
        if path.suffix == ".csv":
            _refuse_wide_text(path)
            kinds = {"query": pa.string(), "item": pa.string(), "score": pa.float64(), "budget": pa.int64()}
            text = pv.ConvertOptions(column_types=kinds, null_values=[""])
            with pv.open_csv(path, convert_options=text) as reader:
                _ = reader.schema.names  # raises if the header is not UTF-8
                yield from reader
        else:
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(batch_size=1 << 18)
    except UnicodeDecodeError as problem:
        raise DatasetError(f"{path} is not UTF-8 text.", "Save it as UTF-8.") from problem
    except (OSError, pa.ArrowException) as problem:
        raise DatasetError(
            f"Cannot read the rankings {path}: {str(problem).splitlines()[0][:160]}", "Write CSV or Parquet."
        ) from problem


def _refuse_wide_text(path: Path) -> None:
    """Raise for UTF-16 and UTF-32, which some spreadsheets write: their headers contain zero bytes."""
    with path.open("rb") as file:
        if b"\0" in file.read(64):
            raise DatasetError(f"{path} is UTF-16 text, or not text at all.", "Save it as UTF-8.")
