"""The three stages as data: what trains, on what, with which loss, and what decides which model is best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from x2localizer.config import StageSettings, TrainSettings
from x2localizer.learn.batches import PairBatch, VideoBatch, Videos
from x2localizer.learn.checkpoint import fingerprint_of, write_tensors
from x2localizer.learn.families import family_of
from x2localizer.learn.gather import allowed_columns, gather_rows, targets
from x2localizer.learn.model import Model, Trains
from x2localizer.learn.objective import (
    Losses,
    best_tile_similarity,
    fine_similarity,
    keep_loss,
    row_cross_entropy,
    soft_margin_loss,
    token_similarity,
    total_loss,
)
from x2localizer.learn.score import Gallery, embed_prefixes, embed_regions, pair_recall, recalls
from x2localizer.learn.towers import Tower


@dataclass(frozen=True, slots=True)
class Frozen:
    """What stage 3 need not compute again: regions of all training videos, and the teacher's videos, (n, d)."""

    regions: Gallery
    teacher: Tensor


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage; ``draw`` makes the batch of a random stream, ``loss`` its losses, ``judge`` the metrics."""

    name: str
    trains: Trains
    settings: StageSettings
    draw: Callable[[np.random.Generator], PairBatch | VideoBatch]
    loss: Callable[[Model, PairBatch | VideoBatch], Losses]
    judge: Callable[[Model], dict[str, float]]
    select: Callable[[dict[str, float]], float]


def image_stage(settings: TrainSettings, train: Videos, held_out: Videos) -> Stage:
    """Stage 1: frame-tile pairs with L_smcl; everything but the adapters trains."""

    def loss(model: Model, batch: PairBatch | VideoBatch) -> Losses:
        assert isinstance(batch, PairBatch)
        frames, tiles = model.pairs(batch.frames, batch.tiles)
        # A tile that lies less than one tile away shows the same street: it is no negative.
        allowed = allowed_columns(batch.places, 1.0)
        s_img = frames @ gather_rows(tiles).t()
        value = soft_margin_loss(s_img, settings.objective.tau_sm, target=targets(frames), allowed=allowed)
        return Losses(value, {"smcl": value})

    return Stage(
        "image", "everything", settings.image, lambda rng: train.pair_batch(rng, settings.image), loss,
        lambda model: {"pair@1": pair_recall(model, held_out)}, lambda found: found["pair@1"],
    )  # fmt: skip


def full_stage(settings: TrainSettings, train: Videos, held_out: Videos) -> Stage:
    """Stage 2: full videos and regions with L_full; the adapters of both towers train."""
    full = settings.model.frames

    def loss(model: Model, batch: PairBatch | VideoBatch) -> Losses:
        assert isinstance(batch, VideoBatch)
        assert batch.tiles is not None
        videos, regions = model.prefixes(batch.frames, [full])[full], model.regions(batch.tiles)
        s_g = videos.whole @ gather_rows(regions.whole).t()
        allowed = allowed_columns(batch.places, settings.model.region_tiles)
        value = row_cross_entropy(s_g, settings.objective.tau_c, target=targets(s_g), allowed=allowed)
        found = Losses(value, {f"global_{full}": value})
        if not settings.objective.eta_keep:
            return found
        ground, aerial = untouched(model.ground, batch.frames), untouched(model.aerial, batch.tiles)
        return with_keep(found, [(videos.tokens, ground), (regions.tokens, aerial)], settings.objective.eta_keep)

    return Stage(
        "full", "adapters", settings.full, lambda rng: train.video_batch(rng, settings.full), loss,
        lambda model: recalls(model, held_out, [full], settings.objective), lambda found: found[f"s_g@{full}"],
    )  # fmt: skip


def with_keep(found: Losses, pairs: list[tuple[Tensor, Tensor]], weight: float) -> Losses:
    """Losses with L_keep over pairs of tokens and the embeddings of stage 1 they came from, (b, s, d) each."""
    value = torch.stack([keep_loss(tokens, phi) for tokens, phi in pairs]).mean()
    return Losses(found.total + weight * value, {**found.terms, "keep": value})


@torch.no_grad()
def untouched(tower: Tower, images: Tensor) -> Tensor:
    """phi of sets of images: (b, s, 3, h, w) -> (b, s, d)."""
    out: Tensor = tower(images.flatten(0, 1)).unflatten(0, images.shape[:2])
    return out


def freeze(model: Model, train: Videos, folder: Path) -> Frozen:
    """What stage 3 keeps fixed: computed once, kept on disk under the fingerprints of the model and the data set."""
    weights = fingerprint_of(dict(model.state_dict()))
    variants = {tower.variant(sets=True) for tower in (model.ground, model.aerial)}
    name = f"frozen-{weights}{''.join(sorted(variants))}-{train.data.contents}.safetensors"
    device = next(model.parameters()).device
    path = folder / name
    if not path.is_file():
        regions = embed_regions(model, train)
        full = model.settings.frames
        teacher = embed_prefixes(model, train, [full])[full].whole
        write_tensors(path, {"whole": regions.whole, "tokens": regions.tokens, "teacher": teacher})
    kept = load_file(path, device=str(device))
    return Frozen(Gallery(kept["whole"], kept["tokens"]), kept["teacher"])


def progressive_stage(settings: TrainSettings, train: Videos, held_out: Videos, frozen: Frozen) -> Stage:
    """Stage 3: all budgets with the whole objective; the ground adapters train against fixed regions and teacher."""
    budgets, objective = list(settings.budgets), settings.objective
    aggregate = fine_similarity if objective.fine == "s_f" else best_tile_similarity
    judged_by = "s_mix" if objective.fine == "s_f" else "s_best"
    if not family_of(settings.model).capabilities.tokens:
        judged_by = "s_g"
    region_of = torch.from_numpy(train.region_of)

    def loss(model: Model, batch: PairBatch | VideoBatch) -> Losses:
        assert isinstance(batch, VideoBatch)
        columns = region_of.to(batch.videos.device)[gather_rows(batch.videos)]
        whole, tokens = frozen.regions.whole[columns], frozen.regions.tokens[columns]
        s_g, s_f = {}, {}
        prefixes = model.prefixes(batch.frames, budgets)
        for budget, prefix in prefixes.items():
            s_g[budget] = prefix.whole @ whole.t()
            if objective.lambda_f[budget]:
                s_f[budget] = aggregate(token_similarity(prefix.tokens, tokens), objective.tau_f)
        teacher = frozen.teacher[batch.videos] @ whole.t()
        allowed = allowed_columns(batch.places, settings.model.region_tiles)
        found = total_loss(s_g, s_f, teacher, objective, allowed, targets(teacher))
        if not objective.eta_keep:
            return found
        phi = untouched(model.ground, batch.frames)
        return with_keep(found, [(p.tokens, phi[:, :budget]) for budget, p in prefixes.items()], objective.eta_keep)

    def mean_recall(found: dict[str, float]) -> float:
        return float(np.mean([found[f"{judged_by}@{budget}"] for budget in budgets]))

    return Stage(
        "progressive", "ground adapters", settings.progressive,
        lambda rng: train.video_batch(rng, settings.progressive, with_tiles=False), loss,
        lambda model: recalls(model, held_out, budgets, settings.objective), mean_recall,
    )  # fmt: skip
