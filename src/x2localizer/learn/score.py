"""How good a model is on held-out videos: their codes, and recalls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from x2localizer.config import ObjectiveSettings
from x2localizer.encoders.area import half_stride, seen_from
from x2localizer.learn.augment import to_input
from x2localizer.learn.batches import Videos
from x2localizer.learn.model import Model
from x2localizer.learn.objective import fine_similarity, mixed_similarity, token_similarity
from x2localizer.learn.towers import SetEmbedding
from x2localizer.metrics import ranks_of, recall_at

CHUNK = 16
Progress = Callable[[int, int], None]


@torch.no_grad()
def embed_regions(
    model: Model, videos: Videos, *, adapt: bool = True, progress: Progress = lambda done, total: None
) -> SetEmbedding:
    """Set codes of all regions of a split, on the CPU: their tokens may be larger than the memory of a GPU."""
    model.eval()
    count = len(videos.region_rows)
    codes: SetEmbedding | None = None
    for start in range(0, count, CHUNK):
        stop = min(start + CHUNK, count)
        tiles = to_input(np.stack([videos.tiles(i) for i in range(start, stop)]))
        part = model.regions(tiles.to(_device(model)), adapt=adapt)
        if codes is None:
            codes = SetEmbedding(*(torch.empty(count, *some.shape[1:]) for some in part))
        codes.whole[start:stop], codes.tokens[start:stop] = part.whole.cpu(), part.tokens.cpu()
        progress(stop, count)
    assert codes is not None  # a split with videos has regions
    return codes


@torch.no_grad()
def embed_prefixes(
    model: Model, videos: Videos, budgets: list[int], *, adapt: bool = True,
    progress: Progress = lambda done, total: None,
) -> dict[int, SetEmbedding]:  # fmt: skip
    """Set codes of the prefixes of all videos of a split, by budget."""
    model.eval()
    parts: dict[int, list[SetEmbedding]] = {budget: [] for budget in budgets}
    for start in range(0, len(videos.videos), CHUNK):
        stop = min(start + CHUNK, len(videos.videos))
        frames = to_input(np.stack([videos.frames(i, max(budgets)) for i in range(start, stop)]))
        poses = torch.from_numpy(np.stack([videos.poses(i, max(budgets)) for i in range(start, stop)])).float()
        there = poses.to(_device(model))
        for budget, out in model.prefixes(frames.to(_device(model)), budgets, adapt=adapt, poses=there).items():
            parts[budget].append(out)
        progress(stop, len(videos.videos))
    return {
        budget: SetEmbedding(torch.cat([p.whole for p in chunks]), torch.cat([p.tokens for p in chunks]))
        for budget, chunks in parts.items()
    }


@torch.no_grad()
def similarities(
    videos: SetEmbedding, regions: SetEmbedding, objective: ObjectiveSettings, chunk: int = 64
) -> dict[str, Tensor]:
    """s_g, s_f, s_mix and s_best (the mean over frames of the best tile) of videos and regions, each (q, n).

    Codes without tokens have only s_g.
    """
    s_g = videos.whole @ regions.whole.t()
    if not videos.tokens.shape[1]:
        return {"s_g": s_g}
    fine, best = [], []
    for start in range(0, len(s_g), chunk):
        s_tok = token_similarity(videos.tokens[start : start + chunk], regions.tokens)
        fine.append(fine_similarity(s_tok, objective.tau_f))
        best.append(s_tok.amax(-1).mean(-1))
    s_f = torch.cat(fine)
    return {"s_g": s_g, "s_f": s_f, "s_mix": mixed_similarity(s_g, s_f), "s_best": torch.cat(best)}


def recalls(
    model: Model, videos: Videos, budgets: list[int], objective: ObjectiveSettings, *, adapt: bool = True
) -> dict[str, float]:
    """R@1 in percent, by similarity and budget, such as ``s_mix@8``."""
    regions = SetEmbedding(*(codes.to(_device(model)) for codes in embed_regions(model, videos, adapt=adapt)))
    out = {}
    for budget, prefixes in embed_prefixes(model, videos, budgets, adapt=adapt).items():
        for name, scores in similarities(prefixes, regions, objective).items():
            out[f"{name}@{budget}"] = recall_at(ranks_of(scores.cpu().numpy(), videos.region_of), 1)
    return out


def best_heading_similarity(frames: Tensor, tiles: Tensor) -> Tensor:
    """Frames (n, d) with tiles (m, d), or (m, headings, d) each in the heading that suits best: (n, m)."""
    if tiles.ndim == 2:
        return frames @ tiles.t()
    return (frames @ tiles.flatten(0, 1).t()).reshape(len(frames), *tiles.shape[:2]).amax(-1)


@torch.no_grad()
def pair_recall(model: Model, videos: Videos) -> float:
    """R@1 in percent of keyframes among the tiles around all keyframes of the split."""
    model.eval()
    frames, tiles = [], []
    for i, keyframes in enumerate(videos.keyframes):
        rows = [k for k, keyframe in enumerate(keyframes) if keyframe.tile_path]
        if not rows:
            continue
        pictures = videos.frames(i, len(keyframes))[rows]
        frames.append(model.ground(to_input(pictures).to(_device(model))))
        around = np.stack([videos.data.tile(keyframes[k].tile, size=videos.model.tile_px) for k in rows])
        tiles.append(model.aerial(to_input(around).to(_device(model))))
    scores = best_heading_similarity(torch.cat(frames), torch.cat(tiles))
    return recall_at(ranks_of(scores.cpu().numpy(), np.arange(len(scores))), 1)


@torch.no_grad()
def heading_recalls(model: Model, videos: Videos, temperature: float) -> dict[str, float]:
    """R@1 in percent of videos among the regions, by the summed odds of all tiles and headings, by day and at night.

    For the first frame alone and for all of them, such as ``day@1``. At the temperature of the loss, odds are right.
    """
    model.eval()
    looks, regions = model.capabilities, []
    for number in range(len(videos.region_rows)):
        tiles = half_stride(videos.region_picture(number), videos.model.tile_px)
        codes = model.aerial(to_input(tiles.reshape(-1, *tiles.shape[2:])).to(_device(model)))
        seen = seen_from(codes.cpu().numpy().reshape(*tiles.shape[:2], *codes.shape[1:]), looks.ahead, looks.further)
        regions.append(torch.from_numpy(seen).to(_device(model)).flatten(0, 2))
    found: dict[str, list[bool]] = {}
    for i, video in enumerate(videos.videos):
        frames = model.ground(to_input(videos.frames(i, videos.model.frames)).to(_device(model)))
        odds = torch.stack([torch.logsumexp(frames @ codes.t() / temperature, 1) for codes in regions], 1)  # (k, r)
        when = "night" if video.daytime == "night" else "day"
        for count in (1, len(frames)):
            right = int(odds[:count].sum(0).argmax()) == videos.region_of[i]
            found.setdefault(f"{when}@{count}", []).append(right)
    return {name: 100.0 * float(np.mean(right)) for name, right in sorted(found.items())}


def _device(model: Model) -> torch.device:
    return next(model.parameters()).device
