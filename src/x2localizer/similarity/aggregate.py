"""From the similarities of single frames and tiles to one number for a region: what the similarities share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from x2localizer.types import Bools, Codes

NO_DATA = np.float32(-1e6)
"""The similarity of a tile without data: it never gets any weight."""
TAU_SUM = 0.05
"""The temperature of stage 1, at which exp(s / tau) is the odds that a frame and a tile belong together."""


def token_similarity(frames: Codes, tiles: Codes) -> Codes:
    """Each frame with each tile: (k, d) and (r, l, d) -> (r, k, l)."""
    r, per, d = tiles.shape
    return np.ascontiguousarray((tiles.reshape(r * per, d) @ frames.T).reshape(r, per, len(frames)).transpose(0, 2, 1))


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


def summed_paths(
    s_tok: Codes, valid: Bools | None = None, temperature: float = TAU_SUM, reach: int | Sequence[int] = 4,
    headings: int = 1,
) -> Codes:  # fmt: skip
    """The log of the mean odds over all paths, per frame, (r,).

    The tiles of a region are a square, row by row; a path moves at most ``reach`` rows and columns from one frame to
    the next; a sequence says it of each step, (k - 1,). Where tiles have a code for each heading, it moves the way it
    looks, and turns.
    """
    top, odds = _odds(s_tok, valid, temperature)
    r, k, per = odds.shape
    m = math.isqrt(per // headings)
    grid = np.ascontiguousarray(odds.reshape(r, k, m, m, headings).transpose(1, 4, 0, 2, 3))  # (k, h, r, m, m)
    spread = _spread if headings == 1 else _spread_ahead
    reaches = [reach] * (k - 1) if isinstance(reach, int) else reach
    mass = grid[0] / _count(valid, odds)[:, :, None]
    log_odds = np.zeros(r, np.float32)
    for frame in range(1, k):
        total = mass.sum((0, 2, 3))
        log_odds += np.log(total)
        mass = spread(mass / total[:, None, None], reaches[frame - 1]) * grid[frame] + np.float32(1e-30)
    log_odds += np.log(mass.sum((0, 2, 3)))
    return np.asarray(top.mean(1) + temperature * log_odds / k, np.float32)


def with_data(s_tok: Codes, valid: Bools | None) -> Codes:
    """Similarities in which tiles without data never count, (r, k, l); ``valid`` is the same for all headings."""
    if valid is None:
        return s_tok
    every = np.repeat(valid, s_tok.shape[2] // valid.shape[1], axis=1)
    return np.where(every[:, None], s_tok, NO_DATA)


def _odds(s_tok: Codes, valid: Bools | None, temperature: float) -> tuple[Codes, Codes]:
    """Each frame's best similarity, (r, k), and the odds of all tiles against it, (r, k, l)."""
    values = with_data(s_tok, valid)
    top = values.max(2)
    return top, np.exp((values - top[:, :, None]) / np.float32(temperature))


def _count(valid: Bools | None, odds: Codes) -> Codes:
    """How many tiles hold data, each heading counted by itself, (r, 1)."""
    r, _, per = odds.shape
    if valid is None:
        return np.full((r, 1), per, np.float32)
    held = np.maximum(valid.sum(1, keepdims=True), 1)
    return np.asarray(held * (per // valid.shape[1]), np.float32)


def _spread(mass: Codes, reach: int) -> Codes:
    """The mean of each tile's surroundings, (1, r, m, m); what moves out of the region is lost."""
    band = _band(mass.shape[-1], -reach, reach)
    return np.asarray(band.T @ mass @ band, np.float32)


TURN_SHARES = (0.62, 0.13, 0.05, 0.01)
"""How probable it is to look 0, 45, 90 or 135 degrees to one side of where one looked a keyframe before."""


def _spread_ahead(mass: Codes, reach: int) -> Codes:
    """Where paths that look one of h ways may be a keyframe later, (h, r, m, m).

    A path comes from behind: at most a tile or two backward, and anywhere within reach ahead and to the sides.
    """
    h, m = len(mass), mass.shape[-1]
    out = np.empty_like(mass)
    for heading in range(h):
        down, right = -math.cos(2 * math.pi * heading / h), math.sin(2 * math.pi * heading / h)
        out[heading] = _toward(m, down, reach).T @ mass[heading] @ _toward(m, right, reach)
    return np.asarray(np.tensordot(_turns(h), out, 1), np.float32)


def _toward(m: int, share: float, reach: int) -> Codes:
    """A move along one axis, (m, m), of which the heading has a share from -1 (against it) to 1 (along it)."""
    if abs(share) < 0.1:
        return _band(m, -reach, reach)
    back = 1 if abs(share) > 0.9 else max(1, reach // 2)
    return _band(m, -back, reach) if share > 0 else _band(m, -reach, back)


@cache
def _band(m: int, first: int, last: int) -> Codes:
    """A move by ``first`` to ``last`` cells along an axis of m, each as probable: from, to, (m, m)."""
    move = np.arange(m) - np.arange(m)[:, None]
    return ((move >= first) & (move <= last)).astype(np.float32) / np.float32(last - first + 1)


@cache
def _turns(h: int) -> Codes:
    """How probable it is to look one way after another: to, from, (h, h)."""
    apart = np.abs((np.arange(h)[:, None] - np.arange(h) + h // 2) % h - h // 2) * 8 / h
    shares = np.interp(apart, np.arange(5), (*TURN_SHARES, TURN_SHARES[-1]))
    return np.asarray(shares / shares.sum(0), np.float32)
