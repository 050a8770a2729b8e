"""s_f, equations 5 to 10 of the paper: single frames against single tiles, by soft maxima in both orders.

At the paper's temperature it is nearly a maximum over all pairs: one lucky frame and tile decide.
"""

from __future__ import annotations

from x2localizer.similarity.aggregate import fine_similarity
from x2localizer.similarity.base import Compared, Similarity, similarities
from x2localizer.types import Codes


@similarities.register
class FineSimilarity(Similarity):
    """Soft maxima over the tokens of both set codes."""

    name = "s_f"
    codes = "regions"
    bounded_by = "best"

    def score(self, compared: Compared) -> Codes:
        """The similarity of each region, (r,)."""
        return fine_similarity(compared.s_tok, compared.temperature, compared.valid)

    def bound(self, compared: Compared) -> Codes:
        """The best pair: a softmax-weighted mean is at most its maximum."""
        best: Codes = compared.s_tok.max((1, 2))
        return best
