"""Backbones: distilled vision transformers from timm, by name or by their sizes, for any input size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import timm
from timm.layers.pos_embed import resample_abs_pos_embed
from timm.models.deit import VisionTransformerDistilled
from torch import Tensor, nn

from x2localizer.config import BackboneSettings
from x2localizer.errors import CheckpointError, ConfigError
from x2localizer.learn.tensor_files import read_tensors


class ConvStem(nn.Module):
    """Patch embedding by a few small convolutions instead of one large one: small towers learn faster from it.

    The last convolution cuts the patches, so the grid is that of the plain patch embedding. Norms are over groups of
    channels, not over the batch, so that frozen towers and several processes need no special care.
    """

    def __init__(self, img_size: tuple[int, int], patch_size: int, in_chans: int, embed_dim: int, **_: Any) -> None:
        super().__init__()
        if patch_size % 4:
            raise ConfigError(
                f"A convolutional stem needs patches of a multiple of 4 pixels, not {patch_size}.",
                "Set model.backbone.patch to one, or model.backbone.stem=plain.",
            )
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
    """timm's patch embedding without its check of the size; rows and columns that fill no patch are dropped."""

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
                "Choose a distilled DeiT of timm, such as deit_small_distilled_patch16_224.",
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


def resample_positions(positions: Tensor, grid: tuple[int, int]) -> Tensor:
    """Position embeddings of a square grid (1, 2 + g g, width) for another grid; those of cls and dist are kept."""
    resampled: Tensor = resample_abs_pos_embed(positions, list(grid), num_prefix_tokens=2)
    return resampled
