"""How fast the embedded world is made. Timing lives here, never in a test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle

import numpy as np

from x2localizer.datasets.media import encode_jpeg
from x2localizer.town.drive import Film, draw_drive, open_film, region_bounds
from x2localizer.town.place import core_regions
from x2localizer.town.town import build_town, crop_region, paint_town
from x2localizer.types import Image


def bench_town(seed: int = 1, seconds: float = 4.0) -> dict[str, object]:
    """Speeds on one core, compilation excluded: frames and regions per second, seconds per town.

    A frame counts everything that making it takes: car, camera, traffic, ray casting, sensor. A town counts plan,
    rasters, buildings and the painted picture. A region is cut, reduced to 64 pixels per tile and encoded as JPEG.
    """
    warm = build_town(seed)
    paint_town(warm)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        town = build_town(seed)
        aerial = paint_town(town)
        times.append(time.perf_counter() - start)
    regions = core_regions(town.place)
    values: dict[str, object] = {}
    for height, width in ((48, 96), (216, 384)):
        films = []
        for k, region in enumerate(regions[::3]):
            drive = draw_drive(town, k, 35.0, region_bounds(town, region))
            if drive is not None:
                films.append(open_film(town, drive, height, width))
        moments = iter(np.random.default_rng(seed).uniform(0, 35, 1 << 20))
        turn = cycle(films)
        films[0].image(0.0)
        values[f"frames_per_s_{height}x{width}"] = _rate(partial(_next_frame, turn, moments), seconds)
    values["town_s"] = float(np.median(times))
    values["towns_per_minute"] = 60.0 / float(np.median(times))
    pick = cycle(regions)
    values["regions_per_s"] = _rate(lambda: encode_jpeg(crop_region(town, aerial, next(pick), 64), 92), seconds)
    return values


def _next_frame(turn: Iterator[Film], moments: Iterator[float]) -> Image:
    return next(turn).image(next(moments))


def _rate(work: Callable[[], object], seconds: float) -> float:
    """How often per second some work is done."""
    count, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        work()
        count += 1
    return count / spent
