"""Where in the candidate regions is the camera? By each frame alone, or along the path.

Along the path the belief is a histogram over the tiles of the candidates and 8 headings, (8, c, m, m). Between frames
it moves: along its heading at the speeds of a car, now and then turning. Then the frame's similarities weigh it. A
wrong tile that looks right does not move as a car does; that is what tells it from the right one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from x2localizer import geo
from x2localizer.config import LocalizeSettings
from x2localizer.gallery.tiles import TileGrid
from x2localizer.types import Floats, Ints

HEADINGS = 8
SPEEDS = ((0.0, 0.05), (8.0, 0.35), (13.0, 0.6))
"""Metres per second, and how probable each is in any second. Standing is made rarer than it is: it lets a tile that
resembles everything hold the belief."""
AROUND_M = 60.0
"""The best place is the one with the most belief so far around it, not the one tile that has most."""
FADING = 0.85
"""What an older similarity counts against that of the frame after it."""


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


class Belief:
    """What is believed after some frames."""

    def __init__(self, grid: TileGrid, regions: npt.NDArray[np.float64], settings: LocalizeSettings) -> None:
        self.grid, self.settings = grid, settings
        start = np.exp(settings.recall_weight * (regions - regions.max()))
        c, m = grid.valid.shape[:2]
        self.mass = _normalised(np.broadcast_to(np.where(grid.valid, start[:, None, None], 0.0), (HEADINGS, c, m, m)))
        self.frames = 0
        self._recent: float | None = None
        self._tile_m = geo.tile_size_m(grid.place(0, 0, 0).lat_deg, grid.regions[0].z)

    def carried_over(self, grid: TileGrid, regions: npt.NDArray[np.float64], anew: float | None = None) -> Belief:
        """The belief on new candidates: what was believed of their tiles, and a share that starts anew."""
        fresh = Belief(grid, regions, self.settings)
        fresh.frames, fresh._recent = self.frames, self._recent
        if self.settings.matching == "frame":
            return fresh
        share = self.settings.anew if anew is None else anew
        carried = self._on(grid)
        total = float(carried.sum())
        if total > 1e-9:  # what lay outside the new candidates starts anew too
            share = min(1.0, max(share, 1.0 - total))
            fresh.mass = _normalised((1 - share) * carried / total + share * fresh.mass)
        return fresh

    def _on(self, grid: TileGrid) -> Floats:
        """The old mass on the tiles of other candidates; where old ones overlap, the greater."""
        old: dict[tuple[int, int], Floats] = {}
        for i, region in enumerate(self.grid.regions):
            here = self.mass[:, i]
            for row, column in zip(*np.nonzero(here.sum(0) > 1e-8), strict=True):
                key = (2 * region.x + int(column), 2 * region.y + int(row))
                found = old.get(key)
                mass = here[:, row, column]
                old[key] = mass if found is None or mass.sum() > found.sum() else found
        carried = np.zeros((HEADINGS, *grid.valid.shape))
        m = grid.valid.shape[1]
        for i, region in enumerate(grid.regions):
            for row in range(m):
                for column in range(m):
                    found = old.get((2 * region.x + column, 2 * region.y + row))
                    if found is not None:
                        carried[:, i, row, column] = found
        return np.where(grid.valid, carried, 0.0)

    def update(self, code: npt.NDArray[np.float32], seconds: float) -> Match:
        """Take in a frame's code (d,), so many seconds after the last; gives the best tile."""
        s = (self.grid.codes @ code).astype(np.float64)
        s[~self.grid.valid] = -np.inf
        self.frames += 1
        weight = np.exp(self.settings.sharpness * (s - s.max()))
        if self.settings.matching == "frame":
            self.mass = _normalised(np.broadcast_to(weight, self.mass.shape))
            c, row, column = (int(v) for v in np.unravel_index(int(np.argmax(s)), s.shape))
            similarity = float(s[c, row, column])
            self._recent = self._faded(similarity)
            return Match(c, row, column, similarity, self._recent, self._share(c, row, column))
        for _ in range(min(max(1, round(seconds)), 2 * s.shape[1])):
            self.mass = moved(self.mass, self._tile_m / 2)
        count = HEADINGS * max(1, int(self.grid.valid.sum()))
        self.mass = _normalised((self.mass + self.settings.jump / count) * weight)
        match = self.best(code)
        self._recent = match.recent
        return match

    def best(self, code: npt.NDArray[np.float32]) -> Match:
        """The best tile as things stand; the code is that of the last frame."""
        places = self.mass.sum(0)
        offsets = disc(AROUND_M / (self._tile_m / 2))
        around = summed_around(places, offsets)
        c, row, column = (int(v) for v in np.unravel_index(int(np.argmax(around)), around.shape))
        near = _around(len(places[c]), row, column, offsets)
        best = int(np.argmax(places[c][near]))  # the tile that has most there: it holds data
        similarity = float(self.grid.codes[c, near[0][best], near[1][best]] @ code)
        middle = _middle(places[c], near)
        return Match(c, *middle, similarity, self._faded(similarity), self._share(c, *middle))

    def _faded(self, similarity: float) -> float:
        """The mean similarity of the last frames, the latest counting most."""
        return similarity if self._recent is None else FADING * self._recent + (1 - FADING) * similarity

    def _share(self, c: int, row: float, column: float) -> float:
        """The share of all belief that lies within 80 m of a place."""
        region = self.grid.regions[c]
        reach = geo.RIGHT_WITHIN_M / (self._tile_m / 2)
        m = self.mass.shape[-1]
        x = np.array([2 * r.x for r in self.grid.regions])[:, None, None] + np.arange(m)
        y = np.array([2 * r.y for r in self.grid.regions])[:, None, None] + np.arange(m)[:, None]
        near = (x - (2 * region.x + column)) ** 2 + (y - (2 * region.y + row)) ** 2 <= reach**2
        return float(self.mass.sum(0)[near].sum())


@cache
def disc(radius: float) -> tuple[tuple[int, int], ...]:
    """Rows and columns from a tile to those within a radius, in tiles."""
    reach = range(-int(radius), int(radius) + 1)
    return tuple((r, c) for r in reach for c in reach if r * r + c * c <= radius * radius)


def summed_around(places: Floats, offsets: tuple[tuple[int, int], ...]) -> Floats:
    """What lies around each tile of its candidate, (c, m, m)."""
    m, pad = places.shape[-1], max(max(pair) for pair in offsets)
    wide = np.pad(places, ((0, 0), (pad, pad), (pad, pad)))
    out = np.zeros_like(places)
    for dr, dc in offsets:
        out += wide[:, pad + dr : pad + dr + m, pad + dc : pad + dc + m]
    return out


def _around(m: int, row: int, column: int, offsets: tuple[tuple[int, int], ...]) -> tuple[Ints, Ints]:
    """Rows and columns of the tiles around one, within the m x m of its candidate."""
    near = [(row + dr, column + dc) for dr, dc in offsets if 0 <= row + dr < m and 0 <= column + dc < m]
    rows, columns = np.array(near, np.int64).T
    return rows, columns


def _middle(places: Floats, near: tuple[Ints, Ints]) -> tuple[float, float]:
    """The centre of belief of some tiles, finer than the tiles, (m, m)."""
    weight = places[near]
    return float(weight @ near[0] / weight.sum()), float(weight @ near[1] / weight.sum())


def moved(mass: Floats, cell_m: float, turning: float = 0.12) -> Floats:
    """The belief (8, c, m, m) one second later; what leaves a candidate is lost."""
    straight = 1.0 - turning
    turned = straight * mass + turning / 2 * (np.roll(mass, 1, 0) + np.roll(mass, -1, 0))
    out = np.zeros_like(mass)
    kernels = step_kernels(round(cell_m, 1))
    m = mass.shape[-1]
    for dr in (-1, 0, 1):
        for dc in (-1, 0, 1):
            share = kernels[:, dr + 1, dc + 1][:, None, None, None]
            to_r, to_c = slice(max(0, dr), m + min(0, dr)), slice(max(0, dc), m + min(0, dc))
            from_r, from_c = slice(max(0, -dr), m - max(0, dr)), slice(max(0, -dc), m - max(0, dc))
            out[:, :, to_r, to_c] += share * turned[:, :, from_r, from_c]
    return out


@cache
def step_kernels(cell_m: float) -> Floats:
    """Where a second takes the camera, by heading (north, north-east, ...): shares of the 3 x 3 tiles, (8, 3, 3)."""
    out = np.zeros((HEADINGS, 3, 3))
    for heading in range(HEADINGS):
        angle = 2 * math.pi * heading / HEADINGS
        for speed, share in SPEEDS:
            far = min(speed / cell_m, 1.0)
            down, right = -far * math.cos(angle), far * math.sin(angle)
            for dr, dc in ((0, 0), (0, 1), (1, 0), (1, 1)):  # split between the four nearest tiles
                weight = (abs(down) if dr else 1 - abs(down)) * (abs(right) if dc else 1 - abs(right))
                row, column = 1 + dr * int(np.sign(down)), 1 + dc * int(np.sign(right))
                out[heading, row, column] += share * weight
    return out


def _normalised(mass: Floats) -> Floats:
    total = float(mass.sum())
    return np.array(mass / total) if total > 0 else np.array(mass)
