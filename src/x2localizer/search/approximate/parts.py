"""The tiles of an approximate index, part by part: what is done stays done, and new tiles are a new part.

    books-B.npz             codebooks
    small-B.bin             a code in 8 bits for each tile and heading, block by block
    part-B-0000.entries.npy  entries of the codebooks for the same codes, (blocks, 256 h, 6)
    part-B-0000.valid.npy    which tiles hold data, (blocks, 256)
    part-B-0000.places.npy   id and source of each block, (blocks, 2); a part counts when this is there

B names the codebooks. The rows of ``small`` are never moved: where a block was replaced, its old rows are unused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from x2localizer.files import atomic_path
from x2localizer.gallery.blocks import TileBlock, place_id
from x2localizer.gallery.tiles import TILES_PER_BLOCK
from x2localizer.search.approximate.codebooks import LEVELS, Bytes, Codebooks
from x2localizer.types import Bools, Ints

BLOCKS_AT_ONCE = 64
"""Blocks that are read before they are encoded, by as many threads as there are cores."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Blocks that went in together: ids and sources, (n, 2), entries (n, 256 h, 6), masks (n, 256)."""

    places: Ints
    entries: Bytes
    valid: Bools


@dataclass(frozen=True, slots=True)
class PartFiles:
    """The files of all parts of one set of codebooks."""

    folder: Path
    books: str
    headings: int
    directions: int

    @property
    def small(self) -> Path:
        """The codes in 8 bits."""
        return self.folder / f"small-{self.books}.bin"

    @property
    def row_bytes(self) -> int:
        """Of a block in the file of small codes."""
        return TILES_PER_BLOCK * self.headings * self.directions

    def count(self) -> int:
        """How many parts are complete."""
        number = 0
        while self._path(number, "places").is_file():
            number += 1
        return number

    def _path(self, number: int, what: str) -> Path:
        return self.folder / f"part-{self.books}-{number:04d}.{what}.npy"

    def places(self) -> Ints:
        """Ids and sources of the blocks of all parts, in the order of their rows, (n, 2)."""
        parts = [np.load(self._path(number, "places"), allow_pickle=False) for number in range(self.count())]
        return np.concatenate([np.zeros((0, 2), np.int64), *parts])

    def valid(self) -> Bools:
        """Which tiles hold data, of all parts, (n, 256)."""
        parts = [np.load(self._path(number, "valid"), allow_pickle=False) for number in range(self.count())]
        return np.concatenate([np.zeros((0, TILES_PER_BLOCK), np.bool_), *parts])

    def read(self) -> Iterator[Part]:
        """The parts, one after the other."""
        for number in range(self.count()):
            arrays = (np.load(self._path(number, what), allow_pickle=False) for what in ("places", "entries", "valid"))
            yield Part(*arrays)

    def codes(self, blocks: int) -> Bytes:
        """The codes in 8 bits as they lie on disk, (blocks 256 h, p); a file that is too short is a ValueError."""
        shape = (blocks * TILES_PER_BLOCK * self.headings, self.directions)
        if self.small.stat().st_size < shape[0] * shape[1]:
            raise ValueError(f"{self.small} is too short")
        return np.memmap(self.small, np.uint8, "r", shape=shape) if blocks else np.zeros(shape, np.uint8)

    def add(self, blocks: Iterable[TileBlock], sources: dict[int, int], zoom: int, books: Codebooks) -> int:
        """Encode blocks into a part of their own; returns how many there were."""
        number = self.count()
        done = sum(len(np.load(self._path(i, "places"), mmap_mode="r")) for i in range(number))
        places, entries, valid = [], [], []

        def encode(block: TileBlock) -> tuple[Bytes, Bytes]:
            return books.encode(block.codes.reshape(-1, block.codes.shape[-1]))

        with self.small.open("r+b" if self.small.exists() else "w+b") as file:
            file.truncate(done * self.row_bytes)  # what a killed run began is written again
            file.seek(done * self.row_bytes)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                for some in _in_batches(blocks):
                    for block, (chosen, small) in zip(some, pool.map(encode, some), strict=True):
                        identity = place_id(block.x, block.y, zoom)
                        file.write(small.tobytes())
                        places.append((identity, sources[identity]))
                        entries.append(chosen)
                        valid.append(block.valid.reshape(-1))
            file.flush()
            os.fsync(file.fileno())
        if places:
            shape = (len(places), -1, LEVELS)
            save_array(self._path(number, "entries"), np.stack(entries).reshape(shape))
            save_array(self._path(number, "valid"), np.stack(valid))
            save_array(self._path(number, "places"), np.array(places, np.int64))
        return len(places)


def _in_batches(blocks: Iterable[TileBlock]) -> Iterator[list[TileBlock]]:
    left = iter(blocks)
    while some := list(islice(left, BLOCKS_AT_ONCE)):
        yield some


def save_array(path: Path, array: npt.NDArray[Any]) -> None:
    """Write an array atomically."""
    with atomic_path(path) as target, target.open("wb") as file:
        np.save(file, array, allow_pickle=False)
