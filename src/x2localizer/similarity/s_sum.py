"""s_sum: the camera may be at any tile of a region, so the odds of all tiles add up. Not in the paper."""

from __future__ import annotations

from x2localizer.similarity.aggregate import summed_tiles
from x2localizer.similarity.base import Compared, Similarity, similarities
from x2localizer.types import Codes


@similarities.register
class SummedSimilarity(Similarity):
    """The mean over frames of the log of the mean odds over tiles."""

    name = "s_sum"
    codes = "tiles"

    def score(self, compared: Compared) -> Codes:
        """The similarity of each region, (r,)."""
        return summed_tiles(compared.s_tok, compared.valid)
