"""How fast is localizing? Seconds of video per second of work, and whether a long drive slows it down."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from x2localizer.config import TownSettings
from x2localizer.encoders import Bundle, Part, open_bundle
from x2localizer.errors import UserError
from x2localizer.localize.bench_track import bench_track
from x2localizer.localize.calibrate import drive_frames, town_gallery
from x2localizer.localize.localizer import Localizer
from x2localizer.town.town import Town, build_town
from x2localizer.types import Frame


def bench_localize(bundle: Bundle, seed: int = 9000, minutes: float = 30.0, deit: bool = True) -> dict[str, object]:
    """The bundle on long drives through a town, tracked and by windows; untrained towers of DeiT-S on a part of one.

    minutes: of the drive that is localized by windows; the one that is tracked has twice as many.
    """
    with tempfile.TemporaryDirectory() as work:
        values = _one(bundle, Path(work), seed, minutes * 60)
        out: dict[str, object] = {
            "realtime_town": values["realtime"], "growth_window": values["growth"], "ms_per_frame_town": values["ms"],
            "index_regions_per_s_town": values["regions_per_s"], "realtime_deit_s": None,
        }  # fmt: skip
        out |= bench_track(_town(seed, bundle), bundle, Path(work) / "37", 2 * minutes)
        if deit:
            large = deit_bundle(Path(work) / "deit")
            if large is not None:
                values = _one(large, Path(work), seed, 60.0, tiles=16)
                out |= {"realtime_deit_s": values["realtime"], "ms_per_frame_deit_s": values["ms"]}
    return out


def _town(seed: int, bundle: Bundle, tiles: int = 37) -> Town:
    return build_town(seed, TownSettings(tiles=tiles, pixels_per_tile=max(128, bundle.spec.tile_px)))


def _one(bundle: Bundle, work: Path, seed: int, seconds: float, tiles: int = 37) -> dict[str, float]:
    town = _town(seed, bundle, tiles)
    start = time.perf_counter()
    gallery = town_gallery(town, bundle, work / f"{tiles}")
    indexed_s = time.perf_counter() - start
    drive = drive_frames(town, 3, bundle, seconds)
    if drive is None:
        raise UserError(f"Town {seed} has no road for such a drive.", "Choose another --seed.")
    frames: list[Frame] = list(drive[0])
    localizer = Localizer(gallery, bundle)
    localizer.update(frames[0])
    spent = []
    for frame in frames[1:]:
        start = time.perf_counter()
        localizer.update(frame)
        spent.append(time.perf_counter() - start)
    first, last = np.mean(spent[40:100]) if len(spent) > 160 else np.nan, np.mean(spent[-60:])
    return {
        "realtime": len(spent) / sum(spent), "ms": 1000 * float(np.mean(spent)), "growth": float(last / first),
        "regions_per_s": len(gallery.regions) / indexed_s,
    }  # fmt: skip


def deit_bundle(folder: Path, parts: tuple[Part, ...] | None = None, threads: int = 0, merge: int = 0) -> Bundle | None:
    """Untrained towers of the paper's size, or some of their parts; None without torch.

    merge: patches that are merged in every block.
    """
    try:
        from x2localizer.config import TrainSettings, load_config  # noqa: PLC0415
        from x2localizer.learn.checkpoint import load_checkpoint, save_checkpoint  # noqa: PLC0415
        from x2localizer.learn.export import export_bundle  # noqa: PLC0415
        from x2localizer.learn.model import Model  # noqa: PLC0415
    except ImportError:
        return None
    settings = load_config(TrainSettings, "train", "gama", ["model.backbone.weights=none"])
    model = settings.model.model_copy(update={"backbone": settings.model.backbone.model_copy(update={"weights": None})})
    settings = settings.model_copy(update={"model": model})
    save_checkpoint(folder / "c.safetensors", Model(model), settings, {"stage": "image"})
    export_bundle(load_checkpoint(folder / "c.safetensors"), folder / "bundle", parts=parts, merge=merge)
    return open_bundle(folder / "bundle", threads=threads)
