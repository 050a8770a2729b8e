"""The best regions for a window among any number: tiles vote, and the regions with the most votes are compared.

1. For each frame, the lists of codes nearest to it are read. Each code in them votes for its cell by its similarity, as
   its codebook entries tell it. A region has the votes of its best cell for each frame.
2. The regions with the most votes are compared by their codes in 8 bits, which are read from disk.
3. The best of these are compared by the codes of the gallery. Their scores are exactly those of the exact search; what
   is approximate is only which regions came this far.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from x2localizer.gallery.grid import BLOCK, HALVES
from x2localizer.gallery.store import Gallery
from x2localizer.gallery.tiles import TILES_PER_BLOCK
from x2localizer.search.approximate.cells import CellGrid, blocks_around, find
from x2localizer.search.approximate.codebooks import Codebooks
from x2localizer.search.approximate.kernels import BINS, UInt16, sum_votes, vote
from x2localizer.search.approximate.lists import Lists
from x2localizer.search.approximate.manifest import damaged, index_folder, read_manifest
from x2localizer.search.approximate.parts import PartFiles
from x2localizer.similarity import Compared
from x2localizer.types import Bools, Codes, Ints

VOTES_PER_FRAME = 100_000
"""Codes that are compared with a frame in the first step."""
VOTED = 1500
"""Regions that come into the second step."""


class TileIndex:
    """An approximate index, opened: from a window to the regions that may hold it, with similarities of their tiles.

    Memory: 8 bytes for each code. Codes in 8 bits stay on disk, and in the memory that the system has left.
    """

    def __init__(self, gallery: Gallery, threads: int = 0) -> None:
        self.manifest = read_manifest(gallery)
        folder, m = index_folder(gallery), gallery.manifest
        files = PartFiles(folder, self.manifest.books, m.headings, self.manifest.directions)
        self.table, self.headings = gallery.regions, m.headings
        try:
            self._books = Codebooks.load(folder / f"books-{self.manifest.books}.npz")
            self._lists = Lists.load(folder, self.manifest.lists)
            places, self._valid = files.places(), files.valid()
            self._small = files.codes(len(places))
        except (OSError, ValueError, KeyError, IndexError) as problem:
            raise damaged(gallery) from problem
        if len(self._valid) != len(places) or len(places) < self.manifest.blocks or len(self._lists.cells) != self.manifest.codes:
            raise damaged(gallery)
        self._ids, rows = np.unique(places[::-1, 0], return_index=True)  # the last row of each block counts
        self._rows = len(places) - 1 - rows
        grid = CellGrid(m.zoom, m.region_tiles, m.stride)
        self._cells_of = grid.of_regions(self.table, self._lists.ids)
        self._threads = threads or os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self._threads)

    def candidates(self, frames: Codes, allowed: Bools | None = None, most: int = VOTED) -> Ints:
        """The regions with the most votes of some frames, (k, d), in order of their rows."""
        rows = np.arange(len(self.table)) if allowed is None else np.flatnonzero(allowed)
        if len(rows) <= most:
            return rows
        share = len(rows) / len(self.table)  # of the codes near a frame, only those at allowed places count
        votes = self._votes(frames, int(min(VOTES_PER_FRAME / share, len(self._lists.cells))))[rows]
        counts = np.cumsum(np.bincount(votes, minlength=1)[::-1])[::-1]  # regions with at least so many votes
        least = int(np.flatnonzero(counts >= most)[-1])
        sure, tied = np.flatnonzero(votes > least), np.flatnonzero(votes == least)
        return np.sort(rows[np.append(sure, tied[: most - len(sure)])])

    def _votes(self, frames: Codes, most: int) -> UInt16:
        """Votes for all regions, (r,)."""
        lists, tables = self._lists, self._books.tables(frames)
        best = np.empty((len(frames), len(lists.ids)), np.uint8)

        def of_frame(i: int) -> float:
            histogram = np.empty(BINS, np.int64)
            return vote(tables[i], lists.offsets, lists.cells, lists.entries, most, histogram, best[i])

        worth = np.array(list(self._pool.map(of_frame, range(len(frames)))), np.float32)
        out = np.empty(len(self.table), np.uint16)
        scale = worth / worth.max() * np.float32(min(60_000 / (255 * len(frames)), 16.0))
        ends = np.linspace(0, len(out), 4 * self._threads + 1).astype(np.int64)
        list(self._pool.map(
            lambda i: sum_votes(best, self._cells_of, scale, ends[i], ends[i + 1], out), range(len(ends) - 1)
        ))  # fmt: skip
        return out

    def compared(self, frames: Codes, rows: Ints, reach: int) -> Compared:
        """Frames compared with the tiles of some regions by codes in 8 bits."""
        codes, valid = self._tiles(rows)
        books = self._books
        scaled = np.asarray((frames @ books.basis) * books.step, np.float32)
        flat = codes.reshape(-1, codes.shape[-1]).astype(np.float32)
        s_tok = (flat @ scaled.T).reshape(len(rows), -1, len(frames)).transpose(0, 2, 1) + (frames @ books.mean)[:, None]
        return Compared(np.ascontiguousarray(s_tok, np.float32), None, valid, reach=reach, headings=self.headings)

    def _tiles(self, rows: Ints) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int8]], Bools]:
        """Codes of the tiles of some regions, (r, l, h, p), and which hold data, (r, l)."""
        table = self.table
        x, y, side = table.x[rows], table.y[rows], 2 * table.n - 1
        row_of = find(blocks_around(x, y, table.n, table.zoom), self._ids)
        row_of = np.where(row_of >= 0, self._rows[row_of], -1)  # (r, b, b)
        half = np.arange(side)
        across, down = 2 * (x % BLOCK)[:, None] + half, 2 * (y % BLOCK)[:, None] + half  # (r, side)
        which = np.arange(len(rows))[:, None, None]
        block = row_of[which, (down // HALVES)[:, :, None], (across // HALVES)[:, None, :]]
        inside = (down % HALVES * HALVES)[:, :, None] + (across % HALVES)[:, None, :]
        there = block >= 0
        block = np.where(there, block, 0)
        valid = (self._valid[block, inside] & there).reshape(len(rows), -1)
        tiles = (block * TILES_PER_BLOCK + inside).reshape(len(rows), -1)
        small = self._small.reshape(-1, self.headings * self._small.shape[1])[tiles]
        return small.reshape(*tiles.shape, self.headings, -1), valid
