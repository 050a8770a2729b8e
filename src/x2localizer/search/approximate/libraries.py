"""Vector indexes on the same tiles: do the tiles nearest to each frame lead to the regions that a window is in?

Each index gives the tiles nearest to each of eight frames, these vote for the regions that hold them, and the regions
with the most votes are compared with the ten best of the exact search. FAISS and usearch take part where installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from x2localizer.encoders import open_bundle
from x2localizer.gallery import Gallery
from x2localizer.gallery.manifest import GalleryManifest
from x2localizer.gallery.tiles import TILES_PER_BLOCK, region_views
from x2localizer.search.approximate.bench import Progress, country_side
from x2localizer.search.approximate.build import build_index
from x2localizer.search.approximate.manifest import FOLDER
from x2localizer.search.approximate.synthetic import draw_windows, fit_statistics, make_country
from x2localizer.search.approximate.tile_index import TileIndex
from x2localizer.search.searcher import Searcher
from x2localizer.similarity import Query
from x2localizer.types import Codes, Ints

NEAREST = (500, 5000)
"""Tiles that are asked for, for each frame."""
KEPT_SHARE = 0.05
"""Regions with the most votes that are kept; the best ones should be among them."""


class VectorIndex(Protocol):
    """An index of vectors in a folder."""

    def build(self, codes: Codes, folder: Path) -> None:
        """Make an index of codes, (n, d), and write it."""

    def open(self, folder: Path) -> None:
        """Open it."""

    def nearest(self, frames: Codes, count: int) -> tuple[Ints, Codes]:
        """Numbers and similarities of the codes nearest to frames, (k, count) each."""


class FaissIndex:
    """Inverted lists of product-quantized codes, 4 bits each, scanned in registers."""

    _index: Any

    def build(self, codes: Codes, folder: Path) -> None:
        """Train and add."""
        import faiss  # noqa: PLC0415

        lists = max(16, int(len(codes) ** 0.5))
        index = faiss.index_factory(
            codes.shape[1], f"IVF{lists},PQ{codes.shape[1] // 2}x4fs", faiss.METRIC_INNER_PRODUCT
        )
        index.train(codes[np.random.default_rng(0).permutation(len(codes))[: 64 * lists]])
        index.add(codes)
        faiss.write_index(index, str(folder / "faiss.index"))

    def open(self, folder: Path) -> None:
        """Read the file."""
        import faiss  # noqa: PLC0415

        self._index = faiss.read_index(str(folder / "faiss.index"))
        self._index.nprobe = max(8, self._index.nlist // 16)

    def nearest(self, frames: Codes, count: int) -> tuple[Ints, Codes]:
        """Search."""
        similarities, numbers = self._index.search(frames, count)
        return numbers, similarities


class UsearchIndex:
    """A graph of neighbours (HNSW) over codes in 8 bits."""

    _index: Any

    def build(self, codes: Codes, folder: Path) -> None:
        """Add one after the other."""
        from usearch.index import Index  # noqa: PLC0415

        index = Index(ndim=codes.shape[1], metric="cos", dtype="i8")
        index.add(np.arange(len(codes)), codes)
        index.save(str(folder / "usearch.index"))

    def open(self, folder: Path) -> None:
        """Map the file."""
        from usearch.index import Index  # noqa: PLC0415

        self._index = Index.restore(str(folder / "usearch.index"), view=True)

    def nearest(self, frames: Codes, count: int) -> tuple[Ints, Codes]:
        """Search."""
        self._index.expansion_search = count
        hits = self._index.search(frames, count)
        return np.asarray(hits.keys, np.int64), np.asarray(1.0 - hits.distances, np.float32)


class LanceIndex:
    """LanceDB's own: inverted lists of product-quantized codes in its table."""

    _table: Any

    def build(self, codes: Codes, folder: Path) -> None:
        """Write a table and index it."""
        import lancedb  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415
        from lancedb.index import IvfPq  # noqa: PLC0415

        vectors = pa.FixedSizeListArray.from_arrays(pa.array(codes.reshape(-1)), codes.shape[1])
        table = lancedb.connect(str(folder)).create_table(
            "tiles", pa.table({"number": np.arange(len(codes)), "vector": vectors}), mode="overwrite"
        )
        table.create_index("vector", config=IvfPq(distance_type="dot", num_sub_vectors=codes.shape[1] // 4))

    def open(self, folder: Path) -> None:
        """Open the table."""
        import lancedb  # noqa: PLC0415

        self._table = lancedb.connect(str(folder)).open_table("tiles")

    def nearest(self, frames: Codes, count: int) -> tuple[Ints, Codes]:
        """Search, a frame at a time."""
        numbers = np.full((len(frames), count), -1, np.int64)
        similarities = np.full((len(frames), count), -1.0, np.float32)
        for i, frame in enumerate(frames):
            query = self._table.search(frame).distance_type("dot").nprobes(32).limit(count)
            hits = query.select(["number", "_distance"]).to_arrow()
            numbers[i, : len(hits)] = hits["number"].to_numpy()
            similarities[i, : len(hits)] = 1.0 - hits["_distance"].to_numpy()
        return numbers, similarities


INDEXES: dict[str, tuple[str, Callable[[], VectorIndex]]] = {
    "LanceDB IVF_PQ": ("lancedb", LanceIndex), "FAISS IVF, PQ fast scan": ("faiss", FaissIndex),
    "usearch HNSW, 8 bits": ("usearch", UsearchIndex),
}  # fmt: skip


def bench_indexes(
    regions: int, work: Path, queries: int = 20, progress: Progress = lambda what, done, total: None
) -> list[dict[str, object]]:
    """A row for each index: speed, size, and the share of the ten best regions that it leads to."""
    encoder = open_bundle("town")
    statistics = fit_statistics(encoder, work)
    manifest = GalleryManifest(encoder.fingerprint, 19, encoder.spec.region_tiles, 3, encoder.spec.dim)
    side = country_side(regions)
    gallery = make_country(statistics, manifest, side, work / f"country-town-{side}", progress=progress)
    windows = draw_windows(gallery, statistics, queries)
    exact = Searcher.over(gallery, memory_mb=3000)
    best = [exact.plain(Query(window)).rows for window in windows]
    rows = [_ours(gallery, windows, best)]
    codes, regions_of = _tiles(gallery)
    for name, (module, make) in INDEXES.items():
        progress(name, 0, 1)
        if find_spec(module) is not None:
            rows += _measured(name, make(), codes, regions_of, len(gallery.regions), windows, best, work)
    return rows


def _tiles(gallery: Gallery) -> tuple[Codes, list[Ints]]:
    """Codes of all tiles, (n, d), and the regions that hold each."""
    blocks = list(gallery.tile_blocks())
    codes = np.concatenate([block.codes.reshape(TILES_PER_BLOCK, -1) for block in blocks])
    views = region_views(gallery.regions, {(block.x, block.y): number for number, block in enumerate(blocks)})
    order = np.argsort(views.reshape(-1), kind="stable")
    ends = np.searchsorted(views.reshape(-1)[order], np.arange(len(codes) + 1))
    holders = order // views.shape[1]
    return codes, [holders[ends[i] : ends[i + 1]] for i in range(len(codes))]


def _ours(gallery: Gallery, windows: list[Codes], best: list[Ints]) -> dict[str, object]:
    start = time.perf_counter()
    build_index(gallery, replace=True)
    build_s = time.perf_counter() - start
    start = time.perf_counter()
    index = TileIndex(gallery)
    open_s = time.perf_counter() - start
    most = kept_of(len(gallery.regions))
    index.candidates(windows[0], most=most)
    spent, kept = _timed(lambda window: index.candidates(window, most=most), windows)
    size = sum(path.stat().st_size for path in (Path(gallery.address) / FOLDER).iterdir())
    return _row("ours, votes", index.manifest.codes, build_s, open_s, spent, kept, best, size)


def _measured(
    name: str, index: VectorIndex, codes: Codes, regions_of: list[Ints], regions: int, windows: list[Codes],
    best: list[Ints], work: Path,
) -> list[dict[str, object]]:  # fmt: skip
    folder = work / "libraries" / name.split(maxsplit=1)[0]
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    index.build(codes, folder)
    build_s = time.perf_counter() - start
    start = time.perf_counter()
    index.open(folder)
    open_s = time.perf_counter() - start
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    rows = []
    for count in NEAREST:
        index.nearest(windows[0], count)
        spent, hits = _timed(partial(_nearest, index, count), windows)
        kept = [_voted(numbers, values, regions_of, regions) for numbers, values in hits]
        rows.append(_row(f"{name}, {count} tiles a frame", len(codes), build_s, open_s, spent, kept, best, size))
    return rows


def _nearest(index: VectorIndex, count: int, frames: Codes) -> tuple[Ints, Codes]:
    return index.nearest(frames, count)


def kept_of(regions: int) -> int:
    """How many of some regions are kept."""
    return max(10, int(KEPT_SHARE * regions))


def _voted(numbers: Ints, values: Codes, regions_of: list[Ints], regions: int) -> Ints:
    """The regions with the most votes: for each frame that of its best tile, above the worst tile of all."""
    total = np.zeros(regions, np.float32)
    for found, similarities in zip(numbers, values, strict=True):
        votes = np.zeros(regions, np.float32)
        there = found >= 0
        floor = similarities[there].min() if there.any() else 0.0
        for number, value in zip(found[there], similarities[there], strict=True):
            holders = regions_of[int(number)]
            votes[holders] = np.maximum(votes[holders], value - floor)
        total += votes
    return np.argsort(-total, kind="stable")[: kept_of(regions)]


def _timed(work: Callable[[Codes], Any], windows: list[Codes]) -> tuple[list[float], list[Any]]:
    spent, out = [], []
    for window in windows:
        start = time.perf_counter()
        out.append(work(window))
        spent.append(1000 * (time.perf_counter() - start))
    return spent, out


def _row(
    name: str, tiles: int, build_s: float, open_s: float, spent: list[float], kept: list[Ints], best: list[Ints],
    size: int,
) -> dict[str, object]:  # fmt: skip
    held = [np.isin(b, k) for b, k in zip(best, kept, strict=True)]
    return {
        "index": name, "tiles": tiles, "ms_per_window": float(np.median(spent)),
        "top1_kept": float(np.mean([one[0] for one in held])),
        "top10_kept": float(np.mean([one.mean() for one in held])),
        "bytes_per_tile": size / tiles, "build_s": build_s, "open_s": open_s,
    }  # fmt: skip
