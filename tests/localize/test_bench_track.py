"""The bench of tracking, on a short drive through the small town."""

from __future__ import annotations

from pathlib import Path

import pytest

from x2localizer.encoders import Bundle
from x2localizer.localize.bench_track import bench_track, growth
from x2localizer.town.town import Town


@pytest.mark.slow
def test_the_bench_of_tracking_gives_all_figures(town: Town, tiny_bundle: Bundle, tmp_path: Path) -> None:
    values = bench_track(town, tiny_bundle, tmp_path, minutes=6.0, film_s=15.0)
    assert set(values) == {
        "odometry_ms_per_frame", "track_ms_per_s", "realtime_all", "realtime_first_minute", "growth", "peak_mb",
    }  # fmt: skip
    assert all(value > 0 for value in values.values())
    assert values["realtime_all"] > 1.0
    assert values["growth"] < 3.0


def test_growth_compares_halves_without_the_start() -> None:
    assert growth([9.0] * 120 + [1.0] * 300 + [2.0] * 300) == pytest.approx(2.0)
    assert growth([9.0] * 10 + [1.0] * 15 + [1.5] * 15) == pytest.approx(1.5)
