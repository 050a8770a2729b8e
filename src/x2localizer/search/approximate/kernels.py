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
LANES = 8
"""Frames whose votes are counted at once."""


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
    table: Codes, offsets: Ints, list_cells: UInt32, list_entries: UInt8, most: int, histogram: Ints, steps: Codes,
    best: UInt8,
) -> float:  # fmt: skip
    """How similar one frame is to the best of each cell's codes, among the codes of the lists nearest to it.

    Returns what one step of the answer is worth.

    table: what each entry adds to the similarity, (6, 256).
    most: codes that are compared, more or less.
    histogram, steps: room for BINS numbers, and for (4, 256).
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
    for level in range(4):
        for entry in range(256):
            steps[level, entry] = table[level + 2, entry] * scale
    for a in range(256):
        for b in range(256):
            base = table[0, a] + table[1, b]
            if int((base - low) * per_bin) < chosen:
                continue
            start = (base - floor) * scale + np.float32(1.0)
            number = 256 * a + b
            for i in range(offsets[number], offsets[number + 1]):  # without branches, which nothing could predict
                s = (
                    start
                    + steps[0, list_entries[i, 0]]
                    + steps[1, list_entries[i, 1]]
                    + steps[2, list_entries[i, 2]]
                    + steps[3, list_entries[i, 3]]
                )
                value = np.uint8(max(np.float32(0.0), min(np.float32(255.0), s)))
                cell = list_cells[i]
                best[cell] = max(best[cell], value)
    return float(np.float32(1.0) / scale)


@compiled
def side_by_side(best: UInt8, first: int, last: int, votes: UInt8) -> None:
    """The votes of at most LANES frames for each cell beside each other, (cells, LANES), from those of each frame."""
    for cell in range(first, last):
        for frame in range(best.shape[0]):
            votes[cell, frame] = best[frame, cell]


@compiled
def add_votes(votes: UInt8, cells_of: Int32, scale: Codes, first: int, last: int, top: UInt8, total: Codes) -> None:
    """Add to the total of some regions, (r,), the votes of some frames: for each frame that of the best cell.

    votes: for cells, (cells, LANES).
    cells_of: the cells of each region, (r, q).
    scale: what a vote of each frame is worth, (LANES,).
    top: room for the votes of a region, (LANES,).
    """
    for region in range(np.uint64(first), np.uint64(last)):  # signs, and a number of frames that varies, cost twice
        cells = cells_of[region]
        for frame in range(np.uint64(LANES)):
            top[frame] = 0
        for i in range(np.uint64(len(cells))):
            of_cell = votes[np.uint32(cells[i])]
            for frame in range(np.uint64(LANES)):
                top[frame] = max(top[frame], of_cell[frame])
        for frame in range(np.uint64(LANES)):
            total[region] += scale[frame] * np.float32(top[frame])


@compiled
def gather_tiles(
    small: UInt8, valid: npt.NDArray[np.bool_], x: Ints, y: Ints, row_of: Int32, codes: UInt8,
    held: npt.NDArray[np.bool_],
) -> None:  # fmt: skip
    """Codes in 8 bits of the tiles of some regions, (m, l h p), and which hold data, (m, l); others have any code.

    small: all codes, (blocks, 256 h p). valid: which tiles hold data, (blocks, 256).
    x, y: first tiles of the regions, in half tiles from the corner of their first block.
    row_of: the blocks that each region reaches into, (m, b, b); -1 where there is none.
    """
    side = int(held.shape[1] ** 0.5 + 0.5)
    width = small.shape[1] // 256
    for region in range(len(x)):
        of_region = codes[region]
        for line in range(side):
            down = y[region] + line
            column = 0
            while column < side:  # what lies side by side in a block is copied at once
                right = x[region] + column
                count = min(16 - right % 16, side - column)
                tile, inside = line * side + column, 16 * (down % 16) + right % 16
                block = row_of[region, down // 16, right // 16]
                for i in range(count):
                    held[region, tile + i] = block >= 0 and valid[block, inside + i]
                if block >= 0:
                    of_block = small[block]
                    to, start = np.uint64(tile * width), np.uint64(inside * width)  # a sign costs six times as much
                    for i in range(np.uint64(count * width)):
                        of_region[to + i] = of_block[start + i]
                column += count


@compiled
def best_products(products: Int32, held: npt.NDArray[np.bool_], headings: int, best: Int32) -> None:
    """The best product of each region and frame, (m, k), of products with the tiles that hold data, (m, l h, k)."""
    frames, codes = np.uint64(products.shape[2]), np.uint64(products.shape[1])
    for region in range(np.uint64(len(products))):
        of_region, best_of, tiles = products[region], best[region], held[region]
        for frame in range(frames):
            best_of[frame] = -(1 << 30)
        for code in range(codes):
            if tiles[code // np.uint64(headings)]:
                of_code = of_region[code]
                for frame in range(frames):
                    best_of[frame] = max(best_of[frame], of_code[frame])
