"""How good is a model on held-out towns? Embeddings of videos and regions, and their recalls."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from x2localizer.config import ObjectiveSettings
from x2localizer.learn.batches import Videos, to_input
from x2localizer.learn.model import Model
from x2localizer.learn.objective import fine_similarity, mixed_similarity, token_similarity
from x2localizer.learn.towers import SetEmbedding
from x2localizer.metrics import ranks_of, recall_at

CHUNK = 16


@torch.no_grad()
def embed_regions(model: Model, videos: Videos, *, adapt: bool = True) -> SetEmbedding:
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
    assert codes is not None  # a split with videos has regions
    return codes


@torch.no_grad()
def embed_prefixes(model: Model, videos: Videos, budgets: list[int], *, adapt: bool = True) -> dict[int, SetEmbedding]:
    """All videos of a split at some budgets; tokens (q, budget, d)."""
    model.eval()
    parts: dict[int, list[SetEmbedding]] = {budget: [] for budget in budgets}
    for start in range(0, len(videos.videos), CHUNK):
        stop = min(start + CHUNK, len(videos.videos))
        frames = to_input(np.stack([videos.frames(i, max(budgets)) for i in range(start, stop)]))
        for budget, out in model.prefixes(frames.to(_device(model)), budgets, adapt=adapt).items():
            parts[budget].append(out)
    return {
        budget: SetEmbedding(torch.cat([p.whole for p in chunks]), torch.cat([p.tokens for p in chunks]))
        for budget, chunks in parts.items()
    }


@torch.no_grad()
def similarities(
    videos: SetEmbedding, regions: SetEmbedding, objective: ObjectiveSettings, chunk: int = 64
) -> dict[str, Tensor]:
    """s_g, s_f, s_mix and s_best, the mean over frames of the best tile, each (q, n); s_g alone without tokens."""
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
    """Recall@1 in percent by similarity and budget, such as ``s_mix@8``."""
    regions = SetEmbedding(*(codes.to(_device(model)) for codes in embed_regions(model, videos, adapt=adapt)))
    out = {}
    for budget, prefixes in embed_prefixes(model, videos, budgets, adapt=adapt).items():
        for name, scores in similarities(prefixes, regions, objective).items():
            out[f"{name}@{budget}"] = recall_at(ranks_of(scores.cpu().numpy(), videos.region_of), 1)
    return out


@torch.no_grad()
def pair_recall(model: Model, videos: Videos) -> float:
    """Recall@1 of keyframes among the tiles around all keyframes of the split, in percent, exact tile."""
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
    scores = torch.cat(frames) @ torch.cat(tiles).t()
    return recall_at(ranks_of(scores.cpu().numpy(), np.arange(len(scores))), 1)


def _device(model: Model) -> torch.device:
    return next(model.parameters()).device
