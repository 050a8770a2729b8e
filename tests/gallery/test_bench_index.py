"""The bench of indexing: this version with one bundle, in turns with another."""

from __future__ import annotations

from pathlib import Path

import pytest

from x2localizer.errors import UserError
from x2localizer.gallery.bench import bench_index


@pytest.mark.slow
def test_two_bundles_are_measured_in_turns() -> None:
    values = bench_index(towns=1, times=1, against_bundle="town", tiles=16)
    figures = (
        "regions_per_s",
        "regions_per_core_s",
        "gallery_bytes_per_km2",
        "peak_mb",
        "open_s",
        "search_ms",
        "localizer_mb",
    )
    for name in figures:
        now, before = float(str(values[name])), float(str(values[f"before_{name}"]))
        assert now > 0
        assert before > 0
        ratio = now / before if name.startswith("regions_per") else before / now
        assert values[f"{name}_ratio"] == pytest.approx(ratio)
    assert 0 < float(str(values["state_core_hours"])) < float(str(values["country_core_hours"]))
    assert 0 < float(str(values["state_gallery_gb"])) < float(str(values["country_gallery_gb"]))
    assert float(str(values["gallery_bytes_per_km2_ratio"])) < 1.0  # eight headings take more than one


def test_a_folder_without_a_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no version"):
        bench_index(against=tmp_path)
