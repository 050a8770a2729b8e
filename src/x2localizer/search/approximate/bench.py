"""How does search grow with the map? Synthetic countries with the statistics of real codes, up to a million regions.

Everything is kept in a folder and made once: an interrupted run resumes. Searches run in a process of their own, so
that peak memory is theirs alone.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from x2localizer.config import MotionSettings
from x2localizer.encoders import open_bundle
from x2localizer.errors import UserError
from x2localizer.files import write_text
from x2localizer.gallery import Gallery
from x2localizer.gallery.manifest import GalleryManifest
from x2localizer.search.approximate.build import build_index
from x2localizer.search.approximate.parts import save_array
from x2localizer.search.approximate.reference import exact_best
from x2localizer.search.approximate.synthetic import draw_windows, fit_statistics, make_country
from x2localizer.search.searcher import Searcher, reach_between
from x2localizer.similarity import Query
from x2localizer.types import Codes, Floats, Ints

IN_MEMORY = 30_000
"""Regions up to which the exact search is measured, too, with all tiles in memory."""
SEARCH = """
import json, sys, time
import numpy as np
import lancedb
def peak_gb():  # not ru_maxrss: on Linux it starts at what the parent process had
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) / 2**20
from x2localizer.gallery import open_gallery
from x2localizer.search import open_searcher
from x2localizer.similarity import Query
address, windows, mode = sys.argv[1:4]
windows = [Query(codes) for codes in np.load(windows)]
start = time.perf_counter()
searcher = open_searcher(open_gallery(address), mode=mode, memory_mb=3000)
open_s = time.perf_counter() - start
for query in windows[:3]:
    searcher.search(query)  # kernels are loaded, and the first pages of files
spent, cpu, rows, scores = [], [], [], []
for query in windows:
    start, busy = time.perf_counter(), time.process_time()
    ranked = searcher.search(query)
    spent.append(1000 * (time.perf_counter() - start))
    cpu.append(1000 * (time.process_time() - busy))
    rows.append(ranked.rows.tolist())
    scores.append(ranked.scores.tolist())
times = {"open_s": open_s, "ms": spent, "cpu_ms": cpu}
print(json.dumps({**times, "rows": rows, "scores": scores, "memory_gb": peak_gb()}))
"""
Progress = Callable[[str, int, int], None]


def bench_scale(
    regions: int, work: Path, *, bundle: str = "town", queries: int = 200, sample: int = 20,
    progress: Progress = lambda what, done, total: None,
) -> dict[str, object]:  # fmt: skip
    """Make a country of about so many regions, index it and search it; a sample of the searches against exact ones."""
    work.mkdir(parents=True, exist_ok=True)
    encoder = open_bundle(bundle)
    statistics = fit_statistics(encoder, work)
    side = country_side(regions)
    folder = work / f"country-{bundle}-{side}"
    spec = encoder.spec
    manifest = GalleryManifest(encoder.fingerprint, 19, spec.region_tiles, 3, spec.dim, headings=spec.headings)
    gallery = make_country(statistics, manifest, side, folder, progress=progress)
    build_s = _build(gallery, progress)
    windows = draw_windows(gallery, statistics, queries)
    save_array(work / "windows.npy", np.stack(windows))
    measured = _search(folder, work / "windows.npy", "approximate")
    found = [np.array(rows) for rows in measured["rows"]]
    least = np.array([scores[-1] for scores in measured["scores"][:sample]])
    exact = exact_answers(gallery, windows[:sample], progress, least)
    same = [len(set(a.tolist()) & set(b.tolist())) / max(1, len(b)) for a, b in zip(found, exact, strict=False)]
    count = len(gallery.regions)
    index_bytes = sum(path.stat().st_size for path in (folder / "approximate").iterdir())
    everything = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {
        "regions": count, "p50_ms": float(np.percentile(measured["ms"], 50)),
        "p99_ms": float(np.percentile(measured["ms"], 99)), "cpu_p50_ms": float(np.percentile(measured["cpu_ms"], 50)),
        "same_top1_share": float(np.mean([a[0] == b[0] for a, b in zip(found, exact, strict=False)])),
        "same_top10_share": float(np.mean(same)), "memory_gb": measured["memory_gb"], "open_s": measured["open_s"],
        "build_s_per_million": None if build_s is None else build_s * 1e6 / count, "index_gb": index_bytes / 1e9,
        "gallery_gb": (everything - index_bytes) / 1e9, "headings": spec.headings, "queries": queries,
        "sample": len(exact),
    }  # fmt: skip


def country_side(regions: int) -> int:
    """Regions along the side of a country of so many; at its borders, regions count of which half is there."""
    return max(1, round(math.sqrt(regions)) - 2)


def _build(gallery: Gallery, progress: Progress) -> float | None:
    """Build the index, or go on with it; returns the seconds that all runs together took, if they were measured."""
    path = Path(gallery.address) / "build_s.json"
    before = float(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else 0.0
    start = time.perf_counter()

    def note(what: str, done: int, total: int) -> None:
        write_text(path, json.dumps(before + time.perf_counter() - start))
        progress(what, done, total)

    build_index(gallery, progress=note)
    return float(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None


def exact_answers(gallery: Gallery, windows: list[Codes], progress: Progress, least: Floats | None = None) -> Ints:
    """The ten best regions of each window by the exact search, (windows, 10); worked out once and kept."""
    path = Path(gallery.address) / f"exact-{len(windows)}.npy"
    if not path.is_file():
        if gallery.manifest.headings > 1:
            searcher = Searcher.over(gallery, memory_mb=3000)
            rows = [searcher.search(Query(window)).rows for window in windows]
        else:
            reach = reach_between(gallery.regions, MotionSettings(), 5.0)
            best = exact_best(
                gallery, windows, reach, least=least, progress=lambda done, total: progress("exact search", done, total)
            )
            rows = [one.rows for one in best]
        save_array(path, np.stack(rows))
    answers: Ints = np.load(path, allow_pickle=False)
    return answers


def _search(gallery: Path, windows: Path, mode: str) -> dict[str, Any]:
    own = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", SEARCH, str(gallery), str(windows), mode], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(own)},
    )  # fmt: skip
    if done.returncode:
        raise UserError(f"The search failed: {done.stderr.strip()[-300:]}", "Check that the package is installed.")
    values: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return values


def scale_curve(
    most: int, work: Path, *, bundle: str = "town", queries: int = 200, sample: int = 20,
    progress: Progress = lambda what, done, total: None,
) -> list[dict[str, object]]:  # fmt: skip
    """Measurements from 1,000 regions to the most, ten times as many each; with those of the exact search in memory."""
    rows = []
    sizes = [size for size in (1000 * 10**i for i in range(9)) if size < most]
    for regions in [*sizes, most]:
        values = bench_scale(regions, work, bundle=bundle, queries=queries, sample=sample, progress=progress)
        if regions <= IN_MEMORY:
            side = country_side(regions)
            exact = _search(work / f"country-{bundle}-{side}", work / "windows.npy", "exact")
            values |= {"exact_p50_ms": float(np.percentile(exact["ms"], 50)), "exact_memory_gb": exact["memory_gb"]}
        rows.append(values)
    return rows
