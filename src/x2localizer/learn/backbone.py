"""Backbones: distilled vision transformers from timm, by name or by size, for any input size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import timm
from timm.layers.pos_embed import resample_abs_pos_embed
from timm.models.deit import VisionTransformerDistilled
from torch import Tensor, nn

from x2localizer.config import BackboneSettings
from x2localizer.errors import CheckpointError
from x2localizer.learn.tensor_files import read_tensors


class ConvStem(nn.Module):
    """Patches through a few small convolutions instead of one large one: small towers learn faster from it.

    The patches are cut by the last convolution, so the grid is that of the plain patch embedding. Norms are over groups
    of channels, not over the batch: a frozen tower and many processes then need no special care.
    """

    def __init__(self, img_size: tuple[int, int], patch_size: int, in_chans: int, embed_dim: int, **_: Any) -> None:
        super().__init__()
        if patch_size % 4:
            raise ValueError("a convolutional stem needs patches of a multiple of 4 pixels")
        self.patch_size = (patch_size, patch_size)
        self.grid_size = (img_size[0] // patch_size, img_size[1] // patch_size)
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.proj = nn.Sequential(
            nn.Conv2d(in_chans, 32, 3, 2, 1), nn.GroupNorm(4, 32), nn.GELU(),
            nn.Conv2d(32, 64, 3, 2, 1), nn.GroupNorm(4, 64), nn.GELU(),
            nn.Conv2d(64, embed_dim, patch_size // 4, patch_size // 4),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        """(b, 3, H, W) -> (b, patches, width)."""
        rows, columns = self.grid_size
        p = self.patch_size[0]
        cut = images[:, :, : rows * p, : columns * p]
        out: Tensor = self.proj(cut).flatten(2).transpose(1, 2)
        return out


class PlainStem(nn.Module):
    """timm's patch embedding without its check of the size: rows that do not fill a patch are dropped."""

    def __init__(self, img_size: tuple[int, int], patch_size: int, in_chans: int, embed_dim: int, **_: Any) -> None:
        super().__init__()
        self.patch_size = (patch_size, patch_size)
        self.grid_size = (img_size[0] // patch_size, img_size[1] // patch_size)
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.proj = nn.Conv2d(in_chans, embed_dim, patch_size, patch_size)

    def forward(self, images: Tensor) -> Tensor:
        """(b, 3, H, W) -> (b, patches, width)."""
        out: Tensor = self.proj(images).flatten(2).transpose(1, 2)
        return out


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
                "Choose one of timm's distilled DeiT models, such as deit_small_distilled_patch16_224.",
            )
        sizes = _sizes(reference)
    stem = ConvStem if settings.stem == "conv" and settings.name is None else PlainStem
    distilled: Any = VisionTransformerDistilled
    model: VisionTransformerDistilled = distilled(
        img_size=size, patch_size=sizes["patch"], embed_dim=sizes["width"], depth=sizes["depth"],
        num_heads=sizes["heads"], num_classes=dim, embed_layer=stem, drop_path_rate=0.0,
    )  # fmt: skip
    if settings.name is None:
        _widen(model)
    if pretrained and settings.weights is not None:
        load_pretrained(model, _read_weights(settings))
    return model


def _widen(model: nn.Module) -> None:
    """Start a small transformer with larger weights: timm's spread of 0.02 is made for wide ones."""
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
                f"The pretrained weights of '{settings.name}' cannot be fetched ({type(problem).__name__}).",
                "Check the network, or download them and set backbone.weights to the file.",
            ) from problem
    return read_tensors(Path(settings.weights or ""))


def load_pretrained(model: Any, tensors: dict[str, Tensor]) -> None:
    """Put pretrained weights into a backbone; positions are resampled, heads of another size stay untrained."""
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


def resample_positions(positions: Tensor, grid: tuple[int, int]) -> Tensor:
    """Position embeddings (1, 2 + g g, width) of a square grid for another grid; the cls and dist rows are kept."""
    resampled: Tensor = resample_abs_pos_embed(positions, list(grid), num_prefix_tokens=2)
    return resampled
