"""s_best: the mean over frames of the best tile, by the tokens of set codes. Not in the paper: every frame counts."""

from __future__ import annotations

from x2localizer.similarity.aggregate import best_tiles
from x2localizer.similarity.base import Compared, Similarity, similarities
from x2localizer.types import Codes


@similarities.register
class BestTileSimilarity(Similarity):
    """The best tile of each frame, averaged."""

    name = "s_best"
    codes = "regions"

    def score(self, compared: Compared) -> Codes:
        """The similarity of each region, (r,)."""
        return best_tiles(compared.s_tok, compared.valid)
