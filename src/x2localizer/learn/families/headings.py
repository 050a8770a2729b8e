"""Towers that know which way the camera looks. Not in the paper.

Both are distilled vision transformers, as in the family ``deit``. The aerial tower makes a code of each tile for a
camera that looks north, one for north-east, and so on, in one pass over its pixels: in the last blocks, copies of the
tokens cls and dist, one pair for each heading, look at the tile's patches with that heading in mind. Nothing looks at
them, so they cost little, and a tower that starts from one of ``deit`` starts with its codes, the same for all
headings.

A camera sees what is ahead of it: of the tile around it, three quarters are beside or behind. So the code of a tile for
a heading is that of a camera half a tile before its middle, which looks into it. A second tile may lie further ahead:
then the first half of a code's numbers is of the nearer tile, and the second half of the further one.

The ground tower also says how much a frame tells of its place: its codes are shorter where that is little, at night or
in fog. Shapes: n pictures, h headings, p tokens, c width, d numbers in a code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from x2localizer.config import Settings
from x2localizer.encoders.protocol import Capabilities
from x2localizer.errors import ConfigError
from x2localizer.learn.backbone import build_backbone
from x2localizer.learn.families import register_family
from x2localizer.learn.geoadapter import attend, split_heads
from x2localizer.learn.towers import Tower, TowerPlan

HEADINGS = 8
PREFIX_TOKENS = 2
"""cls and dist come first."""
HARMONICS = 4
"""Sines and cosines of the heading, of twice the heading, and so on, by which a block knows it."""


class HeadingOptions(Settings):
    """What ``model.options`` may hold."""

    turned_blocks: int = Field(3, ge=1)
    """Blocks of the aerial tower, from the last back, in which each heading has tokens of its own."""
    ahead: int = Field(1, ge=0, le=2)
    """Half tiles from the camera to the middle of its tile, the way it looks. 0: the tile around the camera."""
    further: int = Field(0, ge=0, le=6)
    """Half tiles to a second tile, which the second half of a code is of. 0: there is none."""


@register_family("headings")
class HeadingTower(Tower):
    """A vision transformer for frames, or one for tiles in several headings."""

    Options = HeadingOptions
    capabilities = Capabilities(parts=("frame", "tile"), tokens=False, headings=HEADINGS)

    def __init__(self, plan: TowerPlan, options: Settings) -> None:
        super().__init__(plan, options)
        settings = plan.settings
        self.further = cast(HeadingOptions, options).further
        if self.further and settings.dim % 2:
            raise ConfigError(
                f"A code of {settings.dim} numbers has no halves.", "Set model.dim to an even number, or further to 0."
            )
        self.backbone: Any = build_backbone(plan.backbone, plan.size, settings.dim, pretrained=plan.pretrained)
        if plan.grid:
            width, blocks = self.backbone.embed_dim, len(self.backbone.blocks)
            self.shared = max(0, blocks - cast(HeadingOptions, options).turned_blocks)
            self.turns = nn.ModuleList(nn.Linear(2 * HARMONICS, width, bias=False) for _ in range(blocks - self.shared))
            for turn in self.turns:
                nn.init.zeros_(cast(nn.Linear, turn).weight)
        else:
            self.says = nn.Linear(settings.dim, 1)
            nn.init.zeros_(self.says.weight)
            nn.init.zeros_(self.says.bias)

    @classmethod
    def capabilities_of(cls, options: Settings) -> Capabilities:
        """How far ahead the tiles lie is an option."""
        chosen = cast(HeadingOptions, options)
        return replace(cls.capabilities, ahead=chosen.ahead, further=chosen.further)

    @staticmethod
    def is_hidden_matrix(name: str) -> bool:
        """The matrices of the blocks."""
        return name.startswith("backbone.blocks.")

    @classmethod
    def taken_from(cls, family: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Of towers of the family ``deit`` both transformers."""
        kept = ("ground.backbone.", "aerial.backbone.")
        return {name: tensor for name, tensor in tensors.items() if family == "deit" and name.startswith(kept)}

    def embed_images(self, images: Tensor) -> Tensor:
        """Image codes of frames before they are scaled: (n, 3, H, W) -> (n, d)."""
        z = self._tokens(images)
        for block in self.backbone.blocks:
            z = self._saving(cast(Callable[..., Tensor], block), z)
        return self._heads(self.backbone.norm(z)[:, :PREFIX_TOKENS])

    def forward(self, images: Tensor) -> Tensor:
        """Codes of frames, shorter where they say little, (n, d); of tiles, one for each heading, (n, h, d)."""
        if self.grid:
            every = torch.arange(HEADINGS, device=images.device) * (2 * math.pi / HEADINGS)
            return self.embed_headings(images, every.expand(images.shape[0], -1))
        codes = F.normalize(self.embed_images(images), dim=-1)
        # What a frame says is judged from its code as it is: the code must not bend to be judged well.
        length: Tensor = self.says(codes.detach()).clamp(-2.5, 0.7).exp()
        return codes * length

    def embed_headings(self, images: Tensor, headings: Tensor) -> Tensor:
        """Codes of tiles, of length 1, for cameras that look some ways: (n, 3, t, t) and (n, h) -> (n, h, d).

        headings: radians clockwise from up.
        """
        z = self._tokens(images)
        n, h = headings.shape
        waves, looks = _waves(headings), z
        for i in range(len(self.backbone.blocks)):
            z, looks = self._saving(partial(self._turned, i), z, looks, waves)
        tokens = self.backbone.norm(looks).reshape(n * h, PREFIX_TOKENS, -1)
        codes = self._heads(tokens).reshape(n, h, -1)
        if not self.further:
            return F.normalize(codes, dim=-1)
        return F.normalize(codes.reshape(n, h, 2, -1), dim=-1).flatten(-2) * math.sqrt(0.5)

    def _turned(self, i: int, z: Tensor, looks: Tensor, waves: Tensor) -> tuple[Tensor, Tensor]:
        """One block: of the tokens that all headings share, and of those that each has for itself."""
        block, (n, h) = self.backbone.blocks[i], waves.shape[:2]
        q, k, v = split_heads(block.attn.qkv(block.norm1(z)), block.attn.num_heads)
        if i >= self.shared:
            if i == self.shared:
                looks = z[:, None, :PREFIX_TOKENS].expand(n, h, PREFIX_TOKENS, -1)
            looks = looks + self.turns[i - self.shared](waves)[:, :, None]
            asks = block.attn.qkv(block.norm1(looks.reshape(n, h * PREFIX_TOKENS, -1)))
            answers = block.attn.proj(attend(split_heads(asks, block.attn.num_heads)[0], k, v))
            looks = looks + answers.reshape(looks.shape)
            looks = looks + block.mlp(block.norm2(looks))
        if i + 1 < len(self.backbone.blocks):
            z = z + block.attn.proj(attend(q, k, v))
            z = z + block.mlp(block.norm2(z))
        return z, looks

    def _tokens(self, images: Tensor) -> Tensor:
        """Patches with positions, cls and dist: (n, p, c)."""
        ready: Tensor = self.backbone.norm_pre(self.backbone._pos_embed(self.backbone.patch_embed(images)))
        return ready

    def _heads(self, tokens: Tensor) -> Tensor:
        """(n, 2, c) -> (n, d): the mean of the two heads."""
        out: Tensor = (self.backbone.head(tokens[:, 0]) + self.backbone.head_dist(tokens[:, 1])) / 2
        return out


def _waves(headings: Tensor) -> Tensor:
    """Headings as sines and cosines, (n, h) -> (n, h, 2 HARMONICS)."""
    angles = headings[..., None] * torch.arange(1, HARMONICS + 1, device=headings.device)
    return torch.cat([angles.sin(), angles.cos()], -1)
