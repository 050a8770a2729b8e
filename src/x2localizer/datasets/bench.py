"""How fast synthetic towns are built and datasets are read. Speeds are measured here, never in a test."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np

from x2localizer.datasets.dataset import open_dataset
from x2localizer.datasets.media import encode_jpeg, read_picture, write_pictures
from x2localizer.datasets.tables import Media
from x2localizer.town.drive import Film, draw_drive, open_film, region_bounds
from x2localizer.town.place import core_regions
from x2localizer.town.town import build_town, crop_region, paint_town
from x2localizer.types import Image


def bench_town(seed: int = 1, seconds: float = 4.0) -> dict[str, object]:
    """Frames and regions per second and seconds per town, on one core, without compilation.

    A frame includes car, camera, traffic, ray casting and sensor; a town includes plan, rasters, buildings and its
    aerial picture. A region is cut, reduced to 64 pixels per tile and encoded as JPEG.
    """
    paint_town(build_town(seed))  # compiles
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
        times_s = iter(np.random.default_rng(seed).uniform(0, 35, 1 << 20))
        films[0].image(0.0)  # compiles
        values[f"frames_per_s_{height}x{width}"] = _rate(partial(_next_frame, cycle(films), times_s), seconds)
    values["town_s"] = float(np.median(times))
    values["towns_per_minute"] = 60.0 / float(np.median(times))
    turn = cycle(regions)
    values["regions_per_s"] = _rate(lambda: encode_jpeg(crop_region(town, aerial, next(turn), 64), 92), seconds)
    return values


def bench_loader(data: Path | None, seconds: float = 3.0) -> dict[str, object]:
    """Pictures per second on one core, decoded and resized for the paper's model.

    They come from the training split of ``data``, or are random pictures of the sizes of BDD100K and GAMa.
    """
    with tempfile.TemporaryDirectory() as work:
        root, kinds = _dataset_pictures(data) if data is not None else _random_pictures(Path(work))
        values: dict[str, object] = {}
        for kind, (media, size) in kinds.items():
            turn = cycle(media)
            values[f"{kind}_per_s"] = _rate(lambda turn=turn, size=size: read_picture(root, next(turn), size), seconds)  # type: ignore[misc]
    frame, tile, region = (1.0 / float(str(values[f"{kind}s_per_s"])) for kind in ("frame", "tile", "region"))
    # A training step of the preset gama reads 64 pairs, or 8 videos of 8 frames with their regions.
    values |= {"pair_batches_per_s": 1 / (64 * (frame + tile)), "video_batches_per_s": 1 / (64 * frame + 8 * region)}
    return values


Kinds = dict[str, tuple[list[Media], tuple[int, int]]]
"""For frames, tiles and regions: where the pictures are, and the height and width they are resized to."""


def _dataset_pictures(root: Path) -> tuple[Path, Kinds]:
    data = open_dataset(root)
    regions = [row.image for row in data.regions("train")[:200]]
    frames = [row for video in data.videos("train")[:50] for row in data.keyframes(video.video_id)]
    side = (256 + 2 * data.tile_margin_px,) * 2
    return root, {
        "frames": ([row.image for row in frames], (216, 384)),
        "tiles": ([row.tile for row in frames if row.tile_path], side),
        "regions": (regions, (1792, 1792)),
    }


def _random_pictures(root: Path) -> tuple[Path, Kinds]:
    """Pictures with detail at all scales, so that their files are as large as those of photographs."""
    rng = np.random.default_rng(0)

    def draw(height: int, width: int) -> Image:
        out = np.zeros((height, width, 3))
        for step in (1, 4, 16, 64):
            small = rng.normal(0, 6.0 * step**0.5, (-(-height // step), -(-width // step), 3))
            out += small.repeat(step, 0).repeat(step, 1)[:height, :width]
        return np.clip(out + 120, 0, 255).astype(np.uint8)

    kinds: Kinds = {}
    for kind, (height, width), size in (
        ("frames", (720, 1280), (216, 384)), ("tiles", (256, 256), (256, 256)), ("regions", (1792, 1792), (1792, 1792)),
    ):  # fmt: skip
        kinds[kind] = (write_pictures(root, f"{kind}.mjpeg", (draw(height, width) for _ in range(4)), 90), size)
    return root, kinds


def _next_frame(films: Iterator[Film], times_s: Iterator[float]) -> Image:
    return next(films).image(next(times_s))


def _rate(work: Callable[[], object], seconds: float) -> float:
    """How often ``work`` can be called per second."""
    count, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        work()
        count += 1
    return count / spent
