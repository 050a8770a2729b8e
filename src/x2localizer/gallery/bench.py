"""How fast is indexing, and how large is what it makes? Side by side with another version or bundle, if asked for.

Each measurement runs in a process of its own, so that peak memory is that of the work alone. The script in it uses only
names that every version has, so that two versions can be compared in one run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from x2localizer import geo
from x2localizer.config import RELEASED, TownSettings
from x2localizer.errors import UserError
from x2localizer.town.folder import save_town
from x2localizer.town.town import build_town

PEAK = """
def peak_mb():
    # Not ru_maxrss: on Linux it starts at what the parent process had.
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) / 1024
"""
INDEX = """
import json, sys, time
import lancedb  # loading it is not indexing
from x2localizer import index, open_bundle
imagery, address, name = sys.argv[1:4]
bundle = open_bundle(name)
start, began = time.perf_counter(), time.process_time()
gallery = index(imagery, bundle, address)
seconds, core_s = time.perf_counter() - start, time.process_time() - began
print(json.dumps({"seconds": seconds, "core_s": core_s, "peak_mb": peak_mb(), "regions": len(gallery.regions)}))
"""
COST = """
import json, os, sys, time
import lancedb
import numpy as np
from x2localizer import index, open_bundle
from x2localizer.gallery.open import make_gallery
imagery, address, name = sys.argv[1:4]
bundle = open_bundle(name, threads=1)  # as a worker of a cluster has it
bundle.encode_area(np.zeros((bundle.spec.tile_px,) * 2 + (3,), np.uint8))
start = time.process_time()
gallery = index(imagery, bundle, address)
core_s = time.process_time() - start
blocks = list(gallery.tile_blocks())
pictures = gallery.pictures([(block.x, block.y) for block in blocks])
copy = make_gallery(address + "-copy", gallery.manifest)
start = time.process_time()
copy.add_pictures(pictures, 0)
copy.add_tiles(blocks, 0)
writer_s = time.process_time() - start
size = sum(os.path.getsize(os.path.join(at, file)) for at, _, files in os.walk(address) for file in files)
tiles = sum(int(block.valid.sum()) for block in blocks)
print(json.dumps({"core_s_per_tile": core_s / tiles, "bytes_per_tile": size / (256 * len(blocks)),
                  "writer_tiles_per_s": tiles / writer_s}))
"""
RAY = """
import json, sys, time
import ray
from x2localizer import index, open_bundle
imagery, address, name, workers = sys.argv[1:5]
bundle = open_bundle(name)
index(imagery, bundle, address + "-first")  # everything is loaded
start = time.perf_counter()
index(imagery, bundle, address + "-plain")
plain_s = time.perf_counter() - start
ray.init(num_cpus=int(workers), include_dashboard=False, object_store_memory=200_000_000, log_to_driver=False,
         logging_level="error")
try:
    index(imagery, bundle, address + "-warm", ray="auto")  # workers are started
    start = time.perf_counter()
    index(imagery, bundle, address, ray="auto")
    ray_s = time.perf_counter() - start
finally:
    ray.shutdown()
print(json.dumps({"plain_s": plain_s, "ray_s": ray_s}))
"""
LOCALIZE = """
import json, sys, time
import lancedb
import numpy as np
from x2localizer import Localizer, open_bundle, open_gallery
from x2localizer.types import Frame
bundle = open_bundle(sys.argv[3])
gallery = open_gallery(sys.argv[2], bundle)
start = time.perf_counter()
localizer = Localizer(gallery, bundle)
rng = np.random.default_rng(0)
def update(number):
    image = rng.integers(0, 256, (64, 128, 3), dtype=np.uint8)
    start = time.perf_counter()
    searched = localizer.update(Frame(number, 5.0 * number, image)).refreshed
    return time.perf_counter() - start, searched
for number in range(3):
    update(number)
seconds = time.perf_counter() - start
spent = [took for took, searched in map(update, range(3, 43)) if searched]
print(json.dumps({"open_s": seconds, "search_ms": 1000 * float(np.median(spent)), "localizer_mb": peak_mb()}))
"""


SPEEDS = ("regions_per_s", "regions_per_core_s")
"""Figures that are better when they are larger."""
AREAS = {"state": (27_000.0, 42.0), "country": (357_000.0, 51.0)}
"""Square kilometres and latitude of areas that costs are stated for: Massachusetts and Germany, about."""


def bench_index(
    seed: int = 9000, towns: int = 2, times: int = 2, against: Path | None = None, bundle: str = RELEASED,
    against_bundle: str | None = None, ray_workers: int = 0, localize: bool = True, tiles: int = 37,
) -> dict[str, object]:  # fmt: skip
    """Index towns into one gallery and open a localizer on it; the fastest of some runs counts.

    against: the ``src`` folder of another version, which is then measured in turns with this one; its figures are named
        ``before_...``, and ``..._ratio`` is before over now.
    against_bundle: the same with another bundle; both may be given.
    localize: also open a localizer on the gallery.
    tiles: side of each town.
    ray_workers: index the first town also on a Ray cluster of so many workers on this machine, beside the plain way.
    """
    own = Path(__file__).parents[2]
    versions = {"": (own, bundle)}
    if against is not None or against_bundle is not None:
        versions["before_"] = (against or own, against_bundle or bundle)
    if against is not None and not (against / "x2localizer" / "__init__.py").is_file():
        raise UserError(f"{against} holds no version of x2localizer.", "Name the src folder of a checkout.")
    runs: dict[str, list[dict[str, float]]] = {prefix: [] for prefix in versions}
    with tempfile.TemporaryDirectory() as work:
        files, area = [], 0.0
        for number in range(towns):
            town = build_town(seed + number, TownSettings(tiles=tiles, pixels_per_tile=64))
            save_town(town, Path(work) / f"town-{number}")
            files.append(Path(work) / f"town-{number}" / "aerial.tif")
            area += (town.place.size_m / 1000) ** 2
        for number in range(times):
            for prefix, (source, name) in versions.items():
                address = Path(work) / f"{prefix}gallery-{number}"
                runs[prefix].append(_one(source, name, files, address, area, localize))
        costs = [_run(own, COST, str(files[0]), f"{work}/cost-{number}", bundle) for number in range(times)]
        shared = _run(own, RAY, str(files[0]), f"{work}/ray", bundle, str(ray_workers)) if ray_workers else None
    values: dict[str, object] = {"regions": int(runs[""][0]["regions"]), "area_km2": area}
    best = {prefix: _best(measured) for prefix, measured in runs.items()}
    for prefix, figures in best.items():
        values |= {f"{prefix}{name}": value for name, value in figures.items()}
    values |= _costs(costs)
    if shared is not None:
        values |= {
            "ray_workers": ray_workers,
            "ray_s": shared["ray_s"],
            "ray_ratio": shared["plain_s"] / shared["ray_s"],
        }
    if "before_" in best:
        now, before = best[""], best["before_"]
        values |= {
            f"{name}_ratio": now[name] / before[name] if name in SPEEDS else before[name] / now[name] for name in now
        }
    return values


def _costs(runs: list[dict[str, float]]) -> dict[str, object]:
    """Core hours and gigabytes of large areas, from the lowest cost of a tile that was measured, with one thread."""
    core_s = min(run["core_s_per_tile"] for run in runs)
    writer = max(run["writer_tiles_per_s"] for run in runs)
    values: dict[str, object] = {"core_ms_per_tile": 1000 * core_s, "cores_per_writer": writer * core_s}
    for name, (area_km2, lat_deg) in AREAS.items():
        tiles = 4 * area_km2 / (geo.tile_size_m(lat_deg, 19) / 1000) ** 2
        values |= {
            f"{name}_core_hours": tiles * core_s / 3600,
            f"{name}_gallery_gb": tiles * min(run["bytes_per_tile"] for run in runs) / 1e9,
        }
    return values


def _one(
    source: Path, bundle: str, files: list[Path], address: Path, area_km2: float, localize: bool
) -> dict[str, float]:
    """One version, once: all towns into a gallery, then a localizer on it."""
    parts = [_run(source, INDEX, str(file), str(address), bundle) for file in files]
    size = sum(path.stat().st_size for path in address.rglob("*") if path.is_file())
    opened = _run(source, LOCALIZE, "", str(address), bundle) if localize else {}
    return {
        "regions": parts[-1]["regions"],
        "regions_per_s": parts[-1]["regions"] / sum(part["seconds"] for part in parts),
        "regions_per_core_s": parts[-1]["regions"] / sum(part["core_s"] for part in parts),
        "gallery_bytes_per_km2": size / area_km2, "peak_mb": max(part["peak_mb"] for part in parts), **opened,
    }  # fmt: skip


def _best(runs: list[dict[str, float]]) -> dict[str, float]:
    """The best of each figure: a busy machine only ever makes them worse."""
    return {
        name: max(run[name] for run in runs) if name in SPEEDS else min(run[name] for run in runs)
        for name in runs[0] if name != "regions"
    }  # fmt: skip


def _run(source: Path, script: str, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PEAK + script, *words], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(source)},
    )  # fmt: skip
    if done.returncode:
        raise UserError(f"The version in {source} failed: {done.stderr.strip()[-300:]}", "Check that it is installed.")
    values: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return values
