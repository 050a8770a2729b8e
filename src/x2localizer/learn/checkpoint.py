"""Checkpoints: safetensors with the resolved config, the metrics and a fingerprint inside; nothing is unpickled.

``best.safetensors`` is a model. ``last.safetensors`` is a model, its optimizer and the step, to go on from exactly.
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
from x2localizer.learn.model import Model

FORMAT = "x2localizer-checkpoint-1"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint holds."""

    tensors: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    settings: TrainSettings
    state: dict[str, Any]  # stage, step, best, metrics
    fingerprint: str


def fingerprint_of(tensors: dict[str, Tensor]) -> str:
    """A short name for exactly these weights."""
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
    """Write a checkpoint atomically; gives its fingerprint."""
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
    """Write a safetensors file atomically; on a full disk what was there stays."""
    with atomic_path(path) as target:
        try:
            save_file(tensors, target, header)
        except SafetensorError as problem:  # its only cause here is the disk
            raise CheckpointError(
                f"Cannot write {path}: {problem}.", "Free some space and run the same command again: it goes on."
            ) from problem


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; a damaged or foreign file is a clear error."""
    if not path.is_file():
        raise CheckpointError(f"There is no checkpoint {path}.", "Train one: x2l train --data DATA --out RUN")
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError) as problem:
        raise CheckpointError(f"{path} is damaged.", "Take the run's other checkpoint, or train again.") from problem
    if header.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is not a checkpoint of this version.", "Import published weights with `x2l import`."
        )
    weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    moments = {name.removeprefix("optimizer."): t for name, t in tensors.items() if name.startswith("optimizer.")}
    if fingerprint_of(weights) != header["fingerprint"]:
        raise CheckpointError(f"{path} is damaged: its weights do not match its fingerprint.", "Train again.")
    settings = validate(TrainSettings, json.loads(header["config"]))
    return Checkpoint(weights, moments, settings, json.loads(header["state"]), header["fingerprint"])


def load_weights(model: Model, tensors: dict[str, Tensor]) -> None:
    """Put weights into a model, strictly: every key is used, every key is there, every shape fits."""
    own = model.state_dict()
    missing, unknown = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
    wrong = sorted(name for name in own.keys() & tensors.keys() if own[name].shape != tensors[name].shape)
    if missing or unknown or wrong:
        named = [f"{what} {', '.join(names[:4])}" for what, names in
                 (("missing", missing), ("unknown", unknown), ("of another shape", wrong)) if names]  # fmt: skip
        raise CheckpointError(
            f"The weights do not fit the model: {'; '.join(named)}.", "Use the config they came with."
        )
    model.load_state_dict(tensors)


def restore(checkpoint: Checkpoint) -> Model:
    """The model of a checkpoint, ready to encode."""
    model = Model(checkpoint.settings.model, pretrained=False)
    load_weights(model, checkpoint.tensors)
    return model.eval()


def load_start(model: Model, found: Checkpoint) -> None:
    """Start from another run's weights; stage 1 has not trained its adapters, so a model may have none, or new ones."""
    if found.settings.model.family != model.settings.family:
        raise CheckpointError(
            f"The checkpoint is of the family '{found.settings.model.family}', not '{model.settings.family}'.",
            "Set model.family to that of the checkpoint, or start from another one.",
        )
    tensors = found.tensors
    if found.state["stage"] == "image":
        own = {name: tensor for name, tensor in model.state_dict().items() if model.is_adapter(name)}
        tensors = {name: tensor for name, tensor in tensors.items() if not model.is_adapter(name)} | own
    load_weights(model, tensors)


def load_optimizer(optimizer: torch.optim.Optimizer, moments: dict[str, Tensor]) -> None:
    """Put an optimizer's moments back."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in moments.items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    whole = optimizer.state_dict()
    whole["state"] = state
    optimizer.load_state_dict(whole)
