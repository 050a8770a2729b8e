"""Dynamic similarity matching (Shi et al., 2020): where am I looking at? Frames and tiles by VGG16.

Tiles are unrolled around their middle by the polar transform. Both views become maps of features a few rows high; a
frame's map is compared with the part of the tile's map that a camera would see in each heading, and the best heading
counts. So a tile has a code for each heading, which is that part of its map.
"""

from __future__ import annotations

from typing import cast

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models import VGG16_Weights

from x2localizer.config import Settings
from x2localizer.encoders.protocol import Capabilities
from x2localizer.errors import ConfigError
from x2localizer.learn.convolutions import TEN_LAYERS, ConvTower, vgg
from x2localizer.learn.families import register_family
from x2localizer.learn.polar import heading_columns, polar_grid, to_polar
from x2localizer.learn.pretrained import WeightOptions, load_backbone
from x2localizer.learn.towers import TowerPlan

STRIDE = 8
"""Pixels to a feature: the first ten layers of VGG16 halve the size three times."""
MARGIN = 4
"""Columns of features beyond a full circle on each side."""


class DsmOptions(WeightOptions):
    """What ``model.options`` may hold."""

    fov_deg: float = Field(65.0, gt=5, lt=180)
    """Horizontal field of view of the camera."""
    width: int = Field(64, ge=8)
    """Channels of the first layer of VGG16."""
    channels: int = Field(16, ge=1)
    """Channels of the maps that are compared."""
    rows: int = Field(4, ge=1)
    """Rows of these maps."""
    headings: int = Field(8, ge=2, le=64)
    """Headings that are tried."""


@register_family("dsm")
class DsmTower(ConvTower):
    """The first ten layers of VGG16, and three that reduce them to a map of few rows and channels."""

    Options = DsmOptions
    capabilities = Capabilities(parts=("frame", "tile"), tokens=False, headings=8)

    def __init__(self, plan: TowerPlan, options: Settings) -> None:
        super().__init__(plan, options)
        chosen, m = cast(DsmOptions, options), plan.settings
        view, high = m.frame_width // STRIDE, m.frame_height // STRIDE
        _check(chosen, m.dim, view, high)
        self.circle = round(view * 360 / chosen.fov_deg)
        self.backbone = vgg(chosen.width, TEN_LAYERS)
        wide, halvings = 8 * chosen.width, (high // chosen.rows).bit_length() - 1
        sizes = ((wide, wide // 2), (wide // 2, wide // 8), (wide // 8, chosen.channels))
        strides = [(2, 1) if i < halvings else (1, 1) for i in range(3)]
        convolutions = [nn.Conv2d(*size, 3, stride, 1) for size, stride in zip(sizes, strides, strict=True)]
        self.reduce = nn.Sequential(convolutions[0], nn.ReLU(), convolutions[1], nn.ReLU(), convolutions[2])
        self.grid_places: Tensor
        self.columns: Tensor
        if plan.grid:
            places = polar_grid(m.frame_height, STRIDE * self.circle, STRIDE * MARGIN)
            self.register_buffer("grid_places", places, persistent=False)
            columns = heading_columns(self.circle, view, chosen.headings)
            self.register_buffer("columns", columns, persistent=False)
        load_backbone(plan, chosen, self.backbone, VGG16_Weights.IMAGENET1K_FEATURES.get_state_dict, fit=vgg_features)

    @classmethod
    def capabilities_of(cls, options: Settings) -> Capabilities:
        """The number of headings is an option."""
        return Capabilities(("frame", "tile"), tokens=False, headings=cast(DsmOptions, options).headings)

    def embed_images(self, images: Tensor) -> Tensor:
        """Codes of frames: (n, 3, H, W) -> (n, d)."""
        features: Tensor = self.reduce(self.backbone(images))
        return features.flatten(1)

    def forward(self, images: Tensor) -> Tensor:
        """Codes of length 1: of frames (n, d), of tiles one for each heading (n, headings, d)."""
        if not self.grid:
            return F.normalize(self.embed_images(images), dim=-1)
        features = self.reduce(self.backbone(to_polar(images, self.grid_places)))
        circle = features[..., MARGIN : MARGIN + self.circle]  # (n, channels, rows, circle)
        seen = circle[..., self.columns].permute(0, 3, 1, 2, 4)  # (n, headings, channels, rows, view)
        return F.normalize(seen.flatten(2), dim=-1)


def _check(options: DsmOptions, dim: int, view: int, high: int) -> None:
    """A code is a map of features, so its length follows from the size of a frame."""
    if high % options.rows or (high // options.rows) not in (1, 2, 4, 8) or not view:
        raise ConfigError(
            f"Frames of {STRIDE * high} pixels cannot be reduced to {options.rows} rows of features.",
            f"Set model.frame_height to {STRIDE * options.rows} times 1, 2, 4 or 8.",
        )
    if dim != options.channels * options.rows * view:
        raise ConfigError(
            f"The code of a frame has {options.channels} channels, {options.rows} rows and {view} columns.",
            f"Set model.dim={options.channels * options.rows * view}.",
        )


def vgg_features(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights of VGG16's first ten layers, by their names in ``features``."""
    last = 23  # torchvision counts ReLUs and halvings as layers, too
    named = {name.removeprefix("features."): tensor for name, tensor in tensors.items() if name.startswith("features.")}
    return {name: torch.as_tensor(tensor) for name, tensor in named.items() if int(name.partition(".")[0]) < last}
