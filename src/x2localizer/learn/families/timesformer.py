"""TimeSformer (Bertasius et al., 2021) for both views: divided attention over time and space.

The network of transformers, one for each view. Patches attend first to the same patch of all pictures of their set,
then to the patches of their own picture. The frames of a prefix are its frames; so are, in the aerial tower, the tiles
of a region. A forward pass of our own runs its layers on prefixes of any length and pictures of any shape. Shapes: b
sets of s pictures, p patches in each, c width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from x2localizer.config import Settings
from x2localizer.encoders.protocol import Capabilities
from x2localizer.errors import UserError
from x2localizer.learn.families import register_family
from x2localizer.learn.geoadapter import attend, split_heads
from x2localizer.learn.pretrained import WeightOptions, load_backbone
from x2localizer.learn.towers import SetEmbedding, Tower, TowerPlan, whole_only

HUB = "facebook/timesformer-base-finetuned-k400"


class TimesformerOptions(WeightOptions):
    """What ``model.options`` may hold; by default ViT-B."""

    patch: int = Field(16, ge=4)
    """Side of a patch in pixels; rows and columns that fill no patch are dropped."""
    width: int = Field(768, ge=8)
    depth: int = Field(12, ge=1)
    heads: int = Field(12, ge=1)


@register_family("timesformer")
class TimesformerTower(Tower):
    """One TimeSformer, with a linear head on its class token."""

    Options = TimesformerOptions
    capabilities = Capabilities(parts=("prefix", "region"), tokens=False)

    def __init__(self, plan: TowerPlan, options: Settings) -> None:
        super().__init__(plan, options)
        chosen = cast(TimesformerOptions, options)
        config, network = _library()
        p = chosen.patch
        self.cut = (plan.size[0] // p * p, plan.size[1] // p * p)
        self.net: Any = network(
            config(
                image_size=self.cut, patch_size=p, num_frames=plan.instances, hidden_size=chosen.width,
                num_hidden_layers=chosen.depth, num_attention_heads=chosen.heads, intermediate_size=4 * chosen.width,
            )
        )  # fmt: skip
        self.head = nn.Linear(chosen.width, plan.settings.dim)
        load_backbone(plan, chosen, self.net, lambda: network.from_pretrained(HUB).state_dict(), fit=self._fit)

    @staticmethod
    def is_hidden_matrix(name: str) -> bool:
        """The matrices of the layers."""
        return name.startswith("net.encoder.layer.")

    def embed_sets(self, images: Tensor, *, adapt: bool = True) -> SetEmbedding:
        """Set codes without tokens: (b, s, 3, H, W) -> (b, d) and (b, 0, d)."""
        b, s = images.shape[:2]
        start = self.net.embeddings
        cut = images[..., : self.cut[0], : self.cut[1]].flatten(0, 1)
        patches = start.patch_embeddings.projection(cut).flatten(2).transpose(1, 2)  # (b s, p, c)
        placed = (patches + start.position_embeddings[:, 1:]).unflatten(0, (b, s))
        tokens = placed + start.time_embeddings[:, :s, None]
        look = (start.cls_token + start.position_embeddings[:, :1]).expand(b, 1, -1)
        for layer in self.net.encoder.layer:
            look, tokens = _layer(layer, look, tokens)
        return whole_only(F.normalize(self.head(self.net.layernorm(look)[:, 0]), dim=-1))

    def _fit(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Published weights with positions resampled; tiles are no times, so the aerial tower learns its own."""
        named = {name.removeprefix("timesformer."): tensor for name, tensor in tensors.items()}
        own: Mapping[str, Tensor] = self.net.state_dict()
        where, when = "embeddings.position_embeddings", "embeddings.time_embeddings"
        p = cast(TimesformerOptions, self.options).patch
        named[where] = resample_positions(named[where], (self.cut[0] // p, self.cut[1] // p))
        if self.grid:
            named[when] = own[when]
        elif named[when].shape != own[when].shape:
            times = F.interpolate(named[when].transpose(1, 2), own[when].shape[1], mode="linear")
            named[when] = times.transpose(1, 2)
        return named


def _layer(layer: Any, look: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """One layer: (b, 1, c) and (b, s, p, c) -> the same. The class token is the mean over pictures."""
    b, s, p, c = tokens.shape
    rows = layer.temporal_layernorm(tokens.transpose(1, 2).reshape(b * p, s, c))
    over_time = layer.temporal_dense(_attention(layer.temporal_attention, rows)).reshape(b, p, s, c)
    tokens = tokens + over_time.transpose(1, 2)
    pictures = torch.cat([look[:, None].expand(b, s, 1, c), tokens], 2).reshape(b * s, p + 1, c)
    in_space = _attention(layer.attention, layer.layernorm_before(pictures)).reshape(b, s, p + 1, c)
    look, tokens = look + in_space[:, :, 0].mean(1, keepdim=True), tokens + in_space[:, :, 1:]
    look = look + layer.output(layer.intermediate(layer.layernorm_after(look)))
    tokens = tokens + layer.output(layer.intermediate(layer.layernorm_after(tokens)))
    return look, tokens


def _attention(module: Any, rows: Tensor) -> Tensor:
    """(n, length, c) -> (n, length, c)."""
    q, k, v = split_heads(module.attention.qkv(rows), module.attention.num_heads)
    out: Tensor = module.output.dense(attend(q, k, v))
    return out


def resample_positions(positions: Tensor, grid: tuple[int, int]) -> Tensor:
    """Position embeddings of a square grid (1, 1 + g g, c) for another grid; that of the class token is kept."""
    side = int((positions.shape[1] - 1) ** 0.5)
    picture = positions[:, 1:].transpose(1, 2).reshape(1, -1, side, side)
    resized = F.interpolate(picture, grid, mode="bicubic", antialias=True, align_corners=False)
    return torch.cat([positions[:, :1], resized.flatten(2).transpose(1, 2)], 1)


def _library() -> tuple[Any, Any]:
    """The classes of transformers; they take seconds to load, and need an extra."""
    try:
        from transformers import TimesformerConfig, TimesformerModel  # noqa: PLC0415
    except ImportError as problem:
        raise UserError(
            "The family 'timesformer' needs transformers, which is not installed.",
            "pip install 'x2localizer[train,baselines]'",
        ) from problem
    return TimesformerConfig, TimesformerModel
