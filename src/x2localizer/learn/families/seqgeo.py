"""SeqGeo (Zhang et al., 2023): the features of frames are fused by a transformer; one place for a sequence.

VGG16 for both views, pooled by masks that are learned from the features themselves ("spatial-aware" pooling, Shi et
al., 2019). A region is one picture.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models import VGG16_Weights

from x2localizer.config import Settings
from x2localizer.encoders.protocol import Capabilities
from x2localizer.learn.convolutions import ConvTower, vgg
from x2localizer.learn.families import register_family
from x2localizer.learn.pictures import region_picture
from x2localizer.learn.pretrained import WeightOptions, load_backbone
from x2localizer.learn.towers import SetEmbedding, TowerPlan, whole_only

STRIDE = 16
"""Pixels to a feature of VGG16 without its last halving."""


class SeqgeoOptions(WeightOptions):
    """What ``model.options`` may hold; by default the sizes of the original."""

    width: int = Field(64, ge=8)
    """Channels of the first layer of VGG16."""
    masks: int = Field(8, ge=1)
    """Masks that features are pooled by."""
    layers: int = Field(6, ge=1)
    """Layers of the transformer over frames."""
    heads: int = Field(8, ge=1)


@register_family("seqgeo")
class SeqgeoTower(ConvTower):
    """VGG16, spatial-aware pooling and, for frames, a transformer over time."""

    Options = SeqgeoOptions
    capabilities = Capabilities(parts=("prefix", "region"), tokens=False, whole_regions=True)

    def __init__(self, plan: TowerPlan, options: Settings) -> None:
        super().__init__(plan, options)
        chosen, m = cast(SeqgeoOptions, options), plan.settings
        self.backbone = vgg(chosen.width)
        side = m.tile_px * m.region_tiles
        height, width = (side, side) if plan.grid else plan.size
        self.places = (height // STRIDE, width // STRIDE)
        self.pool = MaskPool(self.places[0] * self.places[1], chosen.masks)
        self.head = nn.Linear(8 * chosen.width * chosen.masks, m.dim)
        if not plan.grid:
            layer = nn.TransformerEncoderLayer(
                m.dim, chosen.heads, 2 * m.dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            self.fuse = nn.TransformerEncoder(layer, chosen.layers, enable_nested_tensor=False)
            self.times = nn.Parameter(0.02 * torch.randn(plan.instances, m.dim))
        load_backbone(plan, chosen, self.backbone, VGG16_Weights.IMAGENET1K_FEATURES.get_state_dict, fit=_features)

    def embed_sets(self, images: Tensor, *, adapt: bool = True) -> SetEmbedding:
        """Set codes without tokens: (b, s, 3, H, W) -> (b, d) and (b, 0, d)."""
        b, s = images.shape[:2]
        features = self.backbone(region_picture(images) if self.grid else images.flatten(0, 1))
        if features.shape[2:] != self.places:  # a single tile, stretched to the size of a region
            features = F.interpolate(features, self.places)
        vectors: Tensor = self.head(self.pool(features))
        if not self.grid:
            vectors = self.fuse(vectors.reshape(b, s, -1) + self.times[:s]).mean(1)
        return whole_only(F.normalize(vectors, dim=-1))


class MaskPool(nn.Module):
    """Sums of features by masks, which two layers make of the largest channel at each place."""

    def __init__(self, places: int, masks: int) -> None:
        super().__init__()
        hidden = max(1, places // 2)
        self.first = nn.Parameter(0.1 * torch.randn(masks, places, hidden) / places**0.5)
        self.second = nn.Parameter(0.1 * torch.randn(masks, hidden, places) / hidden**0.5)
        self.bias = nn.Parameter(torch.full((masks, 1, places), 1.0 / places))

    def forward(self, features: Tensor) -> Tensor:
        """(n, c, h, w) -> (n, c masks)."""
        flat = features.flatten(2)  # (n, c, places)
        largest = flat.amax(1)  # (n, places)
        masks = (largest @ self.first) @ self.second + self.bias  # (masks, n, places)
        pooled: Any = flat @ masks.permute(1, 2, 0)  # (n, c, masks)
        summed: Tensor = pooled.flatten(1)
        return summed


def _features(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights of VGG16's layers, by their names in ``features``."""
    return {name.removeprefix("features."): tensor for name, tensor in tensors.items() if name.startswith("features.")}
