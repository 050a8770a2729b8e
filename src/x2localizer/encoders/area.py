"""The tiles of an area at half stride, and their codes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from x2localizer.encoders.protocol import EncoderSpec
from x2localizer.types import Bools, Codes, Image, Images

PIXELS_AT_ONCE = 1 << 19
"""Pixels of a batch of tiles: 128 of 64 x 64, with which the shipped towers are fastest."""


def half_stride(area: Image, px: int) -> Images:
    """Tiles of a picture (a px, b px, 3) at every half tile, as views: (2 a - 1, 2 b - 1, px, px, 3)."""
    half = px // 2
    windows = np.lib.stride_tricks.sliding_window_view(area, (px, px), axis=(0, 1))
    return windows[::half, ::half].transpose(0, 1, 3, 4, 2)


def encode_tile_by_tile(
    encode_tiles: Callable[[Images], Codes], area: Image, spec: EncoderSpec, wanted: Bools | None = None
) -> Codes:
    """Codes of the tiles of an area at half stride, (2 a - 1, 2 b - 1, headings, d); zero if they are not wanted."""
    px = spec.tile_px
    if area.ndim != 3 or not area.size or area.shape[0] % px or area.shape[1] % px:
        raise ValueError(f"an area is whole tiles of {px} pixels, not {area.shape}")
    tiles = half_stride(area, px)
    chosen = np.ones(tiles.shape[:2], np.bool_) if wanted is None else wanted
    codes = np.zeros((*tiles.shape[:2], spec.headings, spec.dim), np.float32)
    rows, columns = np.nonzero(chosen)
    size = max(1, PIXELS_AT_ONCE // (px * px))
    for start in range(0, len(rows), size):
        part = rows[start : start + size], columns[start : start + size]
        codes[part] = encode_tiles(tiles[part]).reshape(-1, spec.headings, spec.dim)
    return codes
