"""What a small machine needs to localize a camera: memory, time to the first fix, bytes on disk.

The command that users run is measured from outside, in a process of its own, on a gallery of some towns in one file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from x2localizer.config import TownSettings
from x2localizer.encoders import Bundle
from x2localizer.errors import UserError
from x2localizer.gallery import index
from x2localizer.gallery.share import export
from x2localizer.town.folder import save_drive, save_town
from x2localizer.town.town import build_town

RUN = """
import json, sys
try:
    from x2localizer.cli import main
    main()
finally:
    with open("/proc/self/status") as file:  # not ru_maxrss: on Linux it starts at what the parent process had
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) / 1024
    heavy = ("numba", "lancedb", "rasterio", "pyogrio", "matplotlib", "pandas", "cv2", "av", "onnxruntime", "pyarrow")
    print(json.dumps({"peak_mb": peak, "loaded": [name for name in heavy if name in sys.modules]}), file=sys.stderr)
"""
POLL_S = 0.005


def bench_edge(
    bundle: Bundle, slim: Path, work: Path, *, seed: int = 9000, towns: int = 2, seconds: float = 30.0, times: int = 3,
    report: Callable[[str], None] = lambda text: None,
) -> dict[str, object]:  # fmt: skip
    """Localize a drive with a slim bundle; the best of some runs counts, after one that fills caches.

    bundle: makes the gallery.
    slim: the folder of the bundle that localizes.
    work: folder for towns, film and gallery; what is there is used again.
    """
    gallery, film = work / f"gallery-{bundle.fingerprint[:8]}-{towns}", work / "drive"
    area = 0.0
    for number in range(towns):
        report(f"town {number + 1} of {towns}")
        town = build_town(seed + number, TownSettings())
        area += (town.place.size_m / 1000) ** 2
        folder = work / f"town-{number}"
        if not (folder / "town.json").is_file():
            save_town(town, folder)
        index(folder / "aerial.tif", bundle, gallery, roads=[folder / "roads.geojson"])
        if number == 0 and not (film / "drive.mp4").is_file():
            save_drive(town, film, 3, seconds, fps=5.0)
    city = work / f"{gallery.name}.x2g"
    if not city.is_file():
        export(str(gallery), city)
    runs = []
    for number in range(times + 1):
        report(f"run {number} of {times}")
        runs.append(_localize(film / "drive.mp4", city, slim, work / f"track-{number}"))
    runs = runs[1:] if times else runs
    values: dict[str, object] = {
        name: min(float(str(run[name])) for run in runs) for name in ("peak_mb", "start_s", "start_cpu_s")
    }
    return {
        **values, "bundle_bytes": _bytes(slim), "gallery_bytes": city.stat().st_size, "area_km2": area,
        "loaded": runs[0]["loaded"],
    }  # fmt: skip


def _localize(video: Path, gallery: Path, bundle: Path, out: Path) -> dict[str, object]:
    """One run of the command: its memory, and wall and CPU time until the first fix is in the file of fixes."""
    fixes = out / "fixes.jsonl"
    fixes.unlink(missing_ok=True)
    words = [
        "localize",
        video,
        "--gallery",
        gallery,
        "--bundle",
        bundle,
        "--out",
        out,
        "--live",
        "--formats",
        "jsonl,gpx",
    ]
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    spent: dict[str, object] = {}
    while process.poll() is None and not spent:
        if fixes.is_file() and fixes.stat().st_size:
            spent = {"start_s": time.perf_counter() - start, "start_cpu_s": _cpu_s(process.pid)}
        time.sleep(POLL_S)
    said = process.communicate()[1]
    if process.returncode or not spent:
        raise UserError(f"x2l localize failed: {said.strip()[-400:]}", "Run it yourself to see more.")
    return {**spent, **json.loads(said.splitlines()[-1])}


def _cpu_s(pid: int) -> float:
    """CPU time of a process so far; zero where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
