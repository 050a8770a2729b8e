"""Sets of pictures in the shape that video networks and networks for one large picture want them."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def region_picture(tiles: Tensor) -> Tensor:
    """A region as one picture: tiles row by row, (b, n n, 3, t, t) -> (b, 3, n t, n t)."""
    n, t = math.isqrt(tiles.shape[1]), tiles.shape[-1]
    rows = tiles.reshape(tiles.shape[0], n, n, 3, t, t)
    return rows.permute(0, 3, 1, 4, 2, 5).reshape(tiles.shape[0], 3, n * t, n * t)


def stretch(frames: Tensor, length: int) -> Tensor:
    """Frames of a prefix as a clip of a fixed length: (b, s, ...) -> (b, length, ...).

    Each is repeated as often as needed. The frames stay in their order: 2 frames as 8 are 0 0 0 0 1 1 1 1.
    """
    places = torch.arange(length, device=frames.device) * frames.shape[1] // length
    return frames[:, places]
