"""s_path: s_sum over paths instead of tiles: consecutive frames must lie within reach of each other. Not in the paper.

Where tiles have a code for each heading, a path also moves the way it looks.

What the localizer ranks regions by: it asks every frame for evidence, and needs only image codes that are there anyway.
"""

from __future__ import annotations

from x2localizer.similarity.aggregate import summed_paths
from x2localizer.similarity.base import Compared, Similarity, similarities
from x2localizer.types import Codes


@similarities.register
class PathSimilarity(Similarity):
    """The log of the mean odds over all paths, per frame."""

    name = "s_path"
    codes = "tiles"

    def score(self, compared: Compared) -> Codes:
        """The similarity of each region, (r,)."""
        return summed_paths(compared.s_tok, compared.valid, reach=compared.reach, headings=compared.headings)
