"""``python -m soak``: see ``--help``."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from soak.day import Series, film_in, through_localizer, through_service
from soak.slope import slope_of, steadied

FLAT = {"memory_mb": (0.05, 5.0), "handles": (0.0, 1.0), "cpu_ms": (0.1, 0.0), "latency_ms": (0.1, 0.0)}
"""Growth that is still flat: a share of the level, or an amount."""
SHOWN_ONLY = "latency_ms"
"""It depends on what else the machine does; what counts is the processor time behind it."""


def main() -> int:
    """Run, print, and say by the exit code whether something grows."""
    parser = argparse.ArgumentParser(prog="soak", description="A day of driving: memory, handles, latency stay flat.")
    parser.add_argument("--hours", type=float, default=24.0, help="of driving, on the simulated clock")
    parser.add_argument("--spacing", type=int, default=10, help="seconds of driving between frames")
    parser.add_argument("--part", choices=["localizer", "service"], action="append", help="only this; may be repeated")
    parser.add_argument("--json", type=Path, help="file for the summary")
    chosen = parser.parse_args()
    summary: dict[str, object] = {"hours": chosen.hours, "spacing_s": chosen.spacing}
    flat = True
    with tempfile.TemporaryDirectory(prefix="x2l-soak-") as folder:
        film = film_in(Path(folder))
        for part, drive in (("localizer", through_localizer), ("service", through_service)):
            if chosen.part and part not in chosen.part:
                continue
            start = time.monotonic()
            values = _values(drive(film, Path(folder), chosen.hours, chosen.spacing))
            values["seconds"] = round(time.monotonic() - start, 1)
            summary[part] = values
            flat = flat and bool(values["flat"])
    summary["flat"] = flat
    if chosen.json:
        chosen.json.write_text(json.dumps(summary, indent=1) + "\n")
    _print(summary)
    return 0 if flat else 1


def _values(series: Series) -> dict[str, object]:
    out: dict[str, object] = {"frames": len(series.latency_ms), "tracking": series.tracking}
    verdicts = []
    for name, (share, amount) in FLAT.items():
        measured = np.array(getattr(series, name))
        slope = slope_of(steadied(measured, np.array(series.yardstick_ms)) if name == "cpu_ms" else measured)
        flat = slope.flat(share, amount)
        verdicts += [] if name == SHOWN_ONLY else [flat]
        out[name] = {**asdict(slope), "flat": flat}
    out["yardstick_ms"] = asdict(slope_of(np.array(series.yardstick_ms)))
    p50, p99 = np.percentile(series.latency_ms, (50, 99))
    return {**out, "p50_ms": float(p50), "p99_ms": float(p99), "flat": all(verdicts)}


def _print(summary: dict[str, object]) -> None:
    print(f"{'part':12}{'what':12}{'level':>10}{'growth over the run (95%)':>34}  flat")
    for part in ("localizer", "service"):
        values = summary.get(part)
        if isinstance(values, dict):
            for name in FLAT:
                row = values[name]
                growth = f"{row['growth']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})"
                print(f"{part:12}{name:12}{row['level']:10.2f}{growth:>34}  {'yes' if row['flat'] else 'NO'}")
            print(f"{part:12}{values['frames']:,} frames in {values['seconds']:,} s")


if __name__ == "__main__":
    sys.exit(main())
