"""Backbones: distilled vision transformers from timm, by name or by their sizes, for any input size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import timm
import torch
from timm.layers.pos_embed import resample_abs_pos_embed
from timm.models.deit import VisionTransformerDistilled
from torch import Tensor, nn
from torch.nn import functional as F

from x2localizer.config import BackboneSettings, ModelSettings
from x2localizer.errors import CheckpointError, ConfigError
from x2localizer.learn.stems import STEMS, LiteStem, PlainStem, load_lite
from x2localizer.learn.tensor_files import read_tensors

LAST_LAYERS = ("attn.proj.", "mlp.fc2.")
"""Of a block: what they make is added to what went in."""


def build_backbone(
    settings: BackboneSettings, size: tuple[int, int], dim: int, *, pretrained: bool = True
) -> VisionTransformerDistilled:
    """A distilled ViT for images of (height, width) with heads of ``dim`` outputs.

    ``pretrained=False`` ignores ``settings.weights``, for a model whose weights are all loaded next.
    """
    sizes = {"patch": settings.patch, "width": settings.width, "depth": settings.depth, "heads": settings.heads}
    if settings.name is not None:
        reference: Any = timm.create_model(settings.name, pretrained=False)
        if not isinstance(reference, VisionTransformerDistilled):
            raise CheckpointError(
                f"The backbone '{settings.name}' has no distillation token.",
                "Choose a distilled DeiT of timm, such as deit_small_distilled_patch16_224.",
            )
        sizes = _sizes(reference)
    stem = STEMS[settings.stem] if settings.name is None else PlainStem
    distilled: Any = VisionTransformerDistilled
    model: VisionTransformerDistilled = distilled(
        img_size=size, patch_size=sizes["patch"], embed_dim=sizes["width"], depth=sizes["depth"],
        num_heads=sizes["heads"], num_classes=dim, embed_layer=stem, drop_path_rate=0.0,
    )  # fmt: skip
    if settings.name is None:
        _widen(model)
    if pretrained and settings.weights is not None:
        load_pretrained(model, _read_weights(settings))
    if pretrained and settings.stem_weights is not None:
        if not isinstance(model.patch_embed, LiteStem):
            raise ConfigError(
                "Only the stem efficientnet_lite0 has weights of its own.", "Set model.backbone.stem to it."
            )
        load_lite(model.patch_embed, Path(settings.stem_weights))
    return model


def _widen(model: nn.Module) -> None:
    """Initialise a small transformer with larger weights: timm's deviation of 0.02 suits wide ones."""
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear) and (name.startswith("blocks.") or name in ("head", "head_dist")):
            nn.init.xavier_uniform_(layer.weight)


def _sizes(model: Any) -> dict[str, int]:
    """The sizes of one of timm's models."""
    return {
        "patch": model.patch_embed.patch_size[0],
        "width": model.embed_dim,
        "depth": len(model.blocks),
        "heads": model.blocks[0].attn.num_heads,
    }


def _read_weights(settings: BackboneSettings) -> dict[str, Tensor]:
    """Weights from timm's hub (``hub``) or from a local file."""
    if settings.weights == "hub":
        try:
            return dict(timm.create_model(settings.name or "", pretrained=True).state_dict())
        except Exception as problem:
            raise CheckpointError(
                f"The pretrained weights of '{settings.name}' cannot be downloaded ({type(problem).__name__}).",
                "Check the network, or set model.backbone.weights to a file that you downloaded.",
            ) from problem
    return read_tensors(Path(settings.weights or ""))


def load_pretrained(model: Any, tensors: dict[str, Tensor]) -> None:
    """Put pretrained weights into a backbone. Positions are resampled; heads of another size keep their weights."""
    own = model.state_dict()
    ready = {name: tensor for name, tensor in tensors.items() if not name.startswith(("head.", "head_dist."))}
    for name in ("head.weight", "head.bias", "head_dist.weight", "head_dist.bias"):
        same = name in tensors and tensors[name].shape == own[name].shape
        ready[name] = tensors[name] if same else own[name]
    if "pos_embed" in ready:
        ready["pos_embed"] = resample_positions(ready["pos_embed"], model.patch_embed.grid_size)
    missing, unknown = sorted(own.keys() - ready.keys()), sorted(ready.keys() - own.keys())
    wrong = [name for name in own.keys() & ready.keys() if own[name].shape != ready[name].shape]
    if missing or unknown or wrong:
        raise CheckpointError(
            f"The weights do not fit the backbone: missing {missing[:3]}, unknown {unknown[:3]}, "
            f"of another shape {sorted(wrong)[:3]}.",
            "Use weights of the same backbone.",
        )
    model.load_state_dict(ready)


def with_other_patches(tensors: dict[str, Tensor], old: ModelSettings, new: ModelSettings) -> dict[str, Tensor]:
    """Weights of towers for patches of another size: kernels that cut patches and positions are resampled.

    A kernel sums over its pixels, so a smaller one has larger weights: a patch of one colour keeps its token.
    """
    ready = dict(tensors)
    for tower, tiles in (("ground", False), ("aerial", True)):
        at, was, will = f"{tower}.backbone.", old.backbone.patch_of(tiles=tiles), new.backbone.patch_of(tiles=tiles)
        if was == will:
            continue
        for name in (f"{at}patch_embed.proj.{layer}weight" for layer in ("", "6.")):
            if name in tensors:
                side = tensors[name].shape[-1] * will // was
                ready[name] = F.interpolate(tensors[name], (side, side), mode="area") * (was / will) ** 2
        if f"{at}pos_embed" in tensors:
            ready[f"{at}pos_embed"] = resample_abs_pos_embed(
                tensors[f"{at}pos_embed"], _grid(new, tiles), _grid(old, tiles), num_prefix_tokens=2
            )
    return ready


def with_more_blocks(tensors: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights of towers for deeper ones: blocks that they lack are added after theirs, and change nothing yet.

    own: the weights that the deeper towers were built with.
    """
    added = {}
    for name, tensor in own.items():
        tower, inside, rest = name.partition(".backbone.blocks.")
        if inside and not any(known.startswith(f"{tower}{inside}{rest.split('.')[0]}.") for known in tensors):
            added[name] = torch.zeros_like(tensor) if rest.split(".", 1)[1].startswith(LAST_LAYERS) else tensor
    return {**tensors, **added}


def _grid(settings: ModelSettings, tiles: bool) -> list[int]:
    """Rows and columns of the patches of a tile, or of a frame."""
    sides = (settings.tile_px, settings.tile_px) if tiles else (settings.frame_height, settings.frame_width)
    return [side // settings.backbone.patch_of(tiles=tiles) for side in sides]


def resample_positions(positions: Tensor, grid: tuple[int, int]) -> Tensor:
    """Position embeddings of a square grid (1, 2 + g g, width) for another grid; those of cls and dist are kept."""
    resampled: Tensor = resample_abs_pos_embed(positions, list(grid), num_prefix_tokens=2)
    return resampled
