"""The screening network of GAMa (Vyas et al., 2022): which region holds the video, by a ResNet-18 for each view.

A prefix is the mean of its pictures, a region is one picture. The original compares regions with the tiles that
GAMa-Net found for the clips; ours compares them with the frames themselves, so that it needs no map to encode a video.
"""

from __future__ import annotations

from typing import Literal, cast

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F
from torchvision.models import ResNet18_Weights

from x2localizer.config import Settings
from x2localizer.encoders.protocol import Capabilities
from x2localizer.learn.convolutions import ConvTower, mean_over_picture, mlp_head, resnet18
from x2localizer.learn.families import register_family
from x2localizer.learn.pictures import region_picture
from x2localizer.learn.pretrained import WeightOptions, load_backbone
from x2localizer.learn.towers import SetEmbedding, TowerPlan, whole_only


class ScreeningOptions(WeightOptions):
    """What ``model.options`` may hold; by default the sizes of the original."""

    width: int = Field(64, ge=16, multiple_of=16)
    """Channels of the first layer."""
    norm: Literal["batch", "group"] = "batch"
    """Over the batch, with the statistics of pretrained weights; or over groups of channels, to start from random."""


@register_family("screening")
class ScreeningTower(ConvTower):
    """A ResNet-18 with a projection head."""

    Options = ScreeningOptions
    capabilities = Capabilities(parts=("prefix", "region"), tokens=False, whole_regions=True)

    def __init__(self, plan: TowerPlan, options: Settings) -> None:
        super().__init__(plan, options)
        chosen = cast(ScreeningOptions, options)
        self.backbone = resnet18(chosen.width, chosen.norm)
        self.head = mlp_head(8 * chosen.width, plan.settings.dim)
        load_backbone(plan, chosen, self.backbone, ResNet18_Weights.DEFAULT.get_state_dict)

    def embed_sets(self, images: Tensor, *, adapt: bool = True) -> SetEmbedding:
        """Set codes without tokens: (b, s, 3, H, W) -> (b, d) and (b, 0, d)."""
        if self.grid:
            vector = mean_over_picture(self.backbone(region_picture(images)))
        else:
            b, s = images.shape[:2]
            vector = mean_over_picture(self.backbone(images.flatten(0, 1))).reshape(b, s, -1).mean(1)
        return whole_only(F.normalize(self.head(vector), dim=-1))
