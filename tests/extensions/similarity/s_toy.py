"""A toy similarity: the best tile of the last frame. One file is all it takes."""

from __future__ import annotations

import numpy as np

from x2localizer.similarity.base import Compared, Similarity, similarities
from x2localizer.types import Codes


@similarities.register
class LastFrame(Similarity):
    """The last frame decides."""

    name = "s_toy"
    codes = "tiles"

    def score(self, compared: Compared) -> Codes:
        """The similarity of each region, (r,)."""
        last = compared.s_tok[:, -1]
        return np.asarray((last if compared.valid is None else np.where(compared.valid, last, -1)).max(1), np.float32)
