"""How far a path may go between two keyframes: as far as a car drives in the time between them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from x2localizer.evaluate.coarse import reach_in, reach_of


def _split(spacing_s: float, *latitudes: float) -> Any:
    regions = [SimpleNamespace(lat_deg=lat, zoom=19) for lat in latitudes]
    return cast(Any, SimpleNamespace(keyframe_spacing_s=spacing_s, regions=regions))


def test_keyframes_farther_apart_have_a_longer_reach() -> None:
    reaches = [reach_of(_split(spacing_s, 48.0)) for spacing_s in (1.0, 5.0, 10.0)]
    assert reaches == sorted(set(reaches))
    assert reaches[1] == reach_in(_split(1.0, 48.0), 5.0)


def test_the_smallest_tiles_decide_not_the_first() -> None:
    """Tiles get smaller towards the poles, so a car crosses more of them."""
    assert reach_of(_split(5.0, 0.0, 60.0)) == reach_of(_split(5.0, -60.0)) > reach_of(_split(5.0, 0.0))
