"""From a checkpoint to a bundle: ONNX graphs that share their numbers, checked against torch."""

from __future__ import annotations

import json
import logging
import shutil
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from torch import Tensor, nn

from x2localizer.config import ModelSettings
from x2localizer.datasets.dataset import open_dataset
from x2localizer.encoders.bundle import FORMAT, Bundle, files_fingerprint, open_bundle
from x2localizer.encoders.device import CPU
from x2localizer.encoders.protocol import IMAGE_PARTS, Part
from x2localizer.errors import CheckpointError
from x2localizer.files import write_text
from x2localizer.learn.augment import MEAN, STD
from x2localizer.learn.batches import Videos
from x2localizer.learn.bundle_weights import place_weights
from x2localizer.learn.checkpoint import Checkpoint, restore
from x2localizer.learn.graph_files import SharedWeights, new_bundle, write_graph
from x2localizer.learn.model import Model
from x2localizer.learn.towers import Tower

TOLERANCE = 1e-4
"""Largest difference from torch that an exported graph may have."""


class _Pictures(nn.Module):
    """RGB bytes as input of a tower: (..., H, W, 3) -> (..., 3, H, W)."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Buffer(MEAN.clone(), persistent=False)
        self.spread = nn.Buffer(1.0 / STD, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = (images.movedim(-1, -3).float() - self.mean) * self.spread
        return out


class _ImageGraph(nn.Module):
    def __init__(self, tower: Tower) -> None:
        super().__init__()
        self.pictures, self.tower = _Pictures(), tower

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.tower(self.pictures(images))
        return out


class _SetGraph(nn.Module):
    def __init__(self, tower: Tower) -> None:
        super().__init__()
        self.pictures, self.tower = _Pictures(), tower

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        out = self.tower.embed_sets(self.pictures(images))
        return (out.whole, out.tokens) if self.tower.capabilities.tokens else (out.whole,)


class _PosedGraph(nn.Module):
    def __init__(self, tower: Tower) -> None:
        super().__init__()
        self.pictures, self.tower = _Pictures(), tower

    def forward(self, images: Tensor, poses: Tensor) -> tuple[Tensor, ...]:
        return (self.tower.embed_posed(self.pictures(images), poses).whole,)


def graph_of(model: Model, name: Part) -> nn.Module:
    """The module that a graph is exported from."""
    tower = model.ground if name in ("frame", "prefix") else model.aerial
    if name == "prefix" and model.capabilities.poses:
        return _PosedGraph(tower).eval()
    return (_ImageGraph(tower) if name in IMAGE_PARTS else _SetGraph(tower)).eval()


def pictures_for(settings: ModelSettings, data: Path) -> dict[str, npt.NDArray[np.uint8]]:
    """Pictures of a dataset for each graph: three videos and regions, and their first frames and tiles."""
    source = open_dataset(data)
    split = next((name for name in ("test", "val", "train") if source.videos(name)), "train")
    videos = Videos(source, split, settings)
    some = range(min(3, len(videos.videos)))
    prefixes = np.stack([videos.frames(i, settings.frames) for i in some])
    regions = np.stack([videos.tiles(int(videos.region_of[i])) for i in some])
    return {"frame": prefixes[:, 0], "prefix": prefixes, "tile": regions[:, 0], "region": regions}


def export_bundle(
    checkpoint: Checkpoint,
    out: Path,
    pictures: dict[str, npt.NDArray[np.uint8]] | None = None,
    card: Path | None = None,
    parts: tuple[Part, ...] | None = None,
    merge: int = 0,
) -> tuple[Bundle, dict[str, float]]:
    """The bundle of a checkpoint, and each graph's largest difference from torch.

    out: the folder of the bundle. It is written elsewhere, checked, and then moved there as a whole.
    pictures: what the graphs are checked on, by part; without them, noise.
    card: a model card (Markdown) to put into the bundle.
    parts: which of the model's parts to export; all by default.
    merge: patches to merge in every block, for faster image codes; see :mod:`x2localizer.learn.token_merging`.
    """
    model = restore(checkpoint)
    for tower in (model.ground, model.aerial):
        tower.set_merging(merge)
    able = replace(model.capabilities, parts=parts or model.capabilities.parts)
    with new_bundle(out) as work:
        shared = SharedWeights()
        for name in able.parts:
            write_graph(_to_onnx(model, name), work / f"{name}.onnx", shared)
        weights = place_weights(model, shared)
        (work / "weights.bin").write_bytes(bytes(shared.data))
        manifest = {
            "format": FORMAT,
            "model": checkpoint.settings.model.model_dump(mode="json"),
            "capabilities": asdict(able),
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "config": checkpoint.settings.model_dump(mode="json"),
            "training": {"checkpoint": checkpoint.fingerprint, **checkpoint.state},
            "fingerprint": files_fingerprint(work, able.parts),
            "weights": weights,
            **({"merged_tokens": merge} if merge else {}),
        }
        write_text(work / "bundle.json", json.dumps(manifest, indent=2) + "\n")
        if card is not None:
            shutil.copyfile(card, work / "README.md")
        differences = check_bundle(open_bundle(work, device=CPU), model, pictures)
    return open_bundle(out), differences


def _lengths(model: Model, name: Part) -> tuple[int, int]:
    """Number of pictures in the shortest and in the longest set."""
    if name == "prefix":
        return model.capabilities.shortest_prefix, model.settings.frames
    most = model.settings.region_tiles**2
    return (most if model.capabilities.whole_regions else 1), most


def _example(model: Model, name: Part, b: int, s: int, seed: int = 0) -> Tensor:
    """Noise for a graph: b pictures, or b sets of about s pictures."""
    settings = model.settings
    size = (settings.frame_height, settings.frame_width) if name in ("frame", "prefix") else (settings.tile_px,) * 2
    least, most = _lengths(model, name)
    lead = (b,) if name in IMAGE_PARTS else (b, max(least, min(s, most)))
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (*lead, *size, 3), generator=generator, dtype=torch.uint8)


def _inputs(model: Model, name: Part, images: Tensor) -> dict[str, Tensor]:
    """The inputs of a graph by name: pictures and, where it needs them, the poses of a camera that drives in a bend."""
    if name != "prefix" or not model.capabilities.poses:
        return {"images": images}
    step = torch.arange(images.shape[1], dtype=torch.float32)
    poses = torch.stack([0.5 * step**2, 20.0 * step, 0.1 * step], -1)
    return {"images": images, "poses": poses.expand(images.shape[0], -1, -1).contiguous()}


def _to_onnx(model: Model, name: Part) -> onnx.ModelProto:
    """One graph, for any number of pictures or sets, and for sets of any length."""
    least, most = _lengths(model, name)
    free: dict[int, Any] = {0: torch.export.Dim("batch", min=1, max=1 << 16)}
    if name not in IMAGE_PARTS and least < most:
        free[1] = torch.export.Dim("instances", min=least, max=most)
    sets = ["whole", "tokens"] if model.capabilities.tokens else ["whole"]
    outputs = ["code"] if name in IMAGE_PARTS else sets
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = _inputs(model, name, _example(model, name, 2, 3))
        program = torch.onnx.export(
            graph_of(model, name), tuple(inputs.values()), dynamo=True, verbose=False,
            dynamic_shapes=dict.fromkeys(inputs, free), input_names=list(inputs), output_names=outputs,
        )  # fmt: skip
    assert program is not None
    proto: onnx.ModelProto = program.model_proto
    sizes = proto.graph.input[0].type.tensor_type.shape.dim
    if any(not sizes[axis].dim_param for axis in free):
        raise CheckpointError(
            f"The exported graph '{name}' takes sets and batches of one size only.",
            "In the forward pass of the family, use images.shape[0] instead of len(images).",
        )
    return proto


@torch.no_grad()
def check_bundle(
    bundle: Bundle, model: Model, images: dict[str, npt.NDArray[np.uint8]] | None = None
) -> dict[str, float]:
    """Largest difference of each graph from torch, on pictures or on noise. A large one is an error."""
    encoders: dict[str, Any] = {
        "frame": bundle.encode_frames, "tile": bundle.encode_tiles,
        "prefix": bundle.encode_posed_prefixes if bundle.spec.poses else bundle.encode_prefixes,
        "region": bundle.encode_regions,
    }  # fmt: skip
    differences: dict[str, float] = {}
    for name in bundle.spec.parts:
        example = torch.from_numpy(images[name]) if images else _example(model, name, 3, 4, seed=1)
        inputs = _inputs(model, name, example)
        expected = graph_of(model, name)(*inputs.values())
        codes = encoders[name](*(value.numpy() for value in inputs.values()))
        if name in IMAGE_PARTS:
            pairs = [(expected, codes)]
        else:
            pairs = list(zip(expected, (codes.whole, codes.tokens), strict=False))  # tokens may be missing
        differences[name] = max(float(np.abs(torch_codes.numpy() - own).max()) for torch_codes, own in pairs)
        if not differences[name] <= TOLERANCE:
            raise CheckpointError(
                f"The exported graph '{name}' differs from torch by {differences[name]:.2g}.", "Report this as a bug."
            )
    return differences
