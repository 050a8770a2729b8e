"""Codes of the cameras that may stand in an area, from its tiles at half stride."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from x2localizer.encoders.protocol import EncoderSpec
from x2localizer.types import Bools, Codes, Floats, Image, Images


def half_stride(area: Image, px: int) -> Images:
    """Tiles of a picture (a px, b px, 3) at every half tile, as views: (2 a - 1, 2 b - 1, px, px, 3)."""
    half = px // 2
    windows = np.lib.stride_tricks.sliding_window_view(area, (px, px), axis=(0, 1))
    return windows[::half, ::half].transpose(0, 1, 3, 4, 2)


def encode_tile_by_tile(
    encode_tiles: Callable[[Images], Codes], area: Image, spec: EncoderSpec, wanted: Bools | None = None
) -> Codes:
    """Codes of cameras in an area, see :meth:`Encoder.encode_area`: each tile is encoded once."""
    px = spec.tile_px
    if area.ndim != 3 or not area.size or area.shape[0] % px or area.shape[1] % px:
        raise ValueError(f"an area is whole tiles of {px} pixels, not {area.shape}")
    tiles = half_stride(area, px)
    chosen = np.ones(tiles.shape[:2], np.bool_) if wanted is None else wanted
    codes = np.zeros((*tiles.shape[:2], spec.headings, spec.dim), np.float32)
    rows, columns = np.nonzero(chosen)
    size = spec.tiles_at_once()
    for start in range(0, len(rows), size):
        part = rows[start : start + size], columns[start : start + size]
        codes[part] = encode_tiles(tiles[part]).reshape(-1, spec.headings, spec.dim)
    return seen_from(codes, spec.ahead, spec.further)


def seen_from(codes: Codes, ahead: int, further: int = 0) -> Codes:
    """Codes of cameras, each of the tile that lies ``ahead`` half tiles ahead of it; (rows, columns, headings, d).

    codes: of the tiles, of the same shape. A camera that looks out of the area has a code of zeros.
    further: half tiles to another tile, which the second half of the numbers is of; 0: none is.
    """
    if further:
        halves = np.split(codes, 2, axis=-1)
        return np.concatenate(
            [seen_from(half, steps) for half, steps in zip(halves, (ahead, further), strict=True)], -1
        )
    if not ahead:
        return codes
    rows, columns, headings, _ = codes.shape
    out = np.zeros_like(codes)
    right, down = steps_ahead(2 * np.pi * np.arange(headings) / headings, ahead)
    for heading, (dx, dy) in enumerate(zip(np.rint(right).astype(int), np.rint(down).astype(int), strict=True)):
        to_y, to_x = _overlap(rows, int(dy)), _overlap(columns, int(dx))
        from_y, from_x = _overlap(rows, -int(dy)), _overlap(columns, -int(dx))
        out[from_y, from_x, heading] = codes[to_y, to_x, heading]
    return out


def _overlap(length: int, step: int) -> slice:
    """The part of an axis that is still there after a step along it."""
    return slice(max(0, step), max(0, length + min(0, step)))


def steps_ahead(headings: Floats, ahead: float) -> tuple[Floats, Floats]:
    """How far ahead of cameras their tiles lie, to the right and down: on a square, so that 45 degrees are one tile.

    headings: radians clockwise from up.
    """
    right, down = np.sin(headings), -np.cos(headings)
    reach = ahead / np.maximum(np.abs(right), np.abs(down))
    return right * reach, down * reach
