"""What the second process costs: the same video, imagery and roads, read here and there in turns."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import numpy as np

from x2localizer import geo
from x2localizer.errors import TrackError
from x2localizer.sources.imagery import Access, open_imagery, write_geotiff
from x2localizer.sources.packets import data_packets
from x2localizer.sources.roads import read_roads
from x2localizer.sources.video import VideoWriter, open_video
from x2localizer.types import Region

ZOOM, WEST, NORTH, TILES, PX = 19, 160000, 200000, 18, 128
ROADS = 20_000
"""Lines of 10 points, about as many as the roads of a city."""


def bench_guard(
    frames: int = 100,
    height: int = 720,
    width: int = 1280,
    times: int = 3,
    seed: int = 42,
    lines: int = ROADS,
) -> dict[str, object]:
    """Seconds to open or read, frames and regions per second, here and in a second process; the best of some runs."""
    rng = np.random.default_rng(seed)
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as work:
        video, imagery, roads = (Path(work) / name for name in ("video.mp4", "imagery.tif", "roads.geojson"))
        _draw(roads, lines, rng)
        _film(video, frames, height, width, rng)
        west, _, east, north = geo.mercator_bounds(WEST, NORTH, ZOOM, TILES, TILES)
        picture = rng.integers(0, 256, (TILES * 8, TILES * 8, 3), dtype=np.uint8).repeat(PX // 8, 0).repeat(PX // 8, 1)
        step = (east - west) / (TILES * PX)
        write_geotiff(imagery, picture, crs="EPSG:3857", west=west, north=north, pixel=step, tags={})
        for _ in range(times):
            for name, other in (("plain", False), ("guarded", True)):
                figures = {**_video(video, other), **_imagery(imagery, other), **_roads(roads, other)}
                for key, value in figures.items():
                    better = min if key.endswith("_s") and "per" not in key else max
                    best[f"{name}_{key}"] = better(best.get(f"{name}_{key}", value), value)
    return {"size": f"{width} x {height}", **best}


def _film(path: Path, frames: int, height: int, width: int, rng: np.random.Generator) -> None:
    """A street of coloured blocks that passes by."""
    blocks = rng.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
    with VideoWriter(path, width, height, 25) as writer:
        for number in range(frames):
            writer.write(np.roll(blocks, 3 * number, 1))


def _draw(path: Path, count: int, rng: np.random.Generator) -> None:
    """Lines that wind through a city."""
    lines = rng.uniform(0.0, 0.1, (count, 1, 2)) + rng.normal(0.0, 2e-4, (count, 10, 2)).cumsum(1) + (11.0, 48.0)
    features = [
        {"type": "Feature", "properties": {}, "geometry": {"type": "LineString", "coordinates": line}}
        for line in lines.round(6).tolist()
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))


def _roads(path: Path, other: bool) -> dict[str, float]:
    start = time.perf_counter()
    read_roads(path, own_process=other)
    return {"read_roads_s": time.perf_counter() - start}


def _video(path: Path, other: bool) -> dict[str, float]:
    start = time.perf_counter()
    list(data_packets(path, TrackError, own_process=other))
    looked = time.perf_counter() - start
    start = time.perf_counter()
    with open_video(path, own_process=other) as source:
        opened = time.perf_counter()
        count = sum(1 for _ in source)
        rate = count / (time.perf_counter() - opened)
        return {"read_telemetry_s": looked, "open_video_s": opened - start, "frames_per_s": rate}


def _imagery(path: Path, other: bool) -> dict[str, float]:
    start = time.perf_counter()
    with open_imagery(path, access=Access(own_process=other)) as imagery:
        opened = time.perf_counter()
        corners = [(x, y) for y in range(0, TILES, 9) for x in range(0, TILES, 9)]
        for x, y in corners:
            imagery.region(Region(ZOOM, WEST + x, NORTH + y, 9), PX)
        return {"open_imagery_s": opened - start, "regions_per_s": len(corners) / (time.perf_counter() - opened)}
