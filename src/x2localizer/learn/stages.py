"""The three stages as data: what trains, on what, with which loss, and what decides which model is best."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from x2localizer.config import StageSettings, TrainSettings
from x2localizer.learn.batches import PairBatch, RegionBatch, VideoBatch, Videos
from x2localizer.learn.families import capabilities_of, family_of
from x2localizer.learn.families.headings import HeadingTower
from x2localizer.learn.frozen import Frozen
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
from x2localizer.learn.score import best_heading_similarity, heading_recalls, pair_recall, recalls
from x2localizer.learn.towers import Tower


class OnDevice(Protocol):
    """A batch: tensors that move to a device together."""

    def to(self, device: torch.device) -> Self:
        """The same on a device."""


Batch = TypeVar("Batch", bound=OnDevice)
Codes = tuple[Tensor, ...]
BACK_WEIGHT = 0.3
"""Of the loss from tile to frame, beside that from frame to tile."""
TEACHER_WEIGHT = 20.0
"""Of L_keep to a teacher's codes, beside L_smcl, whose temperature makes its gradients about as large."""


@dataclass(frozen=True, slots=True)
class Stage(Generic[Batch]):
    """One stage of training.

    name: as in the config.
    trains: which weights.
    draw: the batch of a random stream.
    embed: codes of a batch, tensors whose first axis is that of the batch; each row depends on its own pictures alone.
    compare: the losses of codes, over the whole batch and all processes.
    judge: metrics of a model on held-out videos.
    select: the metric that decides which model is best, out of those.
    """

    name: str
    trains: Trains
    settings: StageSettings
    draw: Callable[[np.random.Generator], Batch]
    embed: Callable[[Model, Batch], Codes]
    compare: Callable[[Codes, Batch], Losses]
    judge: Callable[[Model], dict[str, float]]
    select: Callable[[dict[str, float]], float]

    def loss(self, model: Model, batch: Batch) -> Losses:
        """The losses of a batch, in one pass."""
        return self.compare(self.embed(model, batch), batch)


def image_stage(
    settings: TrainSettings, train: Videos, held_out: Videos, teacher: Model | None = None
) -> Stage[PairBatch]:
    """Stage 1: frame-tile pairs with L_smcl; everything but the adapters trains.

    teacher: a model whose image codes of the same pictures are learned, too.
    """

    def embed(model: Model, batch: PairBatch) -> Codes:
        codes = model.pairs(batch.frames, batch.tiles)
        return codes if teacher is None else (*codes, *taught_codes(teacher, batch.frames, batch.tiles))

    def compare(codes: Codes, batch: PairBatch) -> Losses:
        frames, tiles, *taught = codes
        # A tile that lies less than one tile away shows the same street: it is no negative.
        allowed = allowed_columns(batch.places, 1.0)
        s_img = best_heading_similarity(frames, gather_rows(tiles))
        value = soft_margin_loss(s_img, settings.objective.tau_sm, target=targets(frames), allowed=allowed)
        losses = Losses(value, {"smcl": value})
        return with_keep(losses, list(zip(codes[:2], taught, strict=True)), TEACHER_WEIGHT) if taught else losses

    return Stage(
        "image", "everything", settings.image, lambda rng: train.pair_batch(rng, settings.image), embed, compare,
        lambda model: {"pair@1": pair_recall(model, held_out)}, lambda metrics: metrics["pair@1"],
    )  # fmt: skip


@torch.no_grad()
def taught_codes(teacher: Model, frames: Tensor, tiles: Tensor) -> tuple[Tensor, Tensor]:
    """A teacher's codes of frames and tiles, which are resized to what it knows."""
    m = teacher.settings
    sizes = (m.frame_height, m.frame_width), (m.tile_px, m.tile_px)
    resized = [
        images if images.shape[-2:] == size else F.interpolate(images, size, mode="bilinear", antialias=True)
        for images, size in zip((frames, tiles), sizes, strict=True)
    ]
    return teacher.pairs(*resized)


def heading_stage(settings: TrainSettings, train: Videos, held_out: Videos) -> Stage[PairBatch]:
    """Stage 1 of towers that know headings: frames and tiles in the camera's heading, with L_smcl in both directions.

    Each tile is there in three other headings, too: a camera that looks another way is somewhere else. From frame to
    tile, how much a frame says scales its similarities; so it learns to say it.
    """
    temperature = settings.objective.tau_sm
    looks = capabilities_of(settings.model)

    def embed(model: Model, batch: PairBatch) -> Codes:
        assert isinstance(model.aerial, HeadingTower)
        ways = batch.headings[:, None] + torch.arange(4, device=batch.headings.device) * (math.pi / 2)
        tiles = model.aerial.embed_headings(batch.tiles, ways)  # (b, 4, d)
        if looks.further:
            further = model.aerial.embed_headings(batch.further[:, 0], ways)
            tiles = torch.cat([tiles.chunk(2, -1)[0], further.chunk(2, -1)[1]], -1)
        return model.ground(batch.frames), tiles

    def compare(codes: Codes, batch: PairBatch) -> Losses:
        frames, tiles = (some.float() for some in codes)
        allowed, own = allowed_columns(batch.places, 1.0), targets(frames)
        every = gather_rows(tiles).flatten(0, 1)
        with torch.autocast(frames.device.type, enabled=False):  # 16 bits would round similarities by a tenth of tau_sm
            to_every, back = frames @ every.t(), tiles[:, 0] @ gather_rows(F.normalize(frames, dim=-1)).t()
        to_tile = soft_margin_loss(to_every, temperature, target=4 * own, allowed=allowed.repeat_interleave(4, 1))
        to_frame = soft_margin_loss(back, temperature, target=own, allowed=allowed)
        return Losses(to_tile + BACK_WEIGHT * to_frame, {"to_tile": to_tile, "to_frame": to_frame})

    return Stage(
        "image", "everything", settings.image, lambda rng: train.pair_batch(rng, settings.image, looks), embed, compare,
        lambda model: heading_recalls(model, held_out, temperature),
        lambda metrics: float(np.mean(list(metrics.values()))),
    )  # fmt: skip


def full_stage(settings: TrainSettings, train: Videos, held_out: Videos) -> Stage[RegionBatch]:
    """Stage 2: full videos and regions with L_full; the adapters of both towers train."""
    full = settings.model.frames

    def embed(model: Model, batch: RegionBatch) -> Codes:
        videos = model.prefixes(batch.frames, [full], poses=batch.poses)[full]
        regions = model.regions(batch.tiles)
        if not settings.objective.eta_keep:
            return videos.whole, regions.whole
        ground, aerial = image_codes(model.ground, batch.frames), image_codes(model.aerial, batch.tiles)
        return videos.whole, regions.whole, videos.tokens, ground, regions.tokens, aerial

    def compare(codes: Codes, batch: RegionBatch) -> Losses:
        videos, regions, *kept = codes
        s_g = videos @ gather_rows(regions).t()
        allowed = allowed_columns(batch.places, settings.model.region_tiles)
        value = row_cross_entropy(s_g, settings.objective.tau_c, target=targets(s_g), allowed=allowed)
        losses = Losses(value, {f"global_{full}": value})
        return with_keep(losses, _in_pairs(kept), settings.objective.eta_keep) if kept else losses

    return Stage(
        "full", "adapters", settings.full, lambda rng: train.region_batch(rng, settings.full), embed, compare,
        lambda model: recalls(model, held_out, [full], settings.objective), lambda metrics: metrics[f"s_g@{full}"],
    )  # fmt: skip


def _in_pairs(codes: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    return list(zip(codes[::2], codes[1::2], strict=True))


def with_keep(losses: Losses, pairs: list[tuple[Tensor, Tensor]], weight: float) -> Losses:
    """Losses with L_keep over pairs of codes and those of the same pictures that they are held to, (..., d) each."""
    value = torch.stack([keep_loss(tokens, codes) for tokens, codes in pairs]).mean()
    return Losses(losses.total + weight * value, {**losses.terms, "keep": value})


@torch.no_grad()
def image_codes(tower: Tower, images: Tensor) -> Tensor:
    """Image codes of the pictures of sets, which no adapter changes: (b, s, 3, h, w) -> (b, s, d)."""
    codes: Tensor = tower(images.flatten(0, 1)).unflatten(0, images.shape[:2])
    return codes


def progressive_stage(settings: TrainSettings, train: Videos, held_out: Videos, frozen: Frozen) -> Stage[VideoBatch]:
    """Stage 3: all budgets with the whole objective; the ground adapters train against fixed regions and teacher."""
    budgets, objective = list(settings.budgets), settings.objective
    aggregate = fine_similarity if objective.fine == "s_f" else best_tile_similarity
    region_of = torch.from_numpy(train.region_of)

    def embed(model: Model, batch: VideoBatch) -> Codes:
        prefixes = model.prefixes(batch.frames, budgets, poses=batch.poses)
        codes = [*(prefixes[budget].whole for budget in budgets), *(prefixes[budget].tokens for budget in budgets)]
        if objective.eta_keep:
            codes.append(image_codes(model.ground, batch.frames))
        return tuple(codes)

    def compare(codes: Codes, batch: VideoBatch) -> Losses:
        prefixes = dict(zip(budgets, codes, strict=False))
        tokens = dict(zip(budgets, codes[len(budgets) :], strict=False))
        columns = region_of[gather_rows(batch.videos).cpu()]
        whole = frozen.whole_of(columns)
        s_g = {budget: prefixes[budget] @ whole.t() for budget in budgets}
        s_f = {}
        if fine := [budget for budget in budgets if objective.lambda_f[budget]]:
            tiles = frozen.tokens_of(columns)
            for budget in fine:
                s_f[budget] = aggregate(token_similarity(tokens[budget], tiles), objective.tau_f)
        teacher = frozen.teacher_of(batch.videos.cpu()) @ whole.t()
        allowed = allowed_columns(batch.places, settings.model.region_tiles)
        losses = total_loss(s_g, s_f, teacher, objective, allowed, targets(teacher))
        if not objective.eta_keep:
            return losses
        pairs = [(tokens[budget], codes[-1][:, :budget]) for budget in budgets]
        return with_keep(losses, pairs, objective.eta_keep)

    return Stage(
        "progressive", "ground adapters", settings.progressive,
        lambda rng: train.video_batch(rng, settings.progressive), embed, compare,
        lambda model: recalls(model, held_out, budgets, settings.objective), _mean_recall(settings),
    )  # fmt: skip


def _mean_recall(settings: TrainSettings) -> Callable[[dict[str, float]], float]:
    """Mean R@1 over the budgets, by the similarity that the objective trains."""
    name = "s_mix" if settings.objective.fine == "s_f" else "s_best"
    if not family_of(settings.model).capabilities.tokens:
        name = "s_g"
    return lambda metrics: float(np.mean([metrics[f"{name}@{budget}"] for budget in settings.budgets]))
