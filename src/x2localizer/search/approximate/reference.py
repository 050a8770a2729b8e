"""The exact answer by s_path in a gallery of any size: one pass over its tiles for many windows, a row of regions at a
time. Slow, and only for measuring how often an approximate search answers the same.

Most regions are left out by a bound. The mass of all paths that end at a tile is at most the mass of all paths before,
divided by the tiles within reach, times the odds of the tile. So the odds of a frame, summed over a region and divided
by that number, bound how the mass of paths grows with the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from x2localizer.gallery.grid import BLOCK, HALVES
from x2localizer.gallery.store import Gallery
from x2localizer.similarity.aggregate import TAU_SUM, summed_paths
from x2localizer.types import Bools, Codes, Floats, Ints

LEAST = np.float32(-1.0)
"""The similarity of a tile without data: its odds are e^-20."""


@dataclass(frozen=True, slots=True, eq=False)
class ExactRegions:
    """The best regions for a window: rows of the table and scores, best first; compared: how many regions were."""

    rows: Ints
    scores: Codes
    compared: int


def exact_best(
    gallery: Gallery, windows: list[Codes], reach: int, k: int = 10, least: Floats | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[ExactRegions]:  # fmt: skip
    """The best k regions for each of some windows, (frames, d) each, by s_path; tiles must have one heading.

    least: scores that the k-th best of each window is known to reach, (windows,).
    """
    table, side = gallery.regions, 2 * gallery.manifest.region_tiles - 1
    frames = np.concatenate(windows).astype(np.float32)
    per = len(windows[0])
    x0 = 2 * int(table.x.min())
    width = 2 * int(table.x.max() - table.x.min()) + side
    bands = _Bands(gallery, frames, x0, width)
    found: list[list[tuple[float, int]]] = [[] for _ in windows]
    compared = np.zeros(len(windows), np.int64)
    floor = np.full(len(windows), -np.inf) if least is None else least.astype(np.float64) - 1e-5
    starts = np.flatnonzero(np.diff(table.y, prepend=-1))
    for number, (first, last) in enumerate(zip(starts, np.append(starts[1:], len(table)), strict=True)):
        columns = 2 * table.x[first:last] - x0
        s, valid = bands.rows(2 * int(table.y[first]), side)  # (side, width, windows * per), (side, width)
        bound = _bounds(s, valid, columns, side, reach, len(windows))
        for w in range(len(windows)):
            near = np.flatnonzero(bound[:, w] >= floor[w])
            if len(near):
                scores = _scores(s[:, :, w * per : (w + 1) * per], valid, columns[near], side, reach)
                found[w] += list(zip(scores.tolist(), (-(first + near)).tolist(), strict=True))
                found[w] = sorted(found[w], reverse=True)[:k]
                compared[w] += len(near)
                if len(found[w]) == k:
                    floor[w] = max(floor[w], found[w][-1][0] - 1e-5)
        progress(number + 1, len(starts))
    return [
        ExactRegions(
            np.array([-row for _, row in best]), np.array([score for score, _ in best], np.float32), int(count)
        )
        for best, count in zip(found, compared, strict=True)
    ]


class _Bands:
    """Similarities of all frames with rows of tiles; those of a row of blocks are worked out once."""

    def __init__(self, gallery: Gallery, frames: Codes, x0: int, width: int) -> None:
        self._gallery, self._frames, self._x0, self._width = gallery, frames, x0, width
        self._kept: dict[int, tuple[Codes, Bools]] = {}

    def rows(self, first: int, count: int) -> tuple[Codes, Bools]:
        """Rows of tiles from the first on, in half tiles."""
        blocks = range(first // HALVES, (first + count - 1) // HALVES + 1)
        self._kept = {block: self._kept[block] if block in self._kept else self._band(block) for block in blocks}
        start = first - blocks[0] * HALVES
        s, valid = (np.concatenate([self._kept[block][i] for block in blocks]) for i in (0, 1))
        return s[start : start + count], valid[start : start + count]

    def _band(self, number: int) -> tuple[Codes, Bools]:
        zoom = self._gallery.manifest.zoom
        y = number * BLOCK << zoom
        s = np.full((HALVES, self._width, len(self._frames)), LEAST, np.float32)
        valid = np.zeros((HALVES, self._width), np.bool_)
        for block in self._gallery.tile_blocks_between(y, y + (1 << zoom) - 1):
            start = 2 * block.x - self._x0
            inside = slice(max(0, start), min(self._width, start + HALVES))
            own = slice(inside.start - start, inside.stop - start)
            if inside.start < inside.stop:
                held = block.valid[:, own]
                codes = block.codes[:, own, 0]
                products = (codes.reshape(-1, codes.shape[-1]) @ self._frames.T).reshape(*held.shape, -1)
                s[:, inside] = np.where(held[..., None], products, LEAST)
                valid[:, inside] = held
        return s, valid


def _bounds(s: Codes, valid: Bools, columns: Ints, side: int, reach: int, windows: int) -> Floats:
    """At least the similarity of each region of a row, (regions, windows)."""
    odds = np.exp(s / np.float32(TAU_SUM)).sum(0, dtype=np.float64)  # (width, windows * per)
    sums = np.concatenate([np.zeros((1, odds.shape[1])), odds.cumsum(0)])
    growth = (sums[columns + side] - sums[columns]).reshape(len(columns), windows, -1)
    held = np.concatenate([[0], valid.sum(0).cumsum()])
    count = np.maximum(held[columns + side] - held[columns], 1)
    growth[..., 0] /= count[:, None]  # paths begin at any tile
    growth[..., 1:] /= (2 * reach + 1) ** 2
    return np.asarray(TAU_SUM * np.log(np.maximum(growth, 1e-300)).mean(-1), np.float64)


def _scores(s: Codes, valid: Bools, columns: Ints, side: int, reach: int) -> Codes:
    return np.concatenate([_part(s, valid, part, side, reach) for part in _parts(columns)])


def _part(s: Codes, valid: Bools, columns: Ints, side: int, reach: int) -> Codes:
    across = columns[:, None] + np.arange(side)
    own = s[:, across].transpose(1, 3, 0, 2).reshape(len(columns), s.shape[2], -1)
    held = valid[:, across].transpose(1, 0, 2).reshape(len(columns), -1)
    return summed_paths(np.ascontiguousarray(own), None if held.all() else held, reach=reach)


def _parts(columns: Ints, size: int = 512) -> Iterator[Ints]:
    for start in range(0, len(columns), size):
        yield columns[start : start + size]
