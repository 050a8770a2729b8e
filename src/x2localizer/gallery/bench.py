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
start = time.perf_counter()
gallery = index(imagery, bundle, address)
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "peak_mb": peak_mb(), "regions": len(gallery.regions)}))
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


def bench_index(
    seed: int = 9000, towns: int = 2, times: int = 2, against: Path | None = None, bundle: str = RELEASED,
    against_bundle: str | None = None,
) -> dict[str, object]:  # fmt: skip
    """Index towns into one gallery and open a localizer on it; the fastest of some runs counts.

    against: the ``src`` folder of another version, which is then measured in turns with this one; its figures are named
        ``before_...``, and ``..._ratio`` is before over now.
    against_bundle: the same with another bundle; both may be given.
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
            town = build_town(seed + number, TownSettings(pixels_per_tile=64))
            save_town(town, Path(work) / f"town-{number}")
            files.append(Path(work) / f"town-{number}" / "aerial.tif")
            area += (town.place.size_m / 1000) ** 2
        for number in range(times):
            for prefix, (source, name) in versions.items():
                address = Path(work) / f"{prefix}gallery-{number}"
                runs[prefix].append(_one(source, name, files, address, area))
    values: dict[str, object] = {"regions": int(runs[""][0]["regions"]), "area_km2": area}
    best = {prefix: _best(measured) for prefix, measured in runs.items()}
    for prefix, figures in best.items():
        values |= {f"{prefix}{name}": value for name, value in figures.items()}
    if "before_" in best:
        now, before = best[""], best["before_"]
        values |= {f"{name}_ratio": before[name] / now[name] for name in now if name != "regions_per_s"}
        values["regions_per_s_ratio"] = now["regions_per_s"] / before["regions_per_s"]
    return values


def _one(source: Path, bundle: str, files: list[Path], address: Path, area_km2: float) -> dict[str, float]:
    """One version, once: all towns into a gallery, then a localizer on it."""
    parts = [_run(source, INDEX, str(file), str(address), bundle) for file in files]
    size = sum(path.stat().st_size for path in address.rglob("*") if path.is_file())
    opened = _run(source, LOCALIZE, "", str(address), bundle)
    return {
        "regions": parts[-1]["regions"],
        "regions_per_s": parts[-1]["regions"] / sum(part["seconds"] for part in parts),
        "gallery_bytes_per_km2": size / area_km2, "peak_mb": max(part["peak_mb"] for part in parts), **opened,
    }  # fmt: skip


def _best(runs: list[dict[str, float]]) -> dict[str, float]:
    """The best of each figure: a busy machine only ever makes them worse."""
    return {
        name: max(run[name] for run in runs) if name == "regions_per_s" else min(run[name] for run in runs)
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
