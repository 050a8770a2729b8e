"""Convolutional backbones of torchvision and timm at any width, and what their norms do.

Networks with published weights keep their norms over the batch, with the statistics they came with: these differ
between processes and change in towers that are frozen, so they are never updated. Networks that start from random
weights have norms over groups of channels instead.
"""

from __future__ import annotations

from typing import Any, Literal

import timm
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torchvision.models.vgg import make_layers
from torchvision.models.video.resnet import BasicBlock, Conv3DSimple, VideoResNet

from x2localizer.learn.towers import Tower

Norm = Literal["batch", "group"]
VGG16 = (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512)
"""Channels of the layers of VGG16; M halves the size. The last halving is left out."""
TEN_LAYERS = 13
"""Entries of VGG16 for its first ten layers, which halve the size three times."""


class ConvTower(Tower):
    """A tower with convolutions: norms over the batch keep the statistics they were loaded with."""

    def arrange(self) -> None:
        """Lay weights of convolutions out as processors read them, channels last: the numbers stay the same."""
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        for parameter in self.parameters():
            if parameter.ndim in formats:
                parameter.data = parameter.data.contiguous(memory_format=formats[parameter.ndim])

    def train(self, mode: bool = True) -> ConvTower:
        """Switch to training or back, except for norms over the batch."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, _BatchNorm):
                module.eval()
        return self

    @staticmethod
    def is_hidden_matrix(name: str) -> bool:
        """Convolutions of the backbone, without the first one."""
        first = ("backbone.0.weight", "backbone.conv1.weight", "backbone.stem.0.weight")
        return name.startswith("backbone.") and name.endswith(".weight") and name not in first


def group_norm(channels: int) -> nn.GroupNorm:
    """A norm over groups of about 16 channels."""
    return nn.GroupNorm(max(1, channels // 16), channels)


def with_group_norms(module: nn.Module) -> nn.Module:
    """The same network with norms over groups instead of over the batch; changed in place."""
    for name, child in module.named_children():
        if isinstance(child, _BatchNorm):
            setattr(module, name, group_norm(child.num_features))
        else:
            with_group_norms(child)
    return module


def vgg(width: int, entries: int = len(VGG16)) -> nn.Sequential:
    """The first layers of VGG16, as torchvision builds them; ``width`` is 64 in the original.

    Narrower ones have norms over groups: without any they do not learn from random weights.
    """
    layers: list[Any] = [item if item == "M" else int(item) * width // 64 for item in VGG16[:entries]]
    if width == 64:
        plain: nn.Sequential = make_layers(layers)
        return plain
    network: nn.Sequential = make_layers(layers, batch_norm=True)
    with_group_norms(network)
    return network


def resnet18(width: int, norm: Norm) -> nn.Module:
    """ResNet-18 of timm as a feature map of 8 x ``width`` channels; ``width`` is 64 in the original."""
    channels = tuple(width * scale for scale in (1, 2, 4, 8))
    network: nn.Module = timm.create_model("resnet18", num_classes=0, global_pool="", channels=channels)
    return with_group_norms(network) if norm == "group" else network


class VideoResNet18(VideoResNet):  # type: ignore[misc]
    """3D ResNet-18 of torchvision as a vector of 8 x ``width`` numbers; ``width`` is 64 in the original."""

    def __init__(self, width: int, norm: Norm) -> None:
        self.width = width
        super().__init__(BasicBlock, [Conv3DSimple] * 4, [2, 2, 2, 2], lambda: _stem(width))
        self.fc = nn.Identity()
        if norm == "group":
            with_group_norms(self)

    def forward(self, clips: Tensor) -> Tensor:
        """(n, 3, k, H, W) -> (n, 8 width). On the CPU always in 32 bits.

        In 16 bits, gradients of narrow 3D convolutions (torch 2.15) depend on memory that was never written, and now
        and then are not finite.
        """
        if not torch.is_autocast_enabled("cpu"):
            vectors: Tensor = super().forward(clips)
            return vectors
        with torch.autocast("cpu", enabled=False):
            return self.forward(clips.float())

    def _make_layer(self, block: Any, conv_builder: Any, planes: int, *rest: Any, **more: Any) -> nn.Sequential:
        """A stage at our width: torchvision starts from 64 channels."""
        if planes == 64:
            self.inplanes = self.width
        layers: nn.Sequential = super()._make_layer(block, conv_builder, planes * self.width // 64, *rest, **more)
        return layers


def _stem(width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv3d(3, width, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(width), nn.ReLU(inplace=True)
    )


def mlp_head(channels: int, dim: int) -> nn.Sequential:
    """A hidden layer and a linear one, as the projection heads of contrastive learning are."""
    return nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, dim))


def mean_over_picture(features: Tensor) -> Tensor:
    """(n, c, h, w) -> (n, c)."""
    return features.mean((2, 3))
