"""L2LTR (Yang et al., 2021): a ResNet whose features a vision transformer reads, by timm; tiles in polar coordinates.

In each layer, queries are of that layer, keys and values of the layer before it ("self-cross attention").
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import timm
from pydantic import Field
from timm.layers.hybrid_embed import HybridEmbed
from timm.layers.std_conv import StdConv2dSame
from timm.models.resnetv2 import ResNetV2
from timm.models.vision_transformer import VisionTransformer, checkpoint_filter_fn
from torch import Tensor, nn

from x2localizer.config import Settings
from x2localizer.encoders.protocol import Capabilities
from x2localizer.learn.families import register_family
from x2localizer.learn.geoadapter import attend, split_heads
from x2localizer.learn.polar import polar_grid, to_polar
from x2localizer.learn.pretrained import WeightOptions, load_backbone
from x2localizer.learn.towers import Tower, TowerPlan

HUB = "vit_base_r50_s16_224.orig_in21k"


class L2ltrOptions(WeightOptions):
    """What ``model.options`` may hold; by default ResNet-50 and ViT-B."""

    polar_height: int = Field(128, ge=16)
    polar_width: int = Field(512, ge=16)
    """Size of the unrolled tile in pixels."""
    stages: str = "3,4,9"
    """Blocks in each stage of the ResNet."""
    stem: int = Field(64, ge=32)
    """Channels of its first layer; its stages have 4, 8 and 16 times as many. A multiple of 32, for its norms."""
    width: int = Field(768, ge=8)
    depth: int = Field(12, ge=1)
    heads: int = Field(12, ge=1)
    cross: bool = True
    """False: keys and values are of the same layer, as in other transformers."""


@register_family("l2ltr")
class L2ltrTower(Tower):
    """A hybrid of a ResNet and a vision transformer, with a linear head on the class token."""

    Options = L2ltrOptions
    capabilities = Capabilities(parts=("frame", "tile"), tokens=False)

    def __init__(self, plan: TowerPlan, options: Settings) -> None:
        super().__init__(plan, options)
        chosen = cast(L2ltrOptions, options)
        size = (chosen.polar_height, chosen.polar_width) if plan.grid else plan.size
        stages = [int(part) for part in chosen.stages.split(",")]
        channels = tuple(4 * chosen.stem * 2**i for i in range(len(stages)))
        resnet = ResNetV2(
            stages, channels, num_classes=0, global_pool="", stem_chs=chosen.stem, stem_type="same", preact=False,
            conv_layer=partial(StdConv2dSame, eps=1e-8),
        )  # fmt: skip
        embed = partial(HybridEmbed, backbone=resnet)
        build: Any = VisionTransformer
        self.net: Any = build(
            img_size=size, patch_size=1, embed_dim=chosen.width, depth=chosen.depth, num_heads=chosen.heads,
            num_classes=plan.settings.dim, embed_layer=embed,
        )  # fmt: skip
        resnet.init_weights(zero_init_last=False)  # the transformer has made its last norms zero: no gradients
        if plan.grid:
            self.polar: Tensor
            self.register_buffer("polar", polar_grid(*size), persistent=False)
        if chosen.depth < 12:  # timm's deviation of 0.02 suits wide transformers
            for name, layer in self.net.named_modules():
                if isinstance(layer, nn.Linear) and (name.startswith("blocks.") or name == "head"):
                    nn.init.xavier_uniform_(layer.weight)
        load_backbone(plan, chosen, self.net, _from_hub, fit=lambda found: dict(checkpoint_filter_fn(found, self.net)))

    @staticmethod
    def is_hidden_matrix(name: str) -> bool:
        """The matrices of the blocks."""
        return name.startswith("net.blocks.")

    def embed_images(self, images: Tensor) -> Tensor:
        """Codes of frames or tiles: (n, 3, H, W) -> (n, d)."""
        net = self.net
        pictures = to_polar(images, self.polar) if self.grid else images
        x = net._pos_embed(net.patch_embed(pictures))
        before = x
        for block in net.blocks:
            source = before if cast(L2ltrOptions, self.options).cross else x
            before = x
            x = x + _attention(block, x, source)
            x = x + block.mlp(block.norm2(x))
        codes: Tensor = net.head(net.norm(x)[:, 0])
        return codes


def _attention(block: Any, x: Tensor, source: Tensor) -> Tensor:
    """What the tokens x learn from others: (n, p, c) each -> (n, p, c)."""
    heads = block.attn.num_heads
    q = split_heads(block.attn.qkv(block.norm1(x)), heads)[0]
    _, k, v = split_heads(block.attn.qkv(block.norm1(source)), heads)
    out: Tensor = block.attn.proj(attend(q, k, v))
    return out


def _from_hub() -> dict[str, Tensor]:
    return dict(timm.create_model(HUB, pretrained=True).state_dict())
