"""Size, memory and time of the baselines: one training step of each with random weights, in a process of its own."""

from __future__ import annotations

import json
import multiprocessing
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from x2localizer.config import TrainSettings, load_config, preset_names
from x2localizer.errors import ConfigError, nearest
from x2localizer.files import write_text
from x2localizer.learn.batches import PairBatch, RegionBatch
from x2localizer.learn.checks import stages_of
from x2localizer.learn.model import Model
from x2localizer.learn.optimizer import build_optimizer
from x2localizer.learn.stages import Stage, full_stage, image_stage

BASELINES = ("timesformer", "videoswin", "cvlnet", "screening", "seqgeo", "gamanet", "dsm", "l2ltr")
PRESETS = tuple(f"{size}-{name}" for size in ("gama", "town") for name in BASELINES)

Values = dict[str, Any]


def bench_families(
    presets: Sequence[str] = PRESETS,
    batch: int = 2,
    times: int = 1,
    out: Path | None = None,
    counted: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, Values]:
    """One training step of each preset, by its name.

    times: steps of each; the fastest counts.
    out: a JSON file that results are added to as they come. Presets that are in it already are not measured again.
    counted: only count parameters and operations, without computing anything.
    """
    for name in presets:
        if name not in preset_names("train"):
            raise ConfigError(f"There is no train preset '{name}'.", nearest(name, PRESETS))
    if counted:
        return {name: count_family(load_config(TrainSettings, "train", name), batch) for name in presets}
    found: dict[str, Values] = {}
    if out is not None and out.is_file():
        found = json.loads(out.read_text(encoding="utf-8"))
    for name in presets:
        if name in found:
            continue
        report(name)
        # A fresh process for each: its peak of memory is that of one model.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            found[name] = pool.submit(bench_family, name, batch, times).result()
        if out is not None:
            write_text(out, json.dumps(found, indent=1) + "\n")
    return {name: found[name] for name in presets}


def bench_family(preset: str, batch: int = 2, times: int = 1) -> Values:
    """Parameters in millions, work and seconds of a step, and peak memory of the process in GB."""
    settings = load_config(TrainSettings, "train", preset)
    counts = count_family(settings, batch)
    torch.manual_seed(settings.seed)
    model = Model(settings.model, pretrained=False)
    nothing = cast(Any, None)  # the losses need no data
    alone = stages_of(settings)[0] == "image"
    stage: Stage[Any] = (image_stage if alone else full_stage)(settings, nothing, nothing)
    data: PairBatch | RegionBatch = (_pairs if alone else _regions)(settings, batch)
    model.set_trainable(stage.trains)
    model.train()
    optimizer = build_optimizer(model, stage.settings)
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        losses = stage.loss(model, data)
        optimizer.zero_grad(set_to_none=True)
        losses.total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        spent.append(time.perf_counter() - start)
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {**counts, "step_s": min(spent), "peak_gb": peak_gb, "loss": float(losses.total.detach())}


def count_family(settings: TrainSettings, batch: int = 2) -> Values:
    """Parameters in millions, and the operations of a training step in billions, without computing any of them.

    gflops_preset_step is for a batch of the preset's own size.
    """
    m, stage = settings.model, stages_of(settings)[0]
    with torch.device("meta"):
        model = Model(m, pretrained=False)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        if stage == "image":
            pairs = _pairs(settings, 2)
            codes = model.pairs(pairs.frames, pairs.tiles)
        else:
            data = _regions(settings, 2)
            videos = model.prefixes(data.frames, [m.frames], poses=data.poses)[m.frames]
            codes = videos.whole, model.regions(data.tiles).whole
        torch.cat([part.flatten() for part in codes]).sum().backward()  # type: ignore[no-untyped-call]
    gflops = float(counter.get_total_flops()) / 2e9
    size, ground = (sum(p.numel() for p in part.parameters()) / 1e6 for part in (model, model.ground))
    return {
        "stage": stage, "batch": batch, "params_m": size, "params_ground_m": ground, "gflops_step": batch * gflops,
        "preset_batch": getattr(settings, stage).batch, "gflops_preset_step": getattr(settings, stage).batch * gflops,
    }  # fmt: skip


def _places(batch: int) -> Tensor:
    """Far enough from each other that all are negatives of each other."""
    return torch.arange(batch, dtype=torch.float64)[:, None].repeat(1, 2) * 100


def _pairs(settings: TrainSettings, batch: int) -> PairBatch:
    m = settings.model
    frames, tiles = torch.randn(batch, 3, *(m.frame_height, m.frame_width)), torch.randn(batch, 3, m.tile_px, m.tile_px)
    return PairBatch(frames, tiles, _places(batch), torch.zeros(batch))


def _regions(settings: TrainSettings, batch: int) -> RegionBatch:
    m = settings.model
    frames = torch.randn(batch, m.frames, 3, m.frame_height, m.frame_width)
    tiles = torch.randn(batch, m.region_tiles**2, 3, m.tile_px, m.tile_px)
    ahead = torch.arange(m.frames, dtype=torch.float32) * 50
    poses = torch.stack([0 * ahead, ahead, 0 * ahead], -1).repeat(batch, 1, 1)
    return RegionBatch(frames, tiles, _places(batch), poses)
