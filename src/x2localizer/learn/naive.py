"""The set encoder written down plainly from the paper: the twin that the fast one is tested and timed against."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from x2localizer.learn.families.deit import PREFIX_TOKENS, DeitTower
from x2localizer.learn.geoadapter import Adapter


def naive_set(tower: DeitTower, images: Tensor) -> tuple[Tensor, Tensor]:
    """One set (s, 3, H, W), written down from the paper: every token everywhere, and a mask over instances."""
    net = tower.backbone
    x = net._pos_embed(net.patch_embed(images))
    s, p, c = x.shape
    for i, block in enumerate(net.blocks):
        adapter = cast(Adapter, tower.adapters[i])
        z = x + block.attn(block.norm1(x))
        bar = z.transpose(0, 1) + tower.instance_embedding[:s]  # (p, s, c)
        inner = adapter(bar)
        mask = torch.ones(p, s, s, dtype=torch.bool)
        if tower.grid:
            mask[PREFIX_TOKENS:] = torch.eye(s, dtype=torch.bool)
        heads = block.attn.num_heads
        q, k, v = block.attn.qkv(block.norm1(inner)).reshape(p, s, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2)) * (c // heads) ** -0.5
        weights = weights.masked_fill(~mask[:, None], float("-inf")).softmax(-1)
        y = adapter.inverse(block.attn.proj((weights @ v).transpose(1, 2).reshape(p, s, c)))
        x = z + y.transpose(0, 1)
        x = x + block.mlp(block.norm2(x))
    x = net.norm(x)
    raw = (net.head(x[:, 0]) + net.head_dist(x[:, 1])) / 2
    return F.normalize(raw.mean(0), dim=-1), F.normalize(raw, dim=-1)
