"""How large and how fast a model is. Nothing is timed in tests."""

from __future__ import annotations

import resource
from collections.abc import Callable

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from x2localizer.config import ObjectiveSettings, TrainSettings
from x2localizer.encoders.protocol import Capabilities
from x2localizer.errors import ConfigError
from x2localizer.learn.families.deit import DeitTower
from x2localizer.learn.model import Model
from x2localizer.learn.naive import naive_set
from x2localizer.learn.objective import fine_similarity, token_similarity, total_loss
from x2localizer.learn.towers import Tower
from x2localizer.metrics import fastest_s

BUDGETS = [1, 2, 4, 8]


def bench_model(settings: TrainSettings, times: int = 2, batch: int = 2) -> dict[str, object]:
    """Sizes and speeds of a model with random weights.

    ``region_naive_s`` is the time of the plain version in ``naive.py``. ``stage3_cached_speedup`` is the time of a step
    of stage 3 that computes everything (regions, teacher, each prefix from its pixels), divided by the time of one that
    reads regions and teacher from a file and shares the first layers of the frames among prefixes. ``train_step_*`` is
    one step of stage 2, forward and backward; its memory is the peak of the process so far.
    """
    torch.manual_seed(0)
    m = settings.model
    model = Model(m, pretrained=False).eval()
    if model.capabilities != Capabilities():
        raise ConfigError(
            f"The benchmark needs image codes, set codes and tokens; the family '{m.family}' lacks some of them.",
            "Choose another preset.",
        )
    for name, parameter in model.named_parameters():
        if model.is_adapter(name):
            torch.nn.init.normal_(parameter, std=0.02)
    tiles = torch.randn(1, m.region_tiles**2, 3, m.tile_px, m.tile_px)
    frames = torch.randn(1, m.frames, 3, m.frame_height, m.frame_width)
    with torch.no_grad():
        region_s = fastest_s(lambda: model.regions(tiles), times)
        twin = _against_twin(model.aerial, tiles, region_s, times)
        prefix_s = {
            str(tau): fastest_s(lambda tau=tau: model.ground.embed_sets(frames[:, :tau]), times)  # type: ignore[misc]
            for tau in BUDGETS if tau <= m.frames
        }  # fmt: skip
    image = sum(p.numel() for name, p in model.named_parameters() if not model.is_adapter(name))
    values: dict[str, object] = {
        "params_image_m": image / 1e6, "params_video_m": sum(p.numel() for p in model.parameters()) / 1e6,
        "region_s": region_s, **twin, "prefix_s_by_tau": prefix_s,
    }  # fmt: skip
    return values | _flops(model) | _steps(model, settings.objective, batch)


def _against_twin(tower: Tower, tiles: torch.Tensor, region_s: float, times: int) -> dict[str, object]:
    """Time of the plain version of a tower with GeoAdapters, and the largest difference; nothing for other towers."""
    if not isinstance(tower, DeitTower) or not tower.adapted:
        return {}
    fast, plain = tower.embed_sets(tiles), naive_set(tower, tiles[0])
    naive_s = fastest_s(lambda: naive_set(tower, tiles[0]), times)
    difference = max(float((fast.whole[0] - plain[0]).abs().max()), float((fast.tokens[0] - plain[1]).abs().max()))
    return {"region_naive_s": naive_s, "region_speedup": naive_s / region_s, "region_max_diff": difference}


def _flops(model: Model) -> dict[str, object]:
    """Floating-point operations of one forward pass, in billions: a frame, a tile, a region, prefixes."""
    m = model.settings
    frames = torch.zeros(1, m.frames, 3, m.frame_height, m.frame_width)
    tiles = torch.zeros(1, m.region_tiles**2, 3, m.tile_px, m.tile_px)

    def count(work: Callable[[], object]) -> float:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            work()
        return float(counter.get_total_flops()) / 1e9

    return {
        "gflops_frame": count(lambda: model.ground(frames[0, :1])),
        "gflops_tile": count(lambda: model.aerial(tiles[0, :1])),
        "gflops_region": count(lambda: model.regions(tiles)),
        "gflops_prefix_by_tau": {
            str(tau): count(lambda tau=tau: model.prefixes(frames, [tau]))  # type: ignore[misc]
            for tau in BUDGETS if tau <= m.frames
        },
    }  # fmt: skip


def _steps(model: Model, objective: ObjectiveSettings, batch: int) -> dict[str, object]:
    """Time of a step of stage 3, with frozen codes and without, and of a step of stage 2."""
    m = model.settings
    videos = torch.randn(batch, m.frames, 3, m.frame_height, m.frame_width)
    regions = torch.randn(batch, m.region_tiles**2, 3, m.tile_px, m.tile_px)
    budgets = [budget for budget in BUDGETS if budget <= m.frames]

    def aerial_side() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            codes = model.regions(regions)
            return codes.whole, codes.tokens, model.prefixes(videos, [m.frames])[m.frames].whole

    def step(kept: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None) -> None:
        whole, tokens, teacher = kept or aerial_side()
        prefixes = model.prefixes(videos, budgets) if kept else {t: model.prefixes(videos, [t])[t] for t in budgets}
        s_g = {t: p.whole @ whole.t() for t, p in prefixes.items()}
        s_f = {t: fine_similarity(token_similarity(p.tokens, tokens), objective.tau_f) for t, p in prefixes.items()}
        total_loss(s_g, s_f, teacher @ whole.t(), objective).total.backward()  # type: ignore[no-untyped-call]
        model.zero_grad(set_to_none=True)

    def full_step() -> None:
        score = model.prefixes(videos, [m.frames])[m.frames].whole @ model.regions(regions).whole.t()
        torch.nn.functional.cross_entropy(score / objective.tau_c, torch.arange(batch)).backward()  # type: ignore[no-untyped-call]
        model.zero_grad(set_to_none=True)

    model.set_trainable("ground adapters")
    kept = aerial_side()
    with_cache, without = fastest_s(lambda: step(kept), 1), fastest_s(lambda: step(None), 1)
    model.set_trainable("adapters")
    train_s = fastest_s(full_step, 1)
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {
        "stage3_step_s": with_cache, "stage3_cached_speedup": without / with_cache,
        "stage3_samples_per_s": batch / with_cache, "stage3_samples_per_s_without": batch / without,
        "train_step_s": train_s, "train_step_gb": float(np.round(peak_gb, 2)),
    }  # fmt: skip
