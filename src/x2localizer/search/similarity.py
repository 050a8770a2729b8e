"""s_g, s_f and s_mix of the paper (equations 5 to 10 and 15) in numpy, for one prefix against many regions.

Shapes: k frame tokens of the prefix, r regions, l tile tokens each, d embedding.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]


NO_DATA = np.float32(-1e6)
"""The similarity of a tile without data: it never gets any weight."""


def token_similarity(frames: Codes, tiles: Codes) -> Codes:
    """s_tok: (k, d) and (r, l, d) -> (r, k, l)."""
    r, per, d = tiles.shape
    return np.ascontiguousarray((tiles.reshape(r * per, d) @ frames.T).reshape(r, per, -1).transpose(0, 2, 1))


def soft_aggregate(values: Codes, temperature: float, axis: int) -> Codes:
    """Mean along an axis, weighted by the softmax of the values themselves; near zero temperature a maximum."""
    top = values.max(axis, keepdims=True)
    weights = np.exp((values - top) / np.float32(temperature))
    out: Codes = (weights * values).sum(axis) / weights.sum(axis)
    return out


def fine_similarity(s_tok: Codes, temperature: float, valid: Bools | None = None) -> Codes:
    """s_f: both orders of aggregation, averaged; tiles without data (r, l) do not count. (r, k, l) -> (r,)."""
    ground_values = s_tok if valid is None else np.where(valid[:, None], s_tok, NO_DATA)
    ground = soft_aggregate(soft_aggregate(ground_values, temperature, 2), temperature, 1)
    per_tile = soft_aggregate(s_tok, temperature, 1)
    if valid is not None:
        per_tile = np.where(valid, per_tile, NO_DATA)
    aerial = soft_aggregate(per_tile, temperature, 1)
    return np.asarray((ground + aerial) / 2, np.float32)


def best_tiles(s_tok: Codes, valid: Bools | None = None) -> Codes:
    """The mean over frames of the best tile: (r, k, l) -> (r,)."""
    seen = s_tok if valid is None else np.where(valid[:, None], s_tok, NO_DATA)
    out: Codes = seen.max(2).mean(1)
    return out
