"""Where in the candidate regions is the camera? By each frame alone, or along the path.

Along the path the belief is a histogram over the tiles of the candidates and 8 headings, (8, c, m, m). Between frames
it moves as the camera may: along its heading, now and then turning. Then the frame's similarities weigh it. A wrong
tile that looks right does not move as a camera does; that is what tells it from the right one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from x2localizer import geo
from x2localizer.config import LocalizeSettings, MotionSettings
from x2localizer.gallery.tiles import TileGrid
from x2localizer.motion import HEADINGS, step_kernels
from x2localizer.types import Codes, Floats, Ints, Region

AROUND_M = 60.0
"""The best place is the one with the most belief within this distance, not the one tile that has most."""
FADING = 0.85
"""Weight of an older similarity against that of the next frame."""


@dataclass(frozen=True, slots=True)
class Match:
    """The best place.

    candidate, row, column: where it is; rows and columns are in tiles at half stride and may lie between tiles.
    similarity: of the frame with the tile there.
    recent: mean similarity of the last frames with their best tiles.
    share: of all belief, what lies within 80 m.
    """

    candidate: int
    row: float
    column: float
    similarity: float
    recent: float
    share: float


class Belief:
    """What is believed after some frames."""

    def __init__(self, grid: TileGrid, regions: Floats, settings: LocalizeSettings) -> None:
        self.grid, self.settings = grid, settings
        start = np.exp(settings.recall_weight * (regions - regions.max()))
        c, m = grid.valid.shape[:2]
        self.mass = _normalised(np.broadcast_to(np.where(grid.valid, start[:, None, None], 0.0), (HEADINGS, c, m, m)))
        self.frames = 0
        self._recent: float | None = None
        self._tile_m = geo.tile_size_m(grid.place(0, 0, 0).lat_deg, grid.regions[0].z)

    def carried_over(self, grid: TileGrid, regions: Floats, restart_share: float | None = None) -> Belief:
        """The belief on new candidates: what was believed of their tiles, and a share that starts again."""
        fresh = Belief(grid, regions, self.settings)
        fresh.frames, fresh._recent = self.frames, self._recent
        if self.settings.matching == "frame":
            return fresh
        share = self.settings.restart_share if restart_share is None else restart_share
        carried = self._on(grid)
        total = float(carried.sum())
        if total > 1e-9:  # what lay outside the new candidates starts again too
            share = min(1.0, max(share, 1.0 - total))
            fresh.mass = _normalised((1 - share) * carried / total + share * fresh.mass)
        return fresh

    def _on(self, grid: TileGrid) -> Floats:
        """The old mass on the tiles of other candidates; where old ones overlap, the greater."""
        m = grid.valid.shape[1]
        half = np.arange(m)
        old: dict[tuple[int, int], Floats] = {}
        for i, region in enumerate(self.grid.regions):
            mass = self.mass[:, i]
            total = mass.sum(0)
            xs, ys = half_columns(region, half), 2 * region.y + half
            for row, column in zip(*np.nonzero(total > 1e-8), strict=True):
                place = (int(xs[column]), int(ys[row]))
                other = old.get(place)
                if other is None or total[row, column] > other.sum():
                    old[place] = mass[:, row, column]
        carried = np.zeros((HEADINGS, *grid.valid.shape))
        for i, region in enumerate(grid.regions):
            xs, ys = half_columns(region, half), 2 * region.y + half
            for row in range(m):
                for column in range(m):
                    mass_there = old.get((int(xs[column]), int(ys[row])))
                    if mass_there is not None:
                        carried[:, i, row, column] = mass_there
        return np.where(grid.valid, carried, 0.0)

    def update(self, code: Codes, seconds: float) -> Match:
        """Take in a frame's code (d,), ``seconds`` after the previous frame; returns the best place."""
        seen = self._by_heading(code)
        s = seen.max(0)
        self.frames += 1
        weight = np.exp(self.settings.sharpness * (seen - seen.max()))
        if self.settings.matching == "frame":
            self.mass = _normalised(weight)
            c, row, column = (int(v) for v in np.unravel_index(int(np.argmax(s)), s.shape))
            similarity = float(s[c, row, column])
            self._recent = self._faded(similarity)
            return Match(c, row, column, similarity, self._recent, self._share(c, row, column))
        for _ in range(min(max(1, round(seconds)), 2 * s.shape[1])):
            self.mass = moved(self.mass, self._tile_m / 2, self.settings.motion)
        count = HEADINGS * max(1, int(self.grid.valid.sum()))
        self.mass = _normalised((self.mass + self.settings.teleport_probability / count) * weight)
        match = self.best(code)
        self._recent = match.recent
        return match

    def _by_heading(self, code: Codes) -> Floats:
        """Similarities of a frame with all tiles, for each heading of the belief, (8, c, m, m)."""
        s = (self.grid.codes @ code).astype(np.float64)
        s[~self.grid.valid] = -np.inf
        return np.moveaxis(s[..., np.arange(HEADINGS) * s.shape[-1] // HEADINGS], -1, 0)

    def best(self, code: Codes) -> Match:
        """The best place as things stand; the code is that of the last frame."""
        places = self.mass.sum(0)
        offsets = disc(AROUND_M / (self._tile_m / 2))
        around = summed_around(places, offsets)
        c, row, column = (int(v) for v in np.unravel_index(int(np.argmax(around)), around.shape))
        near = _around(len(places[c]), row, column, offsets)
        best = int(np.argmax(places[c][near]))  # the tile that has most there: it holds data
        similarity = float((self.grid.codes[c, near[0][best], near[1][best]] @ code).max())
        middle = _middle(places[c], near)
        return Match(c, *middle, similarity, self._faded(similarity), self._share(c, *middle))

    def _faded(self, similarity: float) -> float:
        """The mean similarity of the last frames, the latest counting most."""
        return similarity if self._recent is None else FADING * self._recent + (1 - FADING) * similarity

    def _share(self, c: int, row: float, column: float) -> float:
        """The share of all belief that lies within 80 m of a place."""
        here = self.grid.regions[c]
        radius = geo.RIGHT_WITHIN_M / (self._tile_m / 2)
        m, world = self.mass.shape[-1], 2 << here.z
        half = np.arange(m)
        x = np.stack([half_columns(region, half) for region in self.grid.regions])[:, None, :]
        y = np.array([2 * region.y for region in self.grid.regions])[:, None, None] + half[:, None]
        east = (x - (2 * here.x + column) + world / 2) % world - world / 2
        near = east**2 + (y - (2 * here.y + row)) ** 2 <= radius**2
        return float(self.mass.sum(0)[near].sum())


def half_columns(region: Region, half: Ints) -> Ints:
    """Columns of a region in half tiles from the antimeridian, going round the world."""
    columns: Ints = (2 * region.x + half) % (2 << region.z)
    return columns


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


def moved(mass: Floats, cell_m: float, motion: MotionSettings) -> Floats:
    """The belief (8, c, m, m) one second later; what leaves a candidate is lost."""
    turn = motion.turn_share
    turned = (1.0 - turn) * mass + turn / 2 * (np.roll(mass, 1, 0) + np.roll(mass, -1, 0))
    out = np.zeros_like(mass)
    kernels = step_kernels(motion, round(cell_m, 1))
    m = mass.shape[-1]
    for dr in (-1, 0, 1):
        for dc in (-1, 0, 1):
            share = kernels[:, dr + 1, dc + 1][:, None, None, None]
            to_r, to_c = slice(max(0, dr), m + min(0, dr)), slice(max(0, dc), m + min(0, dc))
            from_r, from_c = slice(max(0, -dr), m - max(0, dr)), slice(max(0, -dc), m - max(0, dc))
            out[:, :, to_r, to_c] += share * turned[:, :, from_r, from_c]
    return out


def _normalised(mass: Floats) -> Floats:
    total = float(mass.sum())
    return np.array(mass / total) if total > 0 else np.array(mass)
