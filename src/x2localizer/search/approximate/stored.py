"""The codes of a gallery as they lie on disk: what few regions need is read when it is compared."""

from __future__ import annotations

import numpy as np

from x2localizer.gallery.store import Gallery
from x2localizer.gallery.tiles import TileGrid, TileReader
from x2localizer.search.codes import StoredCodes
from x2localizer.similarity.aggregate import token_similarity
from x2localizer.types import Bools, Codes, Ints


class GalleryTiles(StoredCodes):
    """Image codes of tiles. Blocks that were read last are kept."""

    exact = True

    def __init__(self, gallery: Gallery) -> None:
        self._table, self._reader = gallery.regions, TileReader(gallery)
        self.headings = gallery.manifest.headings
        self._last: tuple[Ints, TileGrid] | None = None

    def __len__(self) -> int:
        return len(self._table)

    @property
    def tiles(self) -> int:
        """Tiles of each region."""
        return (2 * self._table.n - 1) ** 2

    @property
    def bytes_per_region(self) -> int:
        """No codes are kept in memory, only where regions are."""
        return 16

    def held(self, rows: Ints) -> Bools:
        """Which tiles of some regions hold data, (m, l)."""
        return self._grid(rows).valid.reshape(len(rows), -1)

    def tokens(self, frames: Codes, rows: Ints) -> Codes:
        """Exact similarities, (m, k, l h)."""
        grid = self._grid(rows)
        return token_similarity(frames, grid.codes.reshape(len(rows), -1, grid.codes.shape[-1]))

    def upper_tokens(self, frames: Codes, rows: Ints) -> Codes:
        """Exactly those."""
        return self.tokens(frames, rows)

    def _grid(self, rows: Ints) -> TileGrid:
        if self._last is None or not np.array_equal(self._last[0], rows):
            self._last = rows, self._reader.grid([self._table.region(int(row)) for row in rows])
        return self._last[1]


class GalleryRegions(StoredCodes):
    """Set codes of regions."""

    exact = True

    def __init__(self, gallery: Gallery) -> None:
        self._gallery, self._table = gallery, gallery.regions
        self._last: tuple[Ints, Codes, Codes, Bools] | None = None

    def __len__(self) -> int:
        return len(self._table)

    @property
    def tiles(self) -> int:
        """Tiles of each region."""
        return self._table.n**2

    @property
    def bytes_per_region(self) -> int:
        """No codes are kept in memory, only where regions are."""
        return 16

    def held(self, rows: Ints) -> Bools:
        """Which tiles of some regions hold data, (m, l)."""
        return self._read(rows)[3]

    def wholes(self, rows: Ints) -> Codes:
        """Set codes of some regions, (m, d)."""
        return self._read(rows)[1]

    def tokens(self, frames: Codes, rows: Ints) -> Codes:
        """Exact similarities, (m, k, l)."""
        return token_similarity(frames, self._read(rows)[2])

    def upper_tokens(self, frames: Codes, rows: Ints) -> Codes:
        """Exactly those."""
        return self.tokens(frames, rows)

    def _read(self, rows: Ints) -> tuple[Ints, Codes, Codes, Bools]:
        if self._last is None or not np.array_equal(self._last[0], rows):
            d, per = self._gallery.manifest.dim, self.tiles
            whole, tokens = np.zeros((len(rows), d), np.float32), np.zeros((len(rows), per, d), np.float32)
            valid = np.zeros((len(rows), per), np.bool_)
            place = {int(identity): i for i, identity in enumerate(self._table.ids[rows])}
            for part in self._gallery.region_sets(self._table.ids[rows]):
                at = [place[int(identity)] for identity in part.ids]
                whole[at], tokens[at], valid[at] = part.whole, part.tokens, part.valid
            self._last = rows, whole, tokens, valid
        return self._last
