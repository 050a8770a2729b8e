"""A searcher that finds its regions by votes, and compares only those."""

from __future__ import annotations

import numpy as np

from x2localizer.gallery.store import Gallery
from x2localizer.search.approximate.stored import GalleryRegions, GalleryTiles
from x2localizer.search.approximate.tile_index import TileIndex
from x2localizer.search.searcher import RankedRegions, Searcher, best_of
from x2localizer.similarity import Query, Similarity, similarities
from x2localizer.types import Bools, Codes, Ints

FINE, FINE_WITH_HEADINGS = 2000, 600
"""Regions that are compared by the similarity itself, with codes in 8 bits; of the ten best regions in 25,600, 96% are
among the first 500 by their best tiles alone, and all among the first 2,000."""
SURPLUS = 15
"""Regions beyond those asked for that are compared exactly: codes in 8 bits may swap neighbours."""
REGION_SETS = 256
"""Regions whose set codes are compared, for similarities of set codes: their tiles cannot rank them."""


class ApproximateSearcher(Searcher):
    """Ranks the regions of a gallery that has an approximate index; see :mod:`x2localizer.search.approximate`.

    Scores are exact. An answer is certified only if all regions were compared.
    """

    def __init__(
        self, similarity: Similarity, gallery: Gallery, index: TileIndex, *, temperature: float = 0.01, reach: int = 4
    ) -> None:
        codes = GalleryTiles(gallery) if similarity.codes == "tiles" else GalleryRegions(gallery)
        super().__init__(similarity, codes, temperature=temperature, reach=reach)
        self.index = index

    def search(self, query: Query, k: int = 10, allowed: Bools | None = None, most: int = 4096) -> RankedRegions:
        """The best k regions of those with the most votes; at most ``most`` are compared exactly."""
        frames = query.tokens if query.frames is None else query.frames
        rows = self.index.candidates(frames, allowed)
        surplus = SURPLUS if self.similarity.codes == "tiles" else REGION_SETS
        keep = min(k + surplus, max(most, k))
        every = len(rows) <= keep and len(rows) == (len(self.codes) if allowed is None else int(allowed.sum()))
        fine = max(FINE if self.codes.headings == 1 else FINE_WITH_HEADINGS, 4 * keep)
        if len(rows) > fine:
            rows = np.sort(rows[np.argpartition(-self.index.best_tiles(frames, rows), fine - 1)[:fine]])
        if len(rows) > keep:
            estimate = self._estimate(frames, rows)
            rows = np.sort(rows[np.argpartition(-estimate, keep - 1)[:keep]])
        return best_of(rows, self.score(query, rows), k, certified=every)

    def _estimate(self, frames: Codes, rows: Ints) -> Codes:
        """About the similarity of some regions, (m,), by codes of tiles in 8 bits."""
        of_tiles = self.similarity if self.similarity.codes == "tiles" else similarities.get("s_path")()
        return self.index.by_parts(lambda some: of_tiles.score(self.index.compared(frames, some, self.reach)), rows)
