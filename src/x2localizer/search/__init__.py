"""Which regions look most like a prefix? Exact similarities, and a fast search that proves its answer."""

from x2localizer.search.prior import Box, Circle, Prior, Reach, nearest_region
from x2localizer.search.search import Hits, Searcher

__all__ = ["Box", "Circle", "Hits", "Prior", "Reach", "Searcher", "nearest_region"]
