"""Where in the candidate regions is the camera? By each frame alone, or along the path.

Beliefs are log-probabilities over the tiles of the candidates, (c, m, m). Along the path the belief of a tile is the
best belief of the tiles from which it can be reached, plus the evidence of the frame: consecutive frames must agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from x2localizer import geo
from x2localizer.config import LocalizeSettings
from x2localizer.gallery.tiles import TileGrid

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Match:
    """The best tile: candidate, row and column (between tiles), the frame's similarity there, that of the frames of the
    last seconds with their best tiles, and the share of belief that lies within 80 m of it."""

    candidate: int
    row: float
    column: float
    similarity: float
    recent: float
    share: float


FADING = 0.85
"""What an older similarity counts against that of the frame after it."""


class Belief:
    """What is believed after some frames."""

    def __init__(self, grid: TileGrid, regions: npt.NDArray[np.float64], settings: LocalizeSettings) -> None:
        self.grid, self.settings = grid, settings
        start = settings.recall_weight * (regions - regions.max())
        self.log = _normalised(np.where(grid.valid, start[:, None, None], -np.inf))
        self.frames = 0
        self._recent: float | None = None
        self._tile_m = geo.tile_size_m(grid.place(0, 0, 0).lat_deg, grid.regions[0].z)

    def carried_over(self, grid: TileGrid, regions: npt.NDArray[np.float64]) -> Belief:
        """The belief on new candidates: where they overlap old ones what was believed there counts on."""
        fresh = Belief(grid, regions, self.settings)
        fresh.frames, fresh._recent = self.frames, self._recent
        if self.settings.matching == "frame":
            return fresh
        old: dict[tuple[int, int], float] = {}
        m = grid.valid.shape[1]
        for region, log in zip(self.grid.regions, self.log, strict=True):
            for row, column in zip(*np.nonzero(log > -30.0), strict=True):
                key = (2 * region.x + int(column), 2 * region.y + int(row))
                old[key] = max(old.get(key, -np.inf), float(log[row, column]))
        floor = math.log(max(self.settings.jump, 1e-12)) - math.log(fresh.log.size)
        carried = np.full(fresh.log.shape, floor)
        for i, region in enumerate(grid.regions):
            for row in range(m):
                for column in range(m):
                    found = old.get((2 * region.x + column, 2 * region.y + row))
                    if found is not None:
                        carried[i, row, column] = max(found, floor)
        fresh.log = _normalised(np.where(grid.valid, carried + fresh.log, -np.inf))
        return fresh

    def update(self, code: npt.NDArray[np.float32], seconds: float) -> Match:
        """Take in a frame's code (d,), so many seconds after the last; gives the best tile."""
        s = (self.grid.codes @ code).astype(np.float64)
        s[~self.grid.valid] = -np.inf
        self.frames += 1
        if self.settings.matching == "frame":
            self.log = _normalised(self.settings.sharpness * s)
            c, row, column = (int(v) for v in np.unravel_index(int(np.argmax(s)), s.shape))
            similarity = float(s[c, row, column])
            return Match(c, row, column, similarity, self._faded(similarity), self._share(c, row, column))
        cells = max(1, math.ceil(self.settings.max_speed_m_per_s * seconds / (self._tile_m / 2)))
        spread = _reachable(self.log, min(cells, s.shape[1]))
        if self.settings.jump:
            spread = np.logaddexp(spread, math.log(self.settings.jump) - math.log(spread.size))
        self.log = _normalised(spread + self.settings.sharpness * s)
        c, row, column = (int(v) for v in np.unravel_index(int(np.argmax(self.log)), s.shape))
        similarity = float(s[c, row, column])
        middle = self._middle(c, row, column)
        return Match(c, *middle, similarity, self._faded(similarity), self._share(c, row, column))

    def _faded(self, similarity: float) -> float:
        """The mean similarity of the last frames, the latest counting most."""
        self._recent = similarity if self._recent is None else FADING * self._recent + (1 - FADING) * similarity
        return self._recent

    def _middle(self, c: int, row: int, column: int) -> tuple[float, float]:
        """The centre of belief around a tile, finer than the tiles."""
        rows, columns = slice(max(0, row - 1), row + 2), slice(max(0, column - 1), column + 2)
        weight = np.exp(self.log[c, rows, columns] - self.log[c, row, column])
        r, k = np.mgrid[rows, columns][:, : weight.shape[0], : weight.shape[1]]
        return float((weight * r).sum() / weight.sum()), float((weight * k).sum() / weight.sum())

    def _share(self, c: int, row: int, column: int) -> float:
        """The share of all belief that lies within 80 m of a tile; overlapping candidates count once per place."""
        region = self.grid.regions[c]
        reach = geo.RIGHT_WITHIN_M / (self._tile_m / 2)
        m = self.log.shape[1]
        x = np.array([2 * r.x for r in self.grid.regions])[:, None, None] + np.arange(m)
        y = np.array([2 * r.y for r in self.grid.regions])[:, None, None] + np.arange(m)[:, None]
        near = (x - (2 * region.x + column)) ** 2 + (y - (2 * region.y + row)) ** 2 <= reach**2
        return float(np.exp(self.log[near]).sum())


def _reachable(log: Floats, cells: int) -> Floats:
    """The best belief within some tiles in each direction: a maximum filter, rows then columns."""
    out = log
    for axis in (1, 2):
        best = out.copy()
        for shift in range(1, cells + 1):
            ahead = [slice(None)] * 3
            behind = [slice(None)] * 3
            ahead[axis], behind[axis] = slice(shift, None), slice(None, -shift)
            np.maximum(best[tuple(behind)], out[tuple(ahead)], out=best[tuple(behind)])
            np.maximum(best[tuple(ahead)], out[tuple(behind)], out=best[tuple(ahead)])
        out = best
    return out


def _normalised(log: Floats) -> Floats:
    top = float(log.max())
    if top == -np.inf:
        return log
    return np.asarray(log - top - math.log(float(np.exp(log - top).sum())))
