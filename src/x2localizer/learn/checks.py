"""What can be known before training starts: whether stages and objective fit the family, and the dataset has clips."""

from __future__ import annotations

from collections.abc import Sequence

from x2localizer.config import STAGES, TrainSettings
from x2localizer.datasets.dataset import Dataset
from x2localizer.datasets.tables import VideoRow
from x2localizer.encoders.protocol import Part
from x2localizer.errors import ConfigError, DatasetError
from x2localizer.learn.families import capabilities_of, family_of, options_of

NEEDS: dict[str, tuple[Part, ...]] = {
    "image": ("frame", "tile"), "full": ("prefix", "region"), "progressive": ("prefix", "region"),
}  # fmt: skip
"""The parts of an encoder that a stage trains."""


def stages_of(settings: TrainSettings) -> tuple[str, ...]:
    """The stages that a family goes through, in their order.

    One that encodes sets only starts from pretrained weights, or if it is asked to, from pairs (stage image).
    """
    parts = family_of(settings.model).capabilities.parts
    return tuple(stage for stage in STAGES if all(part in parts for part in NEEDS[stage]))


def check_stages(settings: TrainSettings, stages: Sequence[str]) -> None:
    """Refuse stages and objectives that the family has no codes for."""
    options_of(settings.model)
    family, possible = settings.model.family, stages_of(settings)
    for stage in stages:
        # Stage image also trains a family of sets, by sets of one picture, if it has such.
        if stage not in possible and (stage != "image" or capabilities_of(settings.model).shortest_prefix > 1):
            lacking = "image codes" if stage == "image" else "set codes"
            raise ConfigError(
                f"The family '{family}' has no {lacking}, so stage '{stage}' cannot train.",
                f"Choose other stages: --stages {','.join(possible)}" if possible else "Choose another model.family.",
            )
    if "full" in stages or "progressive" in stages:
        _check_sets(settings)
    if "progressive" in stages:
        _check_budgets(settings)


def _check_budgets(settings: TrainSettings) -> None:
    """Every budget can be encoded, the objective has weights for it, and asks for no tokens that are not there."""
    capabilities, objective = family_of(settings.model).capabilities, settings.objective
    shortest, frames = capabilities.shortest_prefix, settings.model.frames
    for budget in settings.budgets:
        if not shortest <= budget <= frames:
            fitting = [b for b in settings.budgets if shortest <= b <= frames] or [frames]
            raise ConfigError(
                f"A prefix of this model has {shortest} to {frames} frames, but budgets has {budget}.",
                f"Set budgets={fitting}.",
            )
        for name in ("gamma", "lambda_g", "lambda_f"):
            if budget not in getattr(objective, name):
                raise ConfigError(
                    f"budgets has {budget}, but objective.{name} has no weight for it.",
                    f"Add it to the table, or take {budget} out of budgets.",
                )
    if not capabilities.tokens and any(objective.lambda_f[budget] for budget in settings.budgets):
        zeros = ", ".join(f"{budget}=0" for budget in settings.budgets)
        raise ConfigError(
            f"The family '{settings.model.family}' has no tokens, so objective.lambda_f must be 0.",
            f'Add --set "objective.lambda_f={{{zeros}}}".',
        )


def _check_sets(settings: TrainSettings) -> None:
    """A full video can be encoded, and eta_keep has tokens of adapters to hold to image codes."""
    tower, family, objective = family_of(settings.model), settings.model.family, settings.objective
    if settings.model.frames < tower.capabilities.shortest_prefix:
        raise ConfigError(
            f"The family '{family}' needs at least {tower.capabilities.shortest_prefix} frames, but model.frames is "
            f"{settings.model.frames}.",
            f"Set model.frames={tower.capabilities.shortest_prefix} or more.",
        )
    keeps = tower.capabilities.tokens and tower.has_adapters(settings.model) and "image" in stages_of(settings)
    if objective.eta_keep and not keeps:
        raise ConfigError(
            f"objective.eta_keep holds the tokens of adapters to image codes, which the family '{family}' lacks.",
            "Set objective.eta_keep=0.",
        )


def check_clips(data: Dataset, keyframes: int, stages: Sequence[str]) -> None:
    """Refuse a dataset whose training or validation split has no clip with enough keyframes."""
    clips = {split: data.videos(split) for split in ("train", "val")}
    usable = {split: [row for row in rows if row.keyframes >= keyframes] for split, rows in clips.items()}
    if not all(usable.values()):
        counts = ", ".join(f"{split}: {_count(rows, keyframes)}" for split, rows in clips.items())
        raise DatasetError(
            f"Training needs clips with {keyframes} keyframes in the splits train and val. {data.root} has {counts}.",
            "Add more or longer drives. For drives of your own, x2l prepare own --val sets the share for validation.",
        )
    if "image" not in stages:
        return
    if not any(row.tile_path for clip in usable["val"] for row in data.keyframes(clip.video_id)):
        raise DatasetError(
            f"No keyframe in the split val of {data.root} has a tile, so stage 'image' cannot be judged.",
            "Make the dataset again with imagery under its drives, or skip the stage: --stages full,progressive",
        )


def _count(clips: Sequence[VideoRow], keyframes: int) -> str:
    """How many clips there are, and how many keyframes they have."""
    if not clips:
        return "no clips"
    enough = sum(clip.keyframes >= keyframes for clip in clips)
    most = max(clip.keyframes for clip in clips)
    return f"{enough} of {len(clips)} clips" + ("" if enough else f", the longest with {most} keyframes")
