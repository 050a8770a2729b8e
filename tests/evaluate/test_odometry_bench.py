from __future__ import annotations

import pytest

from x2localizer.config import TownSettings
from x2localizer.evaluate import odometry
from x2localizer.town.town import Town, build_town


@pytest.mark.slow
def test_the_bench_meets_its_targets_in_a_small_town(monkeypatch: pytest.MonkeyPatch) -> None:
    small = TownSettings(tiles=16, pixels_per_tile=64)

    def build_small(seed: int, settings: TownSettings) -> Town:
        assert settings == TownSettings()
        return build_town(seed, small)

    monkeypatch.setattr(odometry, "build_town", build_small)
    calls: list[tuple[int, int]] = []
    values = odometry.bench_odometry([5010], 31.0, 5.0, lambda what, done, total: calls.append((done, total)))
    assert calls == [(0, 2), (1, 2), (2, 2)]
    for light in ("day", "night"):
        assert float(str(values[f"{light}_turn_deg_median"])) < 3.0
        assert float(str(values[f"{light}_distance_percent_median"])) < 10.0
        assert float(str(values[f"{light}_normalised_turn"])) < 2.5
    assert float(str(values["ms_per_frame"])) > 0
