"""The scale of curves in several panels."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from x2localizer.show import plots


def test_panels_share_a_scale_that_holds_all_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(plots, "_save", lambda path, figure: drawn.append(figure))
    low, high = [(0.0, 10.0, 1), (1.0, 20.0, 1)], [(0.0, 60.0, 1), (1.0, 90.0, 1)]
    plots.save_curves(tmp_path / "curves.png", {"first": {"a": low}, "second": {"b": high}}, "s", "%")
    for axes in drawn[0].axes:
        bottom, top = axes.get_ylim()
        assert bottom == 0
        assert top > 90
