"""A bundle as a start for training: its numbers by the names they have in a checkpoint.

Graphs hold the weights of a model under names of the exporter, some of them transposed. So a bundle also says where in
``weights.bin`` each weight of the model lies; what graphs do not hold as it is gets a place of its own there.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from x2localizer.config import TrainSettings, validate
from x2localizer.encoders.bundle import bundle_folder, open_bundle
from x2localizer.errors import CheckpointError
from x2localizer.learn.checkpoint import Checkpoint, fingerprint_of, load_checkpoint
from x2localizer.learn.graph_files import SharedWeights
from x2localizer.learn.model import Model

Place = tuple[int, bool]
"""Where a weight begins in ``weights.bin``, in bytes, and whether it is transposed there."""


def place_weights(model: Model, shared: SharedWeights) -> dict[str, Place]:
    """Where each weight of a model lies; those that no graph holds are added."""
    found: dict[str, Place] = {}
    for name, tensor in model.state_dict().items():
        values = tensor.detach().cpu().numpy()
        turned = np.ascontiguousarray(values.T).tobytes()
        if values.ndim == 2 and values.tobytes() not in shared.places and turned in shared.places:
            found[name] = shared.places[turned], True
        else:
            found[name] = shared.place(np.ascontiguousarray(values).tobytes()), False
    return found


def load_origin(start: Path) -> Checkpoint:
    """A checkpoint to start from: of a file, of a bundle's folder, or of a shipped bundle by its name."""
    folder = bundle_folder(start)
    return load_checkpoint(start) if folder is None else checkpoint_of(folder)


def checkpoint_of(root: Path) -> Checkpoint:
    """The checkpoint that a bundle was exported from."""
    open_bundle(root)  # a damaged one is refused
    manifest = json.loads((root / "bundle.json").read_text(encoding="utf-8"))
    if "source" in manifest:
        raise CheckpointError(
            f"The bundle {root} does not hold all weights: it was made from the bundle {manifest['source']}.",
            "Start from that bundle, or from a checkpoint.",
        )
    if "weights" not in manifest:
        raise CheckpointError(
            f"The bundle {root} does not say where its weights are: an older version exported it.",
            "Start from a checkpoint, or export the bundle again.",
        )
    settings = validate(TrainSettings, manifest["config"])
    data = (root / "weights.bin").read_bytes()
    tensors: dict[str, Tensor] = {}
    try:
        for name, tensor in Model(settings.model, pretrained=False).state_dict().items():
            offset, turned = manifest["weights"][name]
            kind = tensor.numpy().dtype
            values = np.frombuffer(data, kind, tensor.numel(), int(offset))
            shape = tuple(tensor.shape)
            values = values.reshape(shape[::-1]).T if turned else values.reshape(shape)
            tensors[name] = torch.from_numpy(np.array(values, order="C"))
    except (KeyError, ValueError, TypeError) as problem:
        raise CheckpointError(f"The bundle {root} is damaged.", "Export it again.") from problem
    fingerprint = fingerprint_of(tensors)
    if fingerprint != manifest["training"].get("checkpoint"):
        raise CheckpointError(f"The weights of the bundle {root} are not those it names.", "Export it again.")
    return Checkpoint(tensors, {}, settings, manifest["training"], fingerprint)
