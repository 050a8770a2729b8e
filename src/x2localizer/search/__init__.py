"""Which regions look most like a window? Any similarity, plain or fast with a proof, and what is known in advance."""

from x2localizer.search.approximate import build_index
from x2localizer.search.open import SearchMode, open_searcher
from x2localizer.search.prior import BoxPrior, CirclePrior, Prior, ReachPrior
from x2localizer.search.searcher import RankedRegions, Searcher

__all__ = [
    "BoxPrior", "CirclePrior", "Prior", "RankedRegions", "ReachPrior", "SearchMode", "Searcher", "build_index",
    "open_searcher",
]  # fmt: skip
