"""Curves as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from x2localizer.files import atomic_path

COLOURS = ("#e6007e", "#1e6ee6", "#f08c14", "#14a082", "#9640c8", "#555555")


def save_curves(path: Path, curves: Mapping[str, Sequence[tuple[float, float, int]]], across: str, up: str) -> None:
    """Write a PNG of named curves, each of points (x, y, count)."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots()
    for number, (name, points) in enumerate(curves.items()):
        axes.plot(
            [x for x, _, _ in points], [y for _, y, _ in points], label=name, color=COLOURS[number % len(COLOURS)],
            marker="o", markersize=3, linestyle="-" if number < 2 else "--",
        )  # fmt: skip
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    with atomic_path(path) as target:
        figure.savefig(target, format="png", dpi=130)
