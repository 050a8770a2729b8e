"""Video Swin (Liu et al., 2022) for prefixes and Swin (Liu et al., 2021) for regions, both of torchvision.

A prefix is one clip of a fixed number of frames; a shorter one is stretched to it by repeating frames. A region is one
picture, put together from its tiles.
"""

from __future__ import annotations

from typing import cast

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F
from torchvision.models.swin_transformer import Swin_B_Weights, SwinTransformer
from torchvision.models.video.swin_transformer import Swin3D_B_Weights, SwinTransformer3d

from x2localizer.config import Settings
from x2localizer.encoders.protocol import Capabilities
from x2localizer.learn.families import register_family
from x2localizer.learn.pictures import region_picture, stretch
from x2localizer.learn.pretrained import WeightOptions, load_backbone
from x2localizer.learn.towers import SetEmbedding, Tower, TowerPlan, whole_only


class VideoswinOptions(WeightOptions):
    """What ``model.options`` may hold; by default Swin-B."""

    patch: int = Field(4, ge=2)
    """Side of a patch in pixels. A patch of a clip is 2 frames long."""
    window: int = Field(7, ge=2)
    """Side of the windows of attention, in patches. In a clip they are 8 patches long."""
    width: int = Field(128, ge=8)
    """Length of a token in the first stage; each stage doubles it."""
    depths: str = "2,2,18,2"
    """Blocks in each stage."""
    heads: str = "4,8,16,32"
    """Attention heads in each stage."""


@register_family("videoswin")
class VideoswinTower(Tower):
    """One Swin transformer, in three dimensions for clips and in two for regions."""

    Options = VideoswinOptions
    capabilities = Capabilities(parts=("prefix", "region"), tokens=False, whole_regions=True)

    def __init__(self, plan: TowerPlan, options: Settings) -> None:
        super().__init__(plan, options)
        chosen = cast(VideoswinOptions, options)
        depths, heads = ([int(part) for part in text.split(",")] for text in (chosen.depths, chosen.heads))
        p, w, dim = chosen.patch, chosen.window, plan.settings.dim
        # No stochastic depth: a run that is resumed must see what it would have seen.
        self.net: SwinTransformer | SwinTransformer3d
        if plan.grid:
            self.net = SwinTransformer([p, p], chosen.width, depths, heads, [w, w], num_classes=dim)
            load_backbone(plan, chosen, self.net, lambda: Swin_B_Weights.DEFAULT.get_state_dict(check_hash=True))
        else:
            self.net = SwinTransformer3d([2, p, p], chosen.width, depths, heads, [8, w, w], num_classes=dim)
            load_backbone(plan, chosen, self.net, lambda: Swin3D_B_Weights.DEFAULT.get_state_dict(check_hash=True))

    @staticmethod
    def is_hidden_matrix(name: str) -> bool:
        """The matrices of the blocks, without the first layer."""
        return name.startswith("net.features.") and "relative_position" not in name and ".features.0." not in name

    def embed_images(self, images: Tensor) -> Tensor:
        """Codes of single pictures, to train with: (n, 3, H, W) -> (n, d). A frame is a clip as long as a patch."""
        codes: Tensor = self.net(images if self.grid else images[:, :, None].repeat(1, 1, 2, 1, 1))
        return codes

    def embed_sets(self, images: Tensor, *, adapt: bool = True) -> SetEmbedding:
        """Set codes without tokens: (b, s, 3, H, W) -> (b, d) and (b, 0, d)."""
        if self.grid:
            codes = self.net(region_picture(images))
        else:
            codes = self.net(stretch(images, self.instances).transpose(1, 2))
        return whole_only(F.normalize(codes, dim=-1))
