"""The bench of indexing: this version with one bundle, in turns with another."""

from __future__ import annotations

from pathlib import Path

import pytest

from x2localizer.errors import UserError
from x2localizer.gallery.bench import bench_index


@pytest.mark.slow
def test_two_bundles_are_measured_in_turns() -> None:
    values = bench_index(towns=1, times=1, against_bundle="town")
    figures = ("regions_per_s", "gallery_bytes_per_km2", "peak_mb", "open_s", "search_ms", "localizer_mb")
    for name in figures:
        now, before = float(str(values[name])), float(str(values[f"before_{name}"]))
        assert now > 0
        assert before > 0
        ratio = now / before if name == "regions_per_s" else before / now
        assert values[f"{name}_ratio"] == pytest.approx(ratio)
    assert float(str(values["gallery_bytes_per_km2_ratio"])) < 1.0  # eight headings take more than one


def test_a_folder_without_a_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no version"):
        bench_index(against=tmp_path)
