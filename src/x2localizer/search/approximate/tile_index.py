"""The best regions for a window among any number: tiles vote, and the regions with the most votes are compared.

1. For each frame, the lists of codes nearest to it are read. Each code in them votes for its cell by its similarity, as
   its codebook entries tell it. A region has the votes of its best cell for each frame.
2. The regions with the most votes are compared by their codes in 8 bits, which are read from disk.
3. The best of these are compared by the codes of the gallery. Their scores are exactly those of the exact search; what
   is approximate is only which regions came this far.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from x2localizer.gallery.grid import BLOCK
from x2localizer.gallery.store import Gallery
from x2localizer.search.approximate.cells import CellGrid, blocks_around, find
from x2localizer.search.approximate.codebooks import Bytes, Codebooks
from x2localizer.search.approximate.kernels import (
    BINS,
    LANES,
    Int32,
    UInt16,
    add_votes,
    best_products,
    gather_tiles,
    side_by_side,
    vote,
)
from x2localizer.search.approximate.lists import Lists
from x2localizer.search.approximate.manifest import damaged, index_folder, read_manifest
from x2localizer.search.approximate.parts import PartFiles
from x2localizer.search.codes import ByteQuery, byte_product
from x2localizer.similarity import Compared
from x2localizer.types import Bools, Codes, Ints

VOTES_PER_FRAME, VOTES_SHARE = 100_000, 1 / 36
"""Codes that are compared with a frame in the first step: at least so many, and this share of all."""
VOTED, VOTED_WITH_HEADINGS, VOTED_SHARE = 5000, 2000, 0.03
"""Regions that come into the second step: at least so many, and this share of all; each heading of a tile is a code to
compare. On a large map more of it looks like a frame by chance: of the ten best regions of a million, the votes of
100,000 codes have 54% among the first 5,000, those of a million codes 98% among the first 30,000."""
AT_ONCE = 250
"""Regions whose tiles are held at once, by each thread."""


@dataclass(frozen=True, slots=True, eq=False)
class _SmallQuery:
    """Frames as bytes; what a product is worth, (k,), and what the mean of all codes adds, (k,)."""

    packed: ByteQuery
    step: Codes
    offset: Codes


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
            self._small = np.asarray(files.codes(len(places)))  # a plain view of the mapped file, for kernels
        except (OSError, ValueError, KeyError, IndexError) as problem:
            raise damaged(gallery) from problem
        if (
            len(self._valid) != len(places)
            or len(places) < self.manifest.blocks
            or len(self._lists.cells) != self.manifest.codes
        ):
            raise damaged(gallery)
        self._ids, rows = np.unique(places[::-1, 0], return_index=True)  # the last row of each block counts
        self._rows = len(places) - 1 - rows
        grid = CellGrid(m.zoom, m.region_tiles, m.stride)
        cells_of = grid.of_regions(self.table, self._lists.ids)
        self._cells_of = np.where(cells_of < 0, len(self._lists.ids), cells_of).astype(np.int32)
        self._threads = threads or os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self._threads)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def candidates(self, frames: Codes, allowed: Bools | None = None, most: int | None = None) -> Ints:
        """The regions with the most votes of some frames, (k, d), in order of their rows."""
        rows = np.arange(len(self.table)) if allowed is None else np.flatnonzero(allowed)
        least_kept = VOTED if self.headings == 1 else VOTED_WITH_HEADINGS
        most = most or max(least_kept, round(VOTED_SHARE * len(rows)))
        if len(rows) <= most:
            return rows
        share = len(rows) / len(self.table)  # of the codes near a frame, only those at allowed places count
        codes = len(self._lists.cells)
        votes = self._votes(frames, int(min(max(VOTES_PER_FRAME / share, VOTES_SHARE * codes), codes)))[rows]
        counts = np.cumsum(np.bincount(votes, minlength=1)[::-1])[::-1]  # regions with at least so many votes
        least = int(np.flatnonzero(counts >= most)[-1])
        sure, tied = np.flatnonzero(votes > least), np.flatnonzero(votes == least)
        return np.sort(rows[np.append(sure, tied[: most - len(sure)])])

    def _votes(self, frames: Codes, most: int) -> UInt16:
        """Votes for all regions, (r,)."""
        lists, tables = self._lists, self._books.tables(frames)
        best = np.empty((len(frames), len(lists.ids)), np.uint8)

        def of_frame(i: int) -> float:
            room = np.empty(BINS, np.int64), np.empty((4, 256), np.float32)
            return vote(tables[i], lists.offsets, lists.cells, lists.entries, most, *room, best[i])

        worth = np.array(list(self._pool.map(of_frame, range(len(frames)))), np.float32)
        scale = worth / worth.max() * np.float32(min(60_000 / (255 * len(frames)), 16.0))
        total = np.zeros(len(self.table), np.float32)
        votes = np.zeros((len(lists.ids) + 1, LANES), np.uint8)  # the last cell has none, for regions that reach out
        for start in range(0, len(frames), LANES):
            self._add_votes(best[start : start + LANES], scale[start : start + LANES], votes, total)
        return total.astype(np.uint16)

    def _add_votes(self, best: Bytes, scale: Codes, votes: Bytes, total: Codes) -> None:
        """Add the votes of at most LANES frames; ``votes`` is room for them."""
        worth = np.zeros(LANES, np.float32)  # of the lanes without a frame: nothing
        worth[: len(scale)] = scale
        self._in_parts(lambda first, last: side_by_side(best, first, last, votes), best.shape[1])

        def of_regions(first: int, last: int) -> None:
            add_votes(votes, self._cells_of, worth, first, last, np.empty(LANES, np.uint8), total)

        self._in_parts(of_regions, len(total))

    def by_parts(self, work: Callable[[Ints], Codes], rows: Ints) -> Codes:
        """What some work gives for regions, (m,), a few of them at a time, in all threads."""
        parts = [rows[start : start + AT_ONCE] for start in range(0, len(rows), AT_ONCE)]
        return np.concatenate(list(self._pool.map(work, parts)))

    def best_tiles(self, frames: Codes, rows: Ints) -> Codes:
        """About the mean over frames of the best tile of some regions, (m,), by codes in 8 bits."""
        query = self._query(frames)

        def part(some: Ints) -> Codes:
            products, held = self._products(query, some)
            best = np.empty((len(held), len(frames)), np.int32)
            best_products(products, held, self.headings, best)
            return np.asarray(((best - query.packed.zero) * query.step + query.offset).mean(1), np.float32)

        return self.by_parts(part, rows)

    def compared(self, frames: Codes, rows: Ints, reach: int) -> Compared:
        """Frames compared with the tiles of some regions by codes in 8 bits."""
        query = self._query(frames)
        products, held = self._products(query, rows)
        s_tok = (products - query.packed.zero).transpose(0, 2, 1) * query.step[:, None] + query.offset[:, None]
        valid = None if held.all() else held
        return Compared(np.ascontiguousarray(s_tok, np.float32), None, valid, reach=reach, headings=self.headings)

    def _query(self, frames: Codes) -> _SmallQuery:
        books = self._books
        packed = ByteQuery.of((frames @ books.basis) * books.step)
        return _SmallQuery(packed, packed.step.astype(np.float32), np.asarray(frames @ books.mean, np.float32))

    def _products(self, query: _SmallQuery, rows: Ints) -> tuple[Int32, Bools]:
        """Products of frames with the tiles of some regions, (m, l h, k), and which tiles hold data, (m, l).

        Products are too large by ``zero``.
        """
        table = self.table
        x, y, per = table.x[rows], table.y[rows], (2 * table.n - 1) ** 2
        row_of = find(blocks_around(x, y, table.n, table.zoom), self._ids)
        row_of = np.where(row_of >= 0, self._rows[row_of], -1).astype(np.int32)
        codes = np.empty((len(rows), per * self.headings, self._small.shape[1]), np.uint8)
        held = np.empty((len(rows), per), np.bool_)
        blocks, flat = self._small.reshape(len(self._valid), -1), codes.reshape(len(rows), -1)
        gather_tiles(blocks, self._valid, 2 * (x % BLOCK), 2 * (y % BLOCK), row_of, flat, held)
        products = byte_product(1).run(None, {"a": codes.reshape(-1, codes.shape[2]), "b": query.packed.columns})[0]
        return products.reshape(*codes.shape[:2], -1), held

    def _in_parts(self, work: Callable[[int, int], None], count: int) -> None:
        """Do some work by parts, from a first to a last number, in all threads."""
        ends = [int(end) for end in np.linspace(0, count, self._threads + 1)]
        list(self._pool.map(work, ends[:-1], ends[1:]))
