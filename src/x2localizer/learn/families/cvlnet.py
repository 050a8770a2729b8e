"""CVLNet (Shi et al., 2022): ground features are projected to the overhead view by camera geometry and fused over time.

VGG16 for both views. The cameras of a prefix stand to each other as their relative poses say; the intrinsics are one
camera for the whole model, an option. The map that they see together, turned as the first camera looks, is compared
with the region as one picture.
"""

from __future__ import annotations

from typing import cast

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models import VGG16_Weights

from x2localizer.config import Settings
from x2localizer.encoders.protocol import Capabilities
from x2localizer.learn.convolutions import TEN_LAYERS, ConvTower, mean_over_picture, vgg
from x2localizer.learn.families import register_family
from x2localizer.learn.families.dsm import vgg_features
from x2localizer.learn.overhead import centred, fuse, image_places, map_places, project, to_cameras
from x2localizer.learn.pictures import region_picture
from x2localizer.learn.pretrained import WeightOptions, load_backbone
from x2localizer.learn.towers import SetEmbedding, TowerPlan, whole_only

SIDE = 8
"""Cells along the side of the map that a code is made of."""


class CvlnetOptions(WeightOptions):
    """What ``model.options`` may hold."""

    fov_deg: float = Field(65.0, gt=5, lt=170)
    """Horizontal field of view of the camera."""
    camera_m: float = Field(1.5, gt=0)
    """Height of the camera above the ground."""
    cells: int = Field(56, ge=8, multiple_of=8)
    """Cells along the side of the overhead map."""
    cell_m: float = Field(8.0, gt=0)
    """Side of a cell in metres: 56 cells of 8 m cover what a drive of 40 s sees."""
    width: int = Field(64, ge=8)
    """Channels of the first layer of VGG16."""
    channels: int = Field(16, ge=1)
    """Channels of the maps."""


@register_family("cvlnet")
class CvlnetTower(ConvTower):
    """The first ten layers of VGG16, two that reduce them, and for frames the way to the overhead map."""

    Options = CvlnetOptions
    capabilities = Capabilities(parts=("prefix", "region"), tokens=False, whole_regions=True, poses=True)

    def __init__(self, plan: TowerPlan, options: Settings) -> None:
        super().__init__(plan, options)
        chosen = cast(CvlnetOptions, options)
        wide, c = 8 * chosen.width, chosen.channels
        self.backbone = vgg(chosen.width, TEN_LAYERS)
        self.reduce = nn.Sequential(nn.Conv2d(wide, wide // 4, 3, 1, 1), nn.ReLU(), nn.Conv2d(wide // 4, c, 3, 1, 1))
        self.head = nn.Linear(c * SIDE * SIDE, plan.settings.dim)
        if not plan.grid:
            self.says = nn.Conv2d(c, 1, 3, 1, 1)
            self.places: Tensor
            self.register_buffer("places", map_places(chosen.cells, chosen.cell_m), persistent=False)
        load_backbone(plan, chosen, self.backbone, VGG16_Weights.IMAGENET1K_FEATURES.get_state_dict, fit=vgg_features)

    def embed_sets(self, images: Tensor, *, adapt: bool = True) -> SetEmbedding:
        """Set codes of regions without tokens: (b, n n, 3, t, t) -> (b, d) and (b, 0, d)."""
        return self._code(self.reduce(self.backbone(region_picture(images))))

    def embed_images(self, images: Tensor) -> Tensor:
        """Means of the features of single pictures, to train the backbone with: (n, 3, H, W) -> (n, 8 width)."""
        vector = mean_over_picture(self.backbone(images))
        return vector - vector.mean(-1, keepdim=True)

    def embed_posed(self, frames: Tensor, poses: Tensor) -> SetEmbedding:
        """Set codes of prefixes without tokens: (b, s, 3, H, W) and poses (b, s, 3) -> (b, d) and (b, 0, d)."""
        return self._code(self._overhead(frames, poses))

    def _code(self, seen: Tensor) -> SetEmbedding:
        vector = F.adaptive_avg_pool2d(seen, SIDE).flatten(1)
        return whole_only(F.normalize(self.head(vector), dim=-1))

    def _overhead(self, frames: Tensor, poses: Tensor) -> Tensor:
        """The map that all frames see together: (b, s, 3, H, W) and (b, s, 3) -> (b, c, m, m)."""
        b, s = frames.shape[:2]
        features = self.reduce(self.backbone(frames.flatten(0, 1))).unflatten(0, (b, s))
        chosen = cast(CvlnetOptions, self.options)
        ground = to_cameras(self.places, centred(poses.to(frames.dtype)))
        picture, seen = image_places(ground, chosen.fov_deg, self.size[1] / self.size[0], chosen.camera_m)
        maps = project(features, picture, seen)
        scores = self.says(maps.flatten(0, 1)).squeeze(1).unflatten(0, (b, s))
        return fuse(maps, scores, seen)
