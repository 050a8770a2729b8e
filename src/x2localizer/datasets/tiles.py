"""Cutting the picture of a region into tiles."""

from __future__ import annotations

import numpy as np

from x2localizer.types import Image


def cut_tiles(region: Image, n: int) -> Image:
    """The tiles of a region's picture (n t, n t, 3), row by row, shape (n n, t, t, 3)."""
    t = region.shape[0] // n
    tiles = region[: n * t, : n * t].reshape(n, t, n, t, 3).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(tiles.reshape(n * n, t, t, 3))
