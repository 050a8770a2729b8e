"""How time and memory of a search grow with the map, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from x2localizer.files import atomic_path

PANELS = (("p50_ms", "exact_p50_ms", "median time of a search, ms"), ("memory_gb", "exact_memory_gb", "memory, GB"))


def save_scale_curve(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write a PNG of time and memory over the number of regions, as :func:`scale_curve` measured them."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, (approximate, exact, label) in zip(figure.subplots(1, 2), PANELS, strict=True):
        for name, key, colour in (("approximate", approximate, "#e6007e"), ("exact, in memory", exact, "#555555")):
            points = [(row["regions"], row[key]) for row in rows if key in row]
            axes.plot(*zip(*points, strict=True), marker="o", markersize=4, color=colour, label=name)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("regions")
        axes.set_ylabel(label)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize="small")
    with atomic_path(path) as target:
        figure.savefig(target, format="png", dpi=100)
