"""Token merging: after the attention of every block, the patches that are most alike become one.

Fewer tokens take less time in all later blocks, and no weight changes. After Bolya et al., Token Merging: Your ViT But
Faster (ICLR 2023). Shapes: n pictures, p tokens (cls, dist, patches), c width, d of a key.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def merge_tokens(tokens: Tensor, sizes: Tensor, keys: Tensor, count: int, prefix: int) -> tuple[Tensor, Tensor]:
    """Merge ``count`` patches into others: tokens (n, p, c) -> (n, p - count, c), and what each stands for.

    Every second patch looks for the one among the others whose key is most like its own; the ``count`` best pairs
    become one token each, their mean by size. At most half of the patches can be merged.

    sizes: how many patches a token stands for, (n, p).
    keys: of the block's attention, (n, p, d).
    prefix: tokens at the start that are left alone.
    """
    count = min(count, (tokens.shape[1] - prefix) // 2)
    if count <= 0:
        return tokens, sizes
    ours, theirs = slice(prefix, None, 2), slice(prefix + 1, None, 2)
    keys = F.normalize(keys, dim=-1)
    closest, partner = (keys[:, ours] @ keys[:, theirs].transpose(1, 2)).max(-1)
    order = closest.topk(closest.shape[1], -1).indices
    merged, kept = order[:, :count], order[:, count:]
    ours_sizes, theirs_sizes = sizes[:, ours], sizes[:, theirs]
    moved = ours_sizes.gather(1, merged)
    onto = F.one_hot(partner.gather(1, merged), theirs_sizes.shape[1]).to(tokens.dtype) * moved[..., None]
    grown = theirs_sizes + onto.sum(1)
    summed = tokens[:, theirs] * theirs_sizes[..., None] + onto.transpose(1, 2) @ _rows(tokens[:, ours], merged)
    parts = [tokens[:, :prefix], _rows(tokens[:, ours], kept), summed / grown[..., None]]
    return torch.cat(parts, 1), torch.cat([sizes[:, :prefix], ours_sizes.gather(1, kept), grown], 1)


def _rows(tokens: Tensor, rows: Tensor) -> Tensor:
    return tokens.gather(1, rows[..., None].expand(-1, -1, tokens.shape[2]))


def attend_by_size(q: Tensor, k: Tensor, v: Tensor, sizes: Tensor) -> Tensor:
    """Attention in which a token counts as often as the patches that it stands for: (b, heads, n, d) -> (b, n, c)."""
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=sizes.log()[:, None, None])
    return out.transpose(1, 2).flatten(2)
