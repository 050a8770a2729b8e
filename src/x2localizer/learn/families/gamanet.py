"""GAMa-Net (Vyas et al., 2022): a 3D ResNet-18 for clips; for tiles a ResNet-18 and a transformer over its features.

Our datasets have a frame a second, so a clip is a frame that stands still for a moment.
"""

from __future__ import annotations

from typing import Literal, cast

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models import ResNet18_Weights
from torchvision.models.video import R3D_18_Weights

from x2localizer.config import Settings
from x2localizer.encoders.protocol import Capabilities
from x2localizer.learn.convolutions import ConvTower, VideoResNet18, mlp_head, resnet18
from x2localizer.learn.families import register_family
from x2localizer.learn.pretrained import WeightOptions, load_backbone
from x2localizer.learn.towers import TowerPlan

SIDE = 7
"""Features along the side of a tile, as in the original."""


class GamanetOptions(WeightOptions):
    """What ``model.options`` may hold; by default the sizes of the original."""

    width: int = Field(64, ge=16, multiple_of=16)
    """Channels of the first layer of both ResNets."""
    clip: int = Field(8, ge=1)
    """Frames of a clip."""
    norm: Literal["batch", "group"] = "batch"
    """Over the batch, with the statistics of pretrained weights; or over groups of channels, to start from random."""


@register_family("gamanet")
class GamanetTower(ConvTower):
    """A 3D ResNet-18 for frames, or a ResNet-18 with a transformer for tiles; both with a projection head."""

    Options = GamanetOptions
    capabilities = Capabilities(parts=("frame", "tile"), tokens=False)

    def __init__(self, plan: TowerPlan, options: Settings) -> None:
        super().__init__(plan, options)
        chosen = cast(GamanetOptions, options)
        wide = 8 * chosen.width
        self.backbone: nn.Module
        if plan.grid:
            self.backbone = resnet18(chosen.width, chosen.norm)
            layer = nn.TransformerEncoderLayer(wide, 4, wide, dropout=0.0, batch_first=True)
            self.mixer = nn.TransformerEncoder(layer, 2, nn.LayerNorm(wide), enable_nested_tensor=False)
            load_backbone(plan, chosen, self.backbone, ResNet18_Weights.DEFAULT.get_state_dict)
        else:
            self.backbone = VideoResNet18(chosen.width, chosen.norm)
            load_backbone(plan, chosen, self.backbone, R3D_18_Weights.DEFAULT.get_state_dict)
        self.head = mlp_head(wide, plan.settings.dim)

    def embed_images(self, images: Tensor) -> Tensor:
        """Codes of frames or tiles: (n, 3, H, W) -> (n, d)."""
        if self.grid:
            features = F.adaptive_avg_pool2d(self.backbone(images), SIDE).flatten(2).transpose(1, 2)
            vector = self.mixer(features).mean(1)
        else:
            clip = cast(GamanetOptions, self.options).clip
            vector = self.backbone(images[:, :, None].expand(-1, -1, clip, -1, -1))
        codes: Tensor = self.head(vector)
        return codes
