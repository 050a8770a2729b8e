"""Inverted lists: codes that begin with the same two codebook entries lie together, each with the cell it is in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from x2localizer.search.approximate.cells import CellGrid, as_numbers
from x2localizer.search.approximate.codebooks import ENTRIES, LEVELS
from x2localizer.search.approximate.kernels import UInt8, UInt32, fill_lists
from x2localizer.search.approximate.parts import Part, PartFiles, save_array
from x2localizer.types import Bools, Ints

LISTS = ENTRIES * ENTRIES
NAMES = ("offsets", "cells", "entries", "ids")


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """All codes of an index.

    offsets: where each list begins, (65537,).
    cells: the cell of each code, (codes,), as a number in ``ids``.
    entries: its entries of the codebooks after the second, (codes, 4).
    ids: of all cells, sorted; see :class:`CellGrid`.
    """

    offsets: Ints
    cells: UInt32
    entries: UInt8
    ids: Ints

    @staticmethod
    def of(files: PartFiles, live: Bools, grid: CellGrid) -> Lists:
        """The lists of all parts. ``live``: which of their blocks count, (blocks,): those that were not replaced."""
        counts = np.zeros(LISTS, np.int64)
        found = [np.zeros(0, np.int64)]
        for part, own in _with_live(files, live):
            entries, cells = _codes(part, own, grid, files.headings)
            counts += np.bincount(entries[:, 0].astype(np.int64) * ENTRIES + entries[:, 1], minlength=LISTS)
            found.append(np.unique(cells))
        ids = np.unique(np.concatenate(found))
        offsets = np.concatenate([[0], np.cumsum(counts)])
        out = Lists(offsets, np.empty(offsets[-1], np.uint32), np.empty((offsets[-1], LEVELS - 2), np.uint8), ids)
        following = offsets[:-1].copy()
        for part, own in _with_live(files, live):
            entries, cells = _codes(part, own, grid, files.headings)
            fill_lists(entries, as_numbers(cells, ids), following, out.cells, out.entries)
        return out

    def save(self, folder: Path, name: str) -> None:
        """Write the lists, under a name of their own."""
        for what in NAMES:
            save_array(folder / f"lists-{name}.{what}.npy", getattr(self, what))

    @staticmethod
    def load(folder: Path, name: str) -> Lists:
        """Read lists; what does not fit together is a ValueError, a missing file an OSError."""
        lists = Lists(*(np.load(folder / f"lists-{name}.{what}.npy", allow_pickle=False) for what in NAMES))
        total = int(lists.offsets[-1]) if len(lists.offsets) == LISTS + 1 else -1
        cells_fit = not total or int(lists.cells.max()) < len(lists.ids)
        if lists.cells.shape != (total,) or lists.entries.shape != (total, LEVELS - 2) or not cells_fit:
            raise ValueError("the lists do not fit together")
        if int(lists.offsets[0]) or (np.diff(lists.offsets) < 0).any():
            raise ValueError("the lists are out of order")
        return lists


def _with_live(files: PartFiles, live: Bools) -> Iterator[tuple[Part, Bools]]:
    start = 0
    for part in files.read():
        yield part, live[start : start + len(part.places)]
        start += len(part.places)


def _codes(part: Part, live: Bools, grid: CellGrid, headings: int) -> tuple[UInt8, Ints]:
    """Entries (n, 6) and cells (n,) of all codes of tiles with data, in the blocks that count."""
    held = part.valid & live[:, None]
    cells = grid.of_blocks(part.places[:, 0])[held]
    entries = part.entries.reshape(*part.valid.shape, headings, LEVELS)[held]
    return np.ascontiguousarray(entries.reshape(-1, LEVELS)), np.repeat(cells, headings)
