"""Checkpoints: safetensors files with the resolved config, the metrics and a fingerprint inside. Nothing is unpickled.

``best.safetensors`` holds a model. ``last.safetensors`` holds a model, its optimizer and the step, to resume from.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from x2localizer.config import TrainSettings, validate
from x2localizer.errors import CheckpointError
from x2localizer.files import atomic_path
from x2localizer.learn.backbone import with_more_blocks, with_other_patches
from x2localizer.learn.model import Model

FORMAT = "x2localizer-checkpoint-1"
STEM = ".patch_embed."
"""In the names of the weights that make patches of pixels."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint holds.

    tensors: the model's weights by name.
    optimizer: its moments, named ``index.key``; empty for a model that is not resumed.
    settings: the config it was trained with.
    state: stage, step, best and metrics; for imported weights also where they came from.
    fingerprint: a name for exactly these weights.
    """

    tensors: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    settings: TrainSettings
    state: dict[str, Any]
    fingerprint: str


def fingerprint_of(tensors: dict[str, Tensor]) -> str:
    """A name of 16 hex digits for exactly these weights."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def save_checkpoint(
    path: Path,
    model: Model,
    settings: TrainSettings,
    state: dict[str, Any],
    optimizer: torch.optim.Optimizer | None = None,
) -> str:
    """Write a checkpoint atomically; returns its fingerprint."""
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    fingerprint = fingerprint_of(weights)
    tensors = {f"model.{name}": tensor for name, tensor in weights.items()}
    if optimizer is not None:
        for index, moments in optimizer.state_dict()["state"].items():
            for key, value in moments.items():
                tensors[f"optimizer.{index}.{key}"] = torch.as_tensor(value).detach().cpu().contiguous()
    header = {
        "format": FORMAT, "config": settings.model_dump_json(), "state": json.dumps(state), "fingerprint": fingerprint,
    }  # fmt: skip
    write_tensors(path, tensors, header)
    return fingerprint


def write_tensors(path: Path, tensors: dict[str, Tensor], header: dict[str, str] | None = None) -> None:
    """Write a safetensors file atomically: if the disk is full, the file that was there stays."""
    with atomic_path(path) as target:
        try:
            save_file(tensors, target, header)
        except SafetensorError as problem:  # its only cause here is the disk
            raise CheckpointError(
                f"Cannot write {path}: {problem}.", "Free some space and run the same command again: it resumes."
            ) from problem


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint and check its fingerprint."""
    if not path.is_file():
        raise CheckpointError(f"There is no checkpoint {path}.", "Train one: x2l train --data DATA --out RUN")
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError) as problem:
        raise CheckpointError(f"{path} is damaged.", "Use another checkpoint of the run, or train again.") from problem
    if header.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is not a checkpoint of this version.", "If it holds published weights, import them: x2l import"
        )
    weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    moments = {name.removeprefix("optimizer."): t for name, t in tensors.items() if name.startswith("optimizer.")}
    try:
        fingerprint, config, state = header["fingerprint"], json.loads(header["config"]), json.loads(header["state"])
    except (KeyError, ValueError, RecursionError) as problem:
        raise CheckpointError(f"{path} is damaged: its header cannot be read.", "Train again.") from problem
    if fingerprint_of(weights) != fingerprint:
        raise CheckpointError(f"{path} is damaged: its weights do not match its fingerprint.", "Train again.")
    return Checkpoint(weights, moments, validate(TrainSettings, config), state, fingerprint)


def load_weights(model: Model, tensors: dict[str, Tensor]) -> None:
    """Put weights into a model. Names and shapes must match exactly."""
    own = model.state_dict()
    missing, unknown = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
    wrong = sorted(name for name in own.keys() & tensors.keys() if own[name].shape != tensors[name].shape)
    if missing or unknown or wrong:
        named = [f"{what} {', '.join(names[:4])}" for what, names in
                 (("missing", missing), ("unknown", unknown), ("of another shape", wrong)) if names]  # fmt: skip
        raise CheckpointError(
            f"The weights do not fit the model: {'; '.join(named)}.", "Use the config they were trained with."
        )
    model.load_state_dict(tensors)


def restore(checkpoint: Checkpoint) -> Model:
    """The model of a checkpoint, ready to encode."""
    model = Model(checkpoint.settings.model, pretrained=False)
    load_weights(model, checkpoint.tensors)
    return model.eval()


def load_start(model: Model, checkpoint: Checkpoint) -> None:
    """Put the weights of another run into a model; of another family those that it can take over.

    Stage 1 does not train adapters: after it the model may have none, or adapters of another size.
    """
    other = checkpoint.settings.model.family
    tensors = with_other_patches(checkpoint.tensors, checkpoint.settings.model, model.settings)
    tensors = with_more_blocks(tensors, model.state_dict())
    if checkpoint.settings.model.backbone.stem != model.settings.backbone.stem:  # what comes after it is taken over
        stems = {name: tensor for name, tensor in model.state_dict().items() if STEM in name}
        tensors = {name: tensor for name, tensor in tensors.items() if STEM not in name} | stems
    if other != model.settings.family:
        taken = model.family.taken_from(other, tensors)
        if not taken:
            raise CheckpointError(
                f"The checkpoint is of the family '{other}', not '{model.settings.family}'.",
                "Set model.family to that of the checkpoint, or start from another one.",
            )
        load_weights(model, {**model.state_dict(), **taken})
        return
    if checkpoint.state["stage"] == "image":
        own = {name: tensor for name, tensor in model.state_dict().items() if model.is_adapter(name)}
        tensors = {name: tensor for name, tensor in tensors.items() if not model.is_adapter(name)} | own
    load_weights(model, tensors)


def load_optimizer(optimizer: torch.optim.Optimizer, moments: dict[str, Tensor]) -> None:
    """Put the moments of a checkpoint into an optimizer."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in moments.items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    whole = optimizer.state_dict()
    whole["state"] = state
    optimizer.load_state_dict(whole)
