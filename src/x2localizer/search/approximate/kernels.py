"""The loops of an approximate search, compiled: tiles vote for cells, cells for regions; and lists are filled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from x2localizer.compiled import compiled
from x2localizer.types import Codes, Ints

UInt8 = npt.NDArray[np.uint8]
UInt16 = npt.NDArray[np.uint16]
UInt32 = npt.NDArray[np.uint32]
Int32 = npt.NDArray[np.int32]
BINS = 1024
"""Of the histogram by which the lists nearest to a frame are chosen."""


@compiled
def choose_entries(points: Codes, books: Codes, half: Codes, products: Codes, entries: UInt8) -> None:
    """The nearest entry of each codebook, (n, levels); ``points``, (n, p), become what the entries leave over.

    books: entries as columns, (levels, p, 256). half: half their squared lengths, (levels, 256).
    products: room for 256 numbers. A loop of its own, because a product of small matrices waits for all threads of
    the library that computes it, each time.
    """
    count, p = points.shape
    for i in range(count):
        for level in range(len(books)):
            for entry in range(256):
                products[entry] = -half[level, entry]
            for direction in range(p):
                value = points[i, direction]
                for entry in range(256):
                    products[entry] += value * books[level, direction, entry]
            best = 0
            for entry in range(1, 256):
                if products[entry] > products[best]:
                    best = entry
            entries[i, level] = best
            for direction in range(p):
                points[i, direction] -= books[level, direction, best]


@compiled
def fill_lists(entries: UInt8, cells: UInt32, following: Ints, list_cells: UInt32, list_entries: UInt8) -> None:
    """Put codes into their lists. ``following``: the next free place of each list, (65536,), which moves on."""
    for i in range(len(entries)):
        number = 256 * entries[i, 0] + entries[i, 1]
        at = following[number]
        following[number] = at + 1
        list_cells[at] = cells[i]
        for level in range(2, entries.shape[1]):
            list_entries[at, level - 2] = entries[i, level]


@compiled
def vote(
    table: Codes, offsets: Ints, list_cells: UInt32, list_entries: UInt8, most: int, histogram: Ints, best: UInt8
) -> float:
    """How similar one frame is to the best of each cell's codes, among the codes of the lists nearest to it.

    Returns what one step of the answer is worth.

    table: what each entry adds to the similarity, (6, 256).
    most: codes that are compared, more or less.
    histogram: room for BINS numbers.
    best: the answer, (cells,): 0 where none of these codes is, up to 255 for a similarity of 1.
    """
    low, high = np.float32(1e9), np.float32(-1e9)
    for a in range(256):
        low, high = min(low, table[0, a]), max(high, table[0, a])
    least, greatest = np.float32(1e9), np.float32(-1e9)
    for b in range(256):
        least, greatest = min(least, table[1, b]), max(greatest, table[1, b])
    low, high = low + least, high + greatest
    per_bin = np.float32(BINS - 1) / max(high - low, np.float32(1e-6))
    for i in range(BINS):
        histogram[i] = 0
    for a in range(256):
        for b in range(256):
            number = 256 * a + b
            histogram[int((table[0, a] + table[1, b] - low) * per_bin)] += offsets[number + 1] - offsets[number]
    chosen, total = BINS - 1, histogram[BINS - 1]
    while chosen > 0 and total < most:
        chosen -= 1
        total += histogram[chosen]
    floor = low + chosen / per_bin
    scale = np.float32(254.0) / max(np.float32(1.0) - floor, np.float32(1e-3))
    for i in range(len(best)):
        best[i] = 0
    for a in range(256):
        for b in range(256):
            base = table[0, a] + table[1, b]
            if int((base - low) * per_bin) < chosen:
                continue
            number = 256 * a + b
            for i in range(offsets[number], offsets[number + 1]):
                s = (
                    base
                    + table[2, list_entries[i, 0]]
                    + table[3, list_entries[i, 1]]
                    + table[4, list_entries[i, 2]]
                    + table[5, list_entries[i, 3]]
                )
                if s > floor:
                    value = np.uint8(min(np.float32(255.0), 1 + (s - floor) * scale))
                    cell = list_cells[i]
                    best[cell] = max(best[cell], value)
    return float(np.float32(1.0) / scale)


@compiled
def sum_votes(best: UInt8, cells_of: Int32, scale: Codes, first: int, last: int, out: UInt16) -> None:
    """The votes of all frames for some regions: for each frame that of the best cell.

    best: votes for cells, (k, cells).
    cells_of: the cells of each region, (r, q); -1 where there is none.
    scale: what a vote of each frame is worth, (k,).
    """
    for region in range(first, last):
        total = np.float32(0.0)
        for frame in range(best.shape[0]):
            top = 0
            for i in range(cells_of.shape[1]):
                cell = cells_of[region, i]
                if cell >= 0:
                    top = max(top, best[frame, cell])
            total += scale[frame] * top
        out[region] = np.uint16(total)


@compiled
def gather_tiles(
    small: UInt8, valid: npt.NDArray[np.bool_], x: Ints, y: Ints, row_of: Int32, headings: int,
    codes: UInt8, held: npt.NDArray[np.bool_],
) -> None:  # fmt: skip
    """Codes in 8 bits of the tiles of some regions, (m, l h, p), and which hold data, (m, l).

    small: all codes, (blocks 256 h, p). valid: which tiles hold data, (blocks, 256).
    x, y: first tiles of the regions, in half tiles from the corner of their first block.
    row_of: the blocks that each region reaches into, (m, b, b); -1 where there is none.
    """
    side = int(held.shape[1] ** 0.5 + 0.5)
    p = small.shape[1]
    for region in range(len(x)):
        for line in range(side):
            down = y[region] + line
            for column in range(side):
                right = x[region] + column
                tile = line * side + column
                block = row_of[region, down // 16, right // 16]
                inside = 16 * (down % 16) + right % 16
                there = block >= 0 and valid[block, inside]
                held[region, tile] = there
                for heading in range(headings):
                    if there:
                        row = (np.int64(block) * 256 + inside) * headings + heading
                        for direction in range(p):
                            codes[region, tile * headings + heading, direction] = small[row, direction]
                    else:
                        for direction in range(p):
                            codes[region, tile * headings + heading, direction] = 128


@compiled
def best_products(products: Int32, held: npt.NDArray[np.bool_], headings: int, best: Int32) -> None:
    """The best product of each region and frame, (m, k), of products with the tiles that hold data, (m, l h, k)."""
    for region in range(len(products)):
        for frame in range(products.shape[2]):
            best[region, frame] = -(1 << 30)
        for code in range(products.shape[1]):
            if held[region, code // headings]:
                for frame in range(products.shape[2]):
                    best[region, frame] = max(best[region, frame], products[region, code, frame])
