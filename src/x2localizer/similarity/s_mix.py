"""s_mix, equation 15 of the paper: the mean of s_g and s_f."""

from __future__ import annotations

import numpy as np

from x2localizer.similarity.aggregate import fine_similarity
from x2localizer.similarity.base import Compared, Similarity, similarities
from x2localizer.types import Codes


@similarities.register
class MixedSimilarity(Similarity):
    """Half the set codes as wholes, half their tokens."""

    name = "s_mix"
    codes = "regions"
    bounded_by = "best"

    def score(self, compared: Compared) -> Codes:
        """The similarity of each region, (r,)."""
        return self._mix(compared, fine_similarity(compared.s_tok, compared.temperature, compared.valid))

    def bound(self, compared: Compared) -> Codes:
        """s_g is exact, and s_f is at most the best pair."""
        return self._mix(compared, compared.s_tok.max((1, 2)))

    def _mix(self, compared: Compared, fine: Codes) -> Codes:
        assert compared.s_g is not None
        return np.asarray((compared.s_g + fine) / 2, np.float32)
