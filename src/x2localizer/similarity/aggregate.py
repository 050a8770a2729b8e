"""From the similarities of single frames and tiles to one number for a region: what the similarities share."""

from __future__ import annotations

import math

import numpy as np

from x2localizer.types import Bools, Codes

NO_DATA = np.float32(-1e6)
"""The similarity of a tile without data: it never gets any weight."""
TAU_SUM = 0.05
"""The temperature of stage 1, at which exp(s / tau) is the odds that a frame and a tile belong together."""


def token_similarity(frames: Codes, tiles: Codes) -> Codes:
    """Each frame with each tile: (k, d) and (r, l, d) -> (r, k, l)."""
    r, per, d = tiles.shape
    return np.ascontiguousarray((tiles.reshape(r * per, d) @ frames.T).reshape(r, per, -1).transpose(0, 2, 1))


def soft_aggregate(values: Codes, temperature: float, axis: int) -> Codes:
    """Mean along an axis, weighted by the softmax of the values themselves; near zero temperature a maximum."""
    top = values.max(axis, keepdims=True)
    weights = np.exp((values - top) / np.float32(temperature))
    out: Codes = (weights * values).sum(axis) / weights.sum(axis)
    return out


def fine_similarity(s_tok: Codes, temperature: float, valid: Bools | None = None) -> Codes:
    """s_f, equations 6 to 10: soft maxima over tiles, then frames, and the other way round, averaged. -> (r,)."""
    per_frame = soft_aggregate(with_data(s_tok, valid), temperature, 2)
    ground = soft_aggregate(per_frame, temperature, 1)
    per_tile = soft_aggregate(s_tok, temperature, 1)
    if valid is not None:
        per_tile = np.where(valid, per_tile, NO_DATA)
    aerial = soft_aggregate(per_tile, temperature, 1)
    return np.asarray((ground + aerial) / 2, np.float32)


def best_tiles(s_tok: Codes, valid: Bools | None = None) -> Codes:
    """The mean over frames of the best tile, (r,)."""
    out: Codes = with_data(s_tok, valid).max(2).mean(1)
    return out


def summed_tiles(s_tok: Codes, valid: Bools | None = None, temperature: float = TAU_SUM) -> Codes:
    """The mean over frames of the log of the mean odds over tiles, (r,)."""
    top, odds = _odds(s_tok, valid, temperature)
    return np.asarray((top + temperature * np.log(odds.sum(2) / _count(valid, odds))).mean(1), np.float32)


def summed_paths(s_tok: Codes, valid: Bools | None = None, temperature: float = TAU_SUM, reach: int = 4) -> Codes:
    """The log of the mean odds over all paths, per frame, (r,).

    The tiles of a region are a square, row by row; a path moves at most ``reach`` rows and columns from one frame to
    the next.
    """
    top, odds = _odds(s_tok, valid, temperature)
    r, k, per = odds.shape
    m = math.isqrt(per)
    grid = odds.reshape(r, k, m, m)
    mass = grid[:, 0] / _count(valid, odds)[:, :, None]
    log_odds = np.zeros(r, np.float32)
    for frame in range(1, k):
        total = mass.sum((1, 2))
        log_odds += np.log(total)
        mass = _spread(mass / total[:, None, None], reach) * grid[:, frame] + np.float32(1e-30)
    log_odds += np.log(mass.sum((1, 2)))
    return np.asarray(top.mean(1) + temperature * log_odds / k, np.float32)


def with_data(s_tok: Codes, valid: Bools | None) -> Codes:
    """Similarities in which tiles without data never count, (r, k, l)."""
    return s_tok if valid is None else np.where(valid[:, None], s_tok, NO_DATA)


def _odds(s_tok: Codes, valid: Bools | None, temperature: float) -> tuple[Codes, Codes]:
    """Each frame's best similarity, (r, k), and the odds of all tiles against it, (r, k, l)."""
    values = with_data(s_tok, valid)
    top = values.max(2)
    return top, np.exp((values - top[:, :, None]) / np.float32(temperature))


def _count(valid: Bools | None, odds: Codes) -> Codes:
    """How many tiles hold data, (r, 1)."""
    r, _, per = odds.shape
    if valid is None:
        return np.full((r, 1), per, np.float32)
    return np.asarray(np.maximum(valid.sum(1, keepdims=True), 1), np.float32)


def _spread(mass: Codes, reach: int) -> Codes:
    """The mean of each tile's surroundings, (r, m, m); what moves out of the region is lost."""
    r, m, _ = mass.shape
    steps = np.arange(m)
    band = (np.abs(steps[:, None] - steps) <= reach).astype(np.float32) / np.float32(2 * reach + 1)
    for _ in range(2):  # along one axis, then the other
        mass = (mass.reshape(r * m, m) @ band).reshape(r, m, m).transpose(0, 2, 1)
    return mass
