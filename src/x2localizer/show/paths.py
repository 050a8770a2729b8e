"""The path of a motion record as a picture."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from x2localizer.files import atomic_path
from x2localizer.odometry.path import Comparison, path_of
from x2localizer.show.plots import COLOURS
from x2localizer.sources.motion import MotionRecord


def save_path(path: Path, record: MotionRecord, comparison: Comparison | None = None) -> None:
    """Write a PNG of the path in metres; with a comparison, beside the truth and with north up."""
    figure = Figure(figsize=(7.2, 6.4), layout="constrained")
    axes = figure.subplots()
    own = path_of(record) if comparison is None else comparison.path_m
    if comparison is not None:
        axes.plot(*comparison.truth_m.T, color=COLOURS[5], linewidth=3.0, alpha=0.45, label="truth")
        axes.set_xlabel("metres east of the start")
        axes.set_ylabel("metres north of the start")
    else:
        axes.set_xlabel("metres to the right of the first direction")
        axes.set_ylabel("metres along the first direction")
    axes.plot(*own.T, color=COLOURS[0], linewidth=1.5, label="odometry")
    axes.plot(*own[0], marker="o", color=COLOURS[0])
    axes.set_aspect("equal", adjustable="datalim")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    with atomic_path(path) as target:
        figure.savefig(target, format="png", dpi=110)
