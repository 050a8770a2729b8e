"""Distilled vision transformers with GeoAdapters, the family of the paper (appendix A.2).

Image codes and set codes share the spatial weights of one backbone. For set codes, GeoAdapters in every block let the
instances of a set, the frames of a prefix or the tiles of a region, attend to each other. Shapes: b sets, s instances
each, p tokens (cls, dist, patches), c width, d output.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from x2localizer.config import ModelSettings, Settings
from x2localizer.learn.backbone import build_backbone
from x2localizer.learn.families import register_family
from x2localizer.learn.geoadapter import Adapter, attend, split_heads
from x2localizer.learn.token_merging import attend_by_size, merge_tokens
from x2localizer.learn.towers import SetEmbedding, Tower, TowerPlan, pool

PREFIX_TOKENS = 2
"""cls and dist come first."""


Group = tuple[slice, int, int, Tensor]
"""Sets of one length: the rows of their instances, the number of sets, the length, and the instance embeddings."""


@register_family("deit")
class DeitTower(Tower):
    """A backbone, with adapters or without. In a grid only cls and dist look across tiles.

    Its settings are ``model.backbone`` and ``model.adapter*``; it has no options besides.
    """

    def __init__(self, plan: TowerPlan, options: Settings) -> None:
        super().__init__(plan, options)
        settings = plan.settings
        self.backbone: Any = build_backbone(plan.backbone, plan.size, settings.dim, pretrained=plan.pretrained)
        width = self.backbone.embed_dim
        hidden = max(1, round(width * settings.adapter_ratio))
        if settings.adapters:
            self.adapters = nn.ModuleList(Adapter(width, hidden, settings.adapter_skip) for _ in self.backbone.blocks)
            self.instance_embedding = nn.Parameter(torch.zeros(plan.instances, width))
            nn.init.trunc_normal_(self.instance_embedding, std=0.02)
        self.adapted, self.skip = settings.adapters, settings.adapter_skip
        self.merged = 0

    @classmethod
    def has_adapters(cls, settings: ModelSettings) -> bool:
        """As the settings say."""
        return settings.adapters

    @staticmethod
    def is_adapter(name: str) -> bool:
        """The adapters themselves, and the instance embedding."""
        return name.startswith("adapters.") or name == "instance_embedding"

    @staticmethod
    def is_hidden_matrix(name: str) -> bool:
        """The matrices of the blocks and of the adapters."""
        return name.startswith(("backbone.blocks.", "adapters."))

    def variant(self, *, sets: bool) -> str:
        """Adapters with a skip use the same numbers in another way; sizes show in the position embeddings."""
        return "-skip" if sets and self.skip else ""

    def set_checkpointing(self, on: bool) -> None:
        """Also in the blocks that timm runs."""
        super().set_checkpointing(on)
        self.backbone.set_grad_checkpointing(on)

    def set_merging(self, count: int) -> None:
        """Image codes only: adapters compare patches of different pictures by their place."""
        self.merged = count

    # Image level ---------------------------------------------------------------------------------------------------

    def embed_images(self, images: Tensor) -> Tensor:
        """Image codes, not normalised: (n, 3, H, W) -> (n, d)."""
        if self.merged:
            return self._embed_merged(images)
        return self._heads(self.backbone.forward_features(images)[:, :PREFIX_TOKENS])

    def _embed_merged(self, images: Tensor) -> Tensor:
        """The same, with patches merged in every block but the last, whose patches nobody reads."""
        z = self._tokens(images)
        sizes = torch.ones_like(z[..., 0])
        for number, block in enumerate(self.backbone.blocks):
            q, k, v = split_heads(block.attn.qkv(block.norm1(z)), block.attn.num_heads)
            z = z + block.attn.proj(attend_by_size(q, k, v, sizes))
            if number < len(self.backbone.blocks) - 1:
                z, sizes = merge_tokens(z, sizes, k.mean(1), self.merged, PREFIX_TOKENS)
            z = z + block.mlp(block.norm2(z))
        return self._heads(self.backbone.norm(z)[:, :PREFIX_TOKENS])

    def _heads(self, tokens: Tensor) -> Tensor:
        """(n, 2, c) -> (n, d): the mean of the two heads, equation 1."""
        out: Tensor = (self.backbone.head(tokens[:, 0]) + self.backbone.head_dist(tokens[:, 1])) / 2
        return out

    # Set level -----------------------------------------------------------------------------------------------------

    def embed_sets(self, images: Tensor, *, adapt: bool = True) -> SetEmbedding:
        """Set codes of sets of one length, the shape that is exported: (b, s, 3, H, W) -> (b, d) and (b, s, d)."""
        if not (adapt and self.adapted):
            return super().embed_sets(images)
        b, s = images.shape[:2]
        z = self._saving(partial(self._spatial, 0), self._tokens(images.flatten(0, 1)))
        return pool(self._blocks(z, [(slice(None), b, s, self.instance_embedding[:s])]).reshape(b, s, -1))

    def embed_prefixes(self, videos: Tensor, lengths: Sequence[int], *, adapt: bool = True) -> dict[int, SetEmbedding]:
        """Set codes of prefixes of several lengths, in one pass."""
        b = len(videos)
        frame = torch.arange(b * max(lengths), device=videos.device).reshape(b, -1)
        members = torch.cat([frame[:, :length].flatten() for length in lengths])
        sets = [length for length in lengths for _ in range(b)]
        mixed = self.embed_mixed(videos[:, : max(lengths)].flatten(0, 1), sets, members, adapt=adapt)
        prefixes, start = {}, 0
        for i, length in enumerate(lengths):
            stop = start + b * length
            tokens = mixed.tokens[start:stop].reshape(b, length, -1)
            prefixes[length] = SetEmbedding(mixed.whole[i * b : (i + 1) * b], tokens)
            start = stop
        return prefixes

    def embed_mixed(
        self, images: Tensor, lengths: Sequence[int], members: Tensor | None = None, *, adapt: bool = True
    ) -> SetEmbedding:
        """Set codes for sets of any lengths at once: images (sum of lengths, 3, H, W), set after set.

        The tokens come back as (sum of lengths, d). Where sets share images, as the prefixes of one video do,
        ``members`` (sum of lengths,) says which image each instance is, and what comes before the first adapter is
        computed once per image. Sets of one length are attended together, without padding; no set sees another.
        """
        if members is None:
            members = torch.arange(len(images), device=images.device)
        if min(lengths, default=0) < 1 or max(lengths) > self.instances or sum(lengths) != len(members):
            raise ValueError(f"lengths {list(lengths)} do not fit {len(members)} images and {self.instances} places")
        raw = self._adapted(images, lengths, members) if adapt and self.adapted else self.embed_images(images)[members]
        parts = torch.split(raw, list(lengths))
        whole = F.normalize(torch.stack([part.mean(0) for part in parts]), dim=-1)
        return SetEmbedding(whole, F.normalize(raw, dim=-1))

    def _tokens(self, images: Tensor) -> Tensor:
        """Patches with positions, cls and dist: (n, p, c)."""
        tokens: Tensor = self.backbone._pos_embed(self.backbone.patch_embed(images))
        ready: Tensor = self.backbone.norm_pre(tokens)
        return ready

    def _adapted(self, images: Tensor, lengths: Sequence[int], members: Tensor) -> Tensor:
        """All blocks with their adapters: (instances, d), not normalised."""
        order: list[int] = []
        groups: list[Group] = []
        offsets = _starts(lengths)
        for length in sorted(set(lengths)):
            starts = [offsets[i] for i, size in enumerate(lengths) if size == length]
            part = slice(len(order), len(order) + len(starts) * length)
            order += [start + k for start in starts for k in range(length)]
            groups.append((part, len(starts), length, self.instance_embedding[:length]))
        index = torch.tensor(order, device=images.device)
        first = self._saving(partial(self._spatial, 0), self._tokens(images))
        raw = self._blocks(first[members[index]], groups)
        return torch.empty_like(raw).index_copy(0, index, raw)

    def _blocks(self, z: Tensor, groups: Sequence[Group]) -> Tensor:
        """From the first block's adapter to the heads: (instances, p, c) -> (instances, d)."""
        for i in range(len(self.backbone.blocks)):
            z = self._saving(partial(self._block, i, groups), z)
        return self._heads(self.backbone.norm(z))

    def _block(self, i: int, groups: Sequence[Group], z: Tensor) -> Tensor:
        block = self.backbone.blocks[i]
        if i:
            z = self._spatial(i, z)
        across = [self._across(i, z[part], b, s, places) for part, b, s, places in groups]
        z = z + (across[0] if len(across) == 1 else torch.cat(across))
        return z + cast(Tensor, block.mlp(block.norm2(z)))

    def _spatial(self, i: int, tokens: Tensor) -> Tensor:
        """The spatial attention of a block, with its residual. In the last block only cls and dist are computed."""
        block = self.backbone.blocks[i]
        if i < len(self.backbone.blocks) - 1:
            every: Tensor = tokens + block.attn(block.norm1(tokens))
            return every
        q, k, v = split_heads(block.attn.qkv(block.norm1(tokens)), block.attn.num_heads)
        kept: Tensor = tokens[:, :PREFIX_TOKENS] + block.attn.proj(attend(q[:, :, :PREFIX_TOKENS], k, v))
        return kept

    def _across(self, i: int, z: Tensor, b: int, s: int, places: Tensor) -> Tensor:
        """Y of the paper: what the instances learn from each other, (b s, p, c)."""
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
        """Attention across instances, separately for each token position: (b, s, p, c) -> (b, s, p, c)."""
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
