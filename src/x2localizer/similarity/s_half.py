"""s_half: s_best by image codes, over the tiles at half stride. Not in the paper."""

from __future__ import annotations

from x2localizer.similarity.aggregate import best_tiles
from x2localizer.similarity.base import Compared, Similarity, similarities
from x2localizer.types import Codes


@similarities.register
class HalfStrideSimilarity(Similarity):
    """The best tile of each frame, averaged."""

    name = "s_half"
    codes = "tiles"

    def score(self, compared: Compared) -> Codes:
        """The similarity of each region, (r,)."""
        return best_tiles(compared.s_tok, compared.valid)
