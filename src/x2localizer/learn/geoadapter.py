"""GeoAdapter: lets the instances of a set, frames of a video or tiles of a region, see each other inside every block.

Appendix A of the paper. In each block, after the spatial attention: add the instance embedding E_S, go through a
bottleneck A, attend across instances with the *same* block's norm and attention weights, go back through the inverse
of A (its transposed weights with biases of its own), and add the result to the tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Adapter(nn.Module):
    """The bottleneck A and its inverse.

    The second layer starts at zero: then the inverse of whatever comes in is zero too, and an untrained adapter
    changes nothing. ``skip`` adds the input to A's output, as GAReT's published weights want it. The biases of the
    inverse are numbered in the order they are used; published weights number them the other way round.
    """

    def __init__(self, width: int, hidden: int, skip: bool = False) -> None:
        super().__init__()
        self.D_fc1 = nn.Linear(width, hidden)
        self.D_fc2 = nn.Linear(hidden, width)
        self.D_inv_fcb1 = nn.Parameter(torch.zeros(hidden))
        self.D_inv_fcb2 = nn.Parameter(torch.zeros(width))
        self.skip = skip
        nn.init.zeros_(self.D_fc2.weight)
        nn.init.zeros_(self.D_fc2.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        """A: (..., width) -> (..., width)."""
        down: Tensor = self.D_fc2(F.gelu(self.D_fc1(tokens)))
        return tokens + down if self.skip else down

    def inverse(self, tokens: Tensor) -> Tensor:
        """The way back, with the transposed weights: (..., width) -> (..., width)."""
        hidden = F.gelu(F.linear(tokens, self.D_fc2.weight.t(), self.D_inv_fcb1))
        return F.linear(hidden, self.D_fc1.weight.t(), self.D_inv_fcb2)

    def inverse_alone(self, attention: Any, tokens: Tensor) -> Tensor:
        """The way back for tokens that attend to themselves alone: (..., width) -> (..., width).

        Attention over one value is that value, so value, projection and the first layer of the inverse are three
        matrices in a row: they are multiplied first, and the tokens go through one narrow matrix instead.
        """
        c = tokens.shape[-1]
        value, value_bias = attention.qkv.weight[2 * c :], attention.qkv.bias[2 * c :]
        up = self.D_fc2.weight.t()
        matrix = up @ attention.proj.weight @ value
        bias = up @ (attention.proj.weight @ value_bias + attention.proj.bias) + self.D_inv_fcb1
        return F.linear(F.gelu(F.linear(tokens, matrix, bias)), self.D_fc1.weight.t(), self.D_inv_fcb2)


def split_heads(qkv: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """(b, n, 3 c) -> three of (b, heads, n, c / heads)."""
    b, n, wide = qkv.shape
    q, k, v = qkv.reshape(b, n, 3, heads, wide // 3 // heads).permute(2, 0, 3, 1, 4).unbind(0)
    return q, k, v


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Scaled dot-product attention and the heads joined again: (b, heads, n, d) -> (b, n, heads d)."""
    out = F.scaled_dot_product_attention(q, k, v)
    b, heads, n, d = out.shape
    return out.transpose(1, 2).reshape(b, n, heads * d)
