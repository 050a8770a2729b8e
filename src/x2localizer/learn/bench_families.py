"""Size, memory and time of the baselines: one training step of each with random weights, in a process of its own."""

from __future__ import annotations

import json
import multiprocessing
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from x2localizer.config import TrainSettings, load_config, preset_names
from x2localizer.errors import ConfigError, nearest
from x2localizer.files import read_json, write_text
from x2localizer.learn.batches import PairBatch, RegionBatch
from x2localizer.learn.checks import stages_of
from x2localizer.learn.memory import keep_freed_memory
from x2localizer.learn.model import Model
from x2localizer.learn.optimizer import build_optimizer
from x2localizer.learn.stages import Stage, full_stage, image_stage
from x2localizer.metrics import times_s

OURS = ("gama", "town")
BASELINES = ("timesformer", "videoswin", "cvlnet", "screening", "seqgeo", "gamanet", "dsm", "l2ltr")
PRESETS = tuple(preset for size in OURS for preset in (size, *(f"{size}-{name}" for name in BASELINES)))
Precision = Literal["32-true", "bf16-mixed"]

Values = dict[str, Any]


def bench_families(
    presets: Sequence[str] = PRESETS,
    batch: int = 2,
    times: int = 1,
    out: Path | None = None,
    counted: bool = False,
    report: Callable[[str], None] = lambda _: None,
    precision: Precision = "32-true",
    stamp: Callable[[Values], Values] = dict,
) -> dict[str, Values]:
    """One training step of each preset, by its name.

    batch: videos or pairs of a step; 0 for as many as the preset has.
    times: steps of each; the fastest counts.
    out: a results file that rows are added to as they come. Presets that are in it already are not measured again.
    stamp: adds to the results file what figures depend on, such as the machine.
    counted: only count parameters and operations, without computing anything.
    """
    for name in presets:
        if name not in preset_names("train"):
            raise ConfigError(f"There is no train preset '{name}'.", nearest(name, PRESETS))
    if counted:
        return {name: count_family(load_config(TrainSettings, "train", name), batch) for name in presets}
    found: dict[str, Values] = {}
    if out is not None and out.is_file():
        found = read_json(out)["rows"]
    for name in presets:
        if name in found:
            continue
        report(name)
        # A fresh process for each: its peak of memory is that of one model.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            found[name] = pool.submit(bench_family, name, batch, times, precision).result()
        if out is not None:
            write_text(out, json.dumps(stamp({"rows": found}), indent=1) + "\n")
    return {name: found[name] for name in presets}


def bench_family(preset: str, batch: int = 2, times: int = 1, precision: Precision = "32-true") -> Values:
    """Parameters in millions, work and seconds of a step, peak memory of the process in GB.

    encode_ms: to encode a full prefix, or one frame if the network has no prefixes; median of five, in 32 bits.
    """
    settings = load_config(TrainSettings, "train", preset)
    counts = count_family(settings, batch)
    batch = counts["batch"]
    torch.manual_seed(settings.seed)
    keep_freed_memory()  # as a training does
    model = Model(settings.model, pretrained=False)
    model.arrange()
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
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16-mixed"):
            losses = stage.loss(model, data)
        optimizer.zero_grad(set_to_none=True)
        losses.total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        spent.append(time.perf_counter() - start)
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    loss = float(losses.total.detach())
    return {
        **counts, "precision": precision, "step_s": min(spent), "peak_gb": peak_gb, "loss": loss,
        "encode_ms": 1000.0 * float(np.median(times_s(_encoding(model), 5))),
    }  # fmt: skip


def _encoding(model: Model) -> Callable[[], None]:
    """Encodes a full prefix, or one frame if the network has no prefixes."""
    m = model.eval().settings
    frames, poses = torch.randn(1, m.frames, 3, m.frame_height, m.frame_width), _poses(1, m.frames)

    @torch.inference_mode()
    def encode() -> None:
        if "prefix" in model.family.capabilities.parts:
            model.prefixes(frames, [m.frames], poses=poses)
        else:
            model.ground.embed_images(frames[0, :1])

    return encode


def count_family(settings: TrainSettings, batch: int = 2) -> Values:
    """Parameters in millions, and the operations of a training step in billions, without computing any of them.

    batch: 0 for the preset's own. gflops_preset_step is for a batch of that size.
    """
    m, stage = settings.model, stages_of(settings)[0]
    batch = batch or getattr(settings, stage).batch
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
    return PairBatch(frames, tiles, _places(batch), torch.zeros(batch), tiles[:, None])


def _regions(settings: TrainSettings, batch: int) -> RegionBatch:
    m = settings.model
    frames = torch.randn(batch, m.frames, 3, m.frame_height, m.frame_width)
    tiles = torch.randn(batch, m.region_tiles**2, 3, m.tile_px, m.tile_px)
    return RegionBatch(frames, tiles, _places(batch), _poses(batch, m.frames))


def _poses(batch: int, frames: int) -> Tensor:
    """Of cameras that drive straight ahead."""
    ahead = torch.arange(frames, dtype=torch.float32) * 50
    return torch.stack([0 * ahead, ahead, 0 * ahead], -1).repeat(batch, 1, 1)
