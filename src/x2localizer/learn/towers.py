"""The two towers. One backbone each; the image encoder (phi) and the set encoder (Phi) share its spatial weights.

phi looks at images one by one. Phi sees a set of instances, the frames of a prefix or the tiles of a region, through
GeoAdapters in every block. Shapes: b sets, s instances each, p tokens (cls, dist, patches), c width, d output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from x2localizer.config import ModelSettings
from x2localizer.learn.backbone import build_backbone
from x2localizer.learn.geoadapter import Adapter, attend, split_heads

PREFIX_TOKENS = 2
"""cls and dist come first."""


class SetEmbedding(NamedTuple):
    """What Phi says of each set: one embedding for all of it, and one token per instance; all of length 1."""

    whole: Tensor  # (b, d)
    tokens: Tensor  # (instances, d), set after set


class Tower(nn.Module):
    """A backbone with adapters. ``grid`` is True for regions: only cls and dist look across tiles."""

    def __init__(self, settings: ModelSettings, size: tuple[int, int], instances: int, *, grid: bool) -> None:
        super().__init__()
        self.backbone: Any = build_backbone(settings.backbone, size, settings.dim)
        width = self.backbone.embed_dim
        hidden = max(1, round(width * settings.adapter_ratio))
        self.adapters = nn.ModuleList(Adapter(width, hidden, settings.adapter_skip) for _ in self.backbone.blocks)
        self.instance_embedding = nn.Parameter(torch.zeros(instances, width))
        nn.init.trunc_normal_(self.instance_embedding, std=0.02)
        self.grid = grid
        self.size = size

    # Image level ---------------------------------------------------------------------------------------------------

    def embed_images(self, images: Tensor) -> Tensor:
        """phi: (n, 3, H, W) -> (n, d), not normalised."""
        return self._heads(self.backbone.forward_features(images)[:, :PREFIX_TOKENS])

    def forward(self, images: Tensor) -> Tensor:
        """phi, L2-normalised: (n, 3, H, W) -> (n, d)."""
        return F.normalize(self.embed_images(images), dim=-1)

    def _heads(self, tokens: Tensor) -> Tensor:
        """(n, 2, c) -> (n, d): the mean of the two heads, equation 1."""
        out: Tensor = (self.backbone.head(tokens[:, 0]) + self.backbone.head_dist(tokens[:, 1])) / 2
        return out

    # Set level -----------------------------------------------------------------------------------------------------

    def embed_sets(self, images: Tensor, lengths: Sequence[int], *, adapt: bool = True) -> SetEmbedding:
        """Phi for sets of any lengths at once: images (sum of lengths, 3, H, W), set after set.

        No set sees another: sets of one length are attended together, without padding. ``adapt=False`` is the
        baseline without adapters: the mean of the image embeddings.
        """
        if min(lengths, default=0) < 1 or max(lengths) > len(self.instance_embedding) or sum(lengths) != len(images):
            raise ValueError(
                f"lengths {list(lengths)} do not fit {len(images)} images and {len(self.instance_embedding)} places"
            )
        raw = self._adapted(images, lengths) if adapt else self.embed_images(images)
        parts = torch.split(raw, list(lengths))
        whole = F.normalize(torch.stack([part.mean(0) for part in parts]), dim=-1)
        return SetEmbedding(whole, F.normalize(raw, dim=-1))

    def embed_even(self, images: Tensor) -> SetEmbedding:
        """Phi for sets of one length, the shape that is exported: (b, s, 3, H, W) -> (b, d) and (b, s, d)."""
        b, s = images.shape[:2]
        tokens = self._tokens(images.flatten(0, 1))
        places = self.instance_embedding[:s]
        last = len(self.backbone.blocks) - 1
        for i, _ in enumerate(self.backbone.blocks):
            tokens = self._block(i, tokens, [(slice(None), b, s, places)], keep_all=i < last)
        raw = self._heads(self.backbone.norm(tokens)).reshape(b, s, -1)
        return SetEmbedding(F.normalize(raw.mean(1), dim=-1), F.normalize(raw, dim=-1))

    def _tokens(self, images: Tensor) -> Tensor:
        """Patches with positions, cls and dist: (n, p, c)."""
        tokens: Tensor = self.backbone._pos_embed(self.backbone.patch_embed(images))
        ready: Tensor = self.backbone.norm_pre(tokens)
        return ready

    def _adapted(self, images: Tensor, lengths: Sequence[int]) -> Tensor:
        """All blocks with their adapters: (n, d), not normalised."""
        order, groups, start = [], [], 0
        offsets = _starts(lengths)
        for length in sorted(set(lengths)):
            members = [i for i, size in enumerate(lengths) if size == length]
            order += [offsets[i] + k for i in members for k in range(length)]
            stop = start + len(members) * length
            groups.append((slice(start, stop), len(members), length, self.instance_embedding[:length]))
            start = stop
        index = torch.tensor(order, device=images.device)
        tokens = self._tokens(images[index])
        last = len(self.backbone.blocks) - 1
        for i, _ in enumerate(self.backbone.blocks):
            tokens = self._block(i, tokens, groups, keep_all=i < last)
        raw = self._heads(self.backbone.norm(tokens))
        return torch.empty_like(raw).index_copy(0, index, raw)

    def _block(
        self, i: int, tokens: Tensor, groups: Sequence[tuple[slice, int, int, Tensor]], *, keep_all: bool
    ) -> Tensor:
        """One block: spatial attention, attention across instances, MLP.

        After the last block only cls and dist are read, so there only they are computed (``keep_all=False``).
        """
        block = self.backbone.blocks[i]
        kept = tokens if keep_all else tokens[:, :PREFIX_TOKENS]
        if keep_all:
            spatial = block.attn(block.norm1(tokens))
        else:
            q, k, v = split_heads(block.attn.qkv(block.norm1(tokens)), block.attn.num_heads)
            spatial = block.attn.proj(attend(q[:, :, :PREFIX_TOKENS], k, v))
        z = kept + spatial
        across = [self._across(i, z[part], b, s, places) for part, b, s, places in groups]
        z = z + (across[0] if len(across) == 1 else torch.cat(across))
        out: Tensor = z + block.mlp(block.norm2(z))
        return out

    def _across(self, i: int, z: Tensor, b: int, s: int, places: Tensor) -> Tensor:
        """Y of the paper: what the instances tell each other, (b s, p, c)."""
        block, adapter = self.backbone.blocks[i], cast(Adapter, self.adapters[i])
        p, c = z.shape[1], z.shape[2]
        placed = z.reshape(b, s, p, c) + places[:, None]
        normed = block.norm1(adapter(placed))
        if not self.grid:
            return adapter.inverse(self._mix(block.attn, normed)).reshape(b * s, p, c)
        heads = adapter.inverse(self._mix(block.attn, normed[:, :, :PREFIX_TOKENS]))
        if p == PREFIX_TOKENS:
            return heads.reshape(b * s, p, c)
        alone = adapter.inverse_alone(block.attn, normed[:, :, PREFIX_TOKENS:])
        return torch.cat([heads, alone], dim=2).reshape(b * s, p, c)

    def _mix(self, attention: Any, normed: Tensor) -> Tensor:
        """Attention across instances, for each token position by itself: (b, s, p, c) -> (b, s, p, c)."""
        b, s, p, c = normed.shape
        rows = normed.transpose(1, 2).reshape(b * p, s, c)
        q, k, v = split_heads(attention.qkv(rows), attention.num_heads)
        out: Tensor = attention.proj(attend(q, k, v))
        return out.reshape(b, p, s, c).transpose(1, 2)


def _starts(lengths: Sequence[int]) -> list[int]:
    starts = [0]
    for length in lengths[:-1]:
        starts.append(starts[-1] + length)
    return starts
