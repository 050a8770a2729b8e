"""Curves and heatmaps as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from x2localizer.files import atomic_path
from x2localizer.types import Floats, Image

COLOURS = ("#e6007e", "#1e6ee6", "#f08c14", "#14a082", "#9640c8", "#555555")


Curve = Sequence[tuple[float, float, int]]
"""Points (x, y, count)."""


def save_curves(path: Path, panels: Mapping[str, Mapping[str, Curve]], across: str, up: str) -> None:
    """Write a PNG of named curves, side by side in titled panels on one scale."""
    figure = Figure(figsize=(6.2 * len(panels) + 1, 4.4), layout="constrained")
    for axes, (title, curves) in zip(
        figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels.items(), strict=True
    ):
        for number, (name, points) in enumerate(curves.items()):
            axes.plot(
                [x for x, _, _ in points], [y for _, y, _ in points], label=name, marker="o", markersize=2.5,
                color=COLOURS[number % len(COLOURS)], linestyle="--" if name.startswith("once") else "-",
            )  # fmt: skip
        axes.set_title(title)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize="small")
    for axes in figure.axes:  # only now: it ends the search for a scale that fits the curves of all panels
        axes.set_ylim(bottom=0)
    _save(path, figure)


@dataclass(frozen=True, slots=True, eq=False)
class SeenRegion:
    """A video beside its region: what is to be said, the region's picture, the camera's places on it as shares of its
    side (f, 2), keyframes, and each one's similarities with the tiles at half stride (k, m, m)."""

    title: str
    region: Image
    path: Floats
    keyframes: Sequence[Image]
    similarities: Floats


def save_heatmaps(path: Path, rows: Sequence[SeenRegion]) -> None:
    """Write a PNG with a row for each video: the region with the path, keyframes above their heatmaps, their mean."""
    most = max(len(row.keyframes) for row in rows)
    figure = Figure(figsize=(2.1 * (most + 2), 3.1 * len(rows)), layout="constrained")
    parts = figure.subfigures(len(rows), 1, squeeze=False)[:, 0]
    for part, row in zip(parts, rows, strict=True):
        part.suptitle(row.title, fontsize=9, x=0.01, ha="left")
        count = len(row.keyframes)
        grid = part.add_gridspec(2, most + 2, height_ratios=(1, 2))
        places = np.concatenate([row.similarities, row.similarities.mean(0)[None]])
        _on_region(part.add_subplot(grid[1, 0]), row, None, "region and path")
        for k, values in enumerate(places):
            if k < count:
                frame = part.add_subplot(grid[0, k + 1])
                frame.imshow(row.keyframes[k])
                frame.set_axis_off()
            title = f"frame {k + 1} of {count}" if k < count else "mean"
            _on_region(part.add_subplot(grid[1, k + 1]), row, values, title)
    _save(path, figure)


def _on_region(axes: Axes, row: SeenRegion, values: Floats | None, title: str) -> None:
    """A region with a heatmap over it, and the camera's path."""
    axes.imshow(row.region, extent=(0, 1, 1, 0), alpha=1.0 if values is None else 0.55)
    if values is not None:
        edge = 0.5 / (len(values) + 1)  # tiles at half stride begin a quarter of a tile from the border
        axes.imshow(values, extent=(edge, 1 - edge, 1 - edge, edge), cmap="inferno", alpha=0.6)
    axes.plot(row.path[:, 0], row.path[:, 1], color="#19e6e6", linewidth=1.4)
    axes.plot(*row.path[0], marker="o", color="#19e6e6", markersize=3.5)
    axes.set(xlim=(0, 1), ylim=(1, 0))
    axes.set_title(title, fontsize=8)
    axes.set_axis_off()


def _save(path: Path, figure: Figure) -> None:
    with atomic_path(path) as target:
        figure.savefig(target, format="png", dpi=110)
