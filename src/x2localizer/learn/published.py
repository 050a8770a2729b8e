"""Weights that others published, in their key layouts, as weights of our model.

| whose | ground and aerial tower | adapter |
|---|---|---|
| GAReT | ``query_net.*``, ``reference_net.*``, perhaps behind ``module.`` | with a skip in its down path |
| the paper's authors | ``encoder_a.*``, ``encoder_b.*``, perhaps with ``model.`` inside | without |

The two biases of the inverse adapter change names: in both public layouts ``D_inv_fcb1`` has the width of the backbone
and comes last, ``D_inv_fcb2`` has the hidden size and comes first. Ours are numbered in the order they are used.

Strict: every key is used, or named in the error.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

from torch import Tensor

from x2localizer.config import TrainSettings
from x2localizer.errors import CheckpointError
from x2localizer.learn.backbone import resample_positions
from x2localizer.learn.checkpoint import load_weights, save_checkpoint
from x2localizer.learn.families.deit import DeitTower
from x2localizer.learn.model import Model
from x2localizer.learn.tensor_files import read_tensors

TOWERS = {
    "GAReT": {"query_net": "ground", "reference_net": "aerial"},
    "authors": {"encoder_a": "ground", "encoder_b": "aerial"},
}
ADAPTER = re.compile(r"blocks\.(\d+)\.T_Adapter\.(.+)")
ADAPTER_NAMES = {
    "D_fc1.weight": "D_fc1.weight", "D_fc1.bias": "D_fc1.bias", "D_fc2.weight": "D_fc2.weight",
    "D_fc2.bias": "D_fc2.bias", "D_inv_fcb1": "D_inv_fcb2", "D_inv_fcb2": "D_inv_fcb1",
}  # fmt: skip
"""Our name of each tensor of a published adapter."""


def layout_of(tensors: dict[str, Tensor]) -> str:
    """Whose key layout this is."""
    for name, towers in TOWERS.items():
        if any(key.removeprefix("module.").split(".")[0] in towers for key in tensors):
            return name
    raise CheckpointError(
        f"These weights have an unknown layout; their first key is '{next(iter(sorted(tensors)), 'none')}'.",
        "Known are query_net.* / reference_net.* (GAReT) and encoder_a.* / encoder_b.* (the paper's authors).",
    )


def import_file(settings: TrainSettings, weights: Path, out: Path) -> tuple[str, str]:
    """Published weights as a checkpoint; gives their layout and the checkpoint's fingerprint."""
    model = Model(settings.model, pretrained=False)
    tensors = read_tensors(weights)
    layout = import_published(model, tensors)
    stage = "full" if any("T_Adapter" in key for key in tensors) else "image"
    fingerprint = save_checkpoint(out, model, settings, {"stage": stage, "imported": weights.name, "layout": layout})
    return layout, fingerprint


def import_published(model: Model, tensors: dict[str, Tensor]) -> str:
    """Put published weights into a model; gives their layout. Adapters may be missing (image-level weights)."""
    layout = layout_of(tensors)
    if not isinstance(model.ground, DeitTower):
        raise CheckpointError(
            f"These weights are of the family 'deit', not '{model.settings.family}'.", "Set model.family=deit."
        )
    if model.settings.adapter_skip != (layout == "GAReT") and any("T_Adapter" in key for key in tensors):
        raise CheckpointError(
            f"The adapters of these weights ({layout}) were made {'with' if layout == 'GAReT' else 'without'} a skip.",
            f"Set model.adapter_skip={'true' if layout == 'GAReT' else 'false'}.",
        )
    own = model.state_dict()
    ready: dict[str, Tensor] = {}
    unused: list[str] = []
    for key, tensor in tensors.items():
        name = _translate(key, TOWERS[layout])
        if name is None or name not in own:
            unused.append(key)
            continue
        ready[name] = _fit(name, tensor, own[name], model)
    if unused:
        raise CheckpointError(
            f"{len(unused)} keys of the weights have no place in the model: {', '.join(sorted(unused)[:4])}.",
            "Use the model config that the weights were made with.",
        )
    if not any(model.is_adapter(name) for name in ready):  # image-level weights: the adapters start untrained
        ready |= {name: value for name, value in own.items() if model.is_adapter(name)}
    load_weights(model, ready)
    return layout


def _translate(key: str, towers: dict[str, str]) -> str | None:
    """Our name of a published key."""
    parts = key.removeprefix("module.").split(".")
    tower = towers.get(parts[0])
    if tower is None:
        return None
    rest = ".".join(parts[2:] if len(parts) > 1 and parts[1] == "model" else parts[1:])
    if match := ADAPTER.fullmatch(rest):
        return f"{tower}.adapters.{match[1]}.{ADAPTER_NAMES[match[2]]}" if match[2] in ADAPTER_NAMES else None
    if rest == "temporal_embedding":
        return f"{tower}.instance_embedding"
    return f"{tower}.backbone.{rest}"


def _fit(name: str, tensor: Tensor, own: Tensor, model: Model) -> Tensor:
    """Shapes that differ by convention only: (1, s, c) instance embeddings, positions of another grid."""
    if name.endswith("instance_embedding"):
        return tensor.reshape(-1, tensor.shape[-1])
    if name.endswith("pos_embed") and tensor.shape != own.shape:
        tower = cast(DeitTower, model.ground if name.startswith("ground.") else model.aerial)
        patches = tensor.shape[1] - 2
        if int(patches**0.5) ** 2 == patches:
            return resample_positions(tensor, tower.backbone.patch_embed.grid_size)
    return tensor
