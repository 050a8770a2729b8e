"""s_g, equation 3 of the paper: the window as a whole against the region as a whole."""

from __future__ import annotations

from x2localizer.similarity.base import Compared, Similarity, similarities
from x2localizer.types import Codes


@similarities.register
class GlobalSimilarity(Similarity):
    """The product of the two set codes."""

    name = "s_g"
    codes = "regions"
    bounded_by = "best"
    uses_tokens = False

    def score(self, compared: Compared) -> Codes:
        """The similarity of each region, (r,)."""
        assert compared.s_g is not None
        return compared.s_g
