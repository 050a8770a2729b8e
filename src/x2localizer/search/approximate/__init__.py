"""Search among any number of regions: an index of all tiles in a few bytes each, beside the gallery."""

from x2localizer.search.approximate.build import build_index
from x2localizer.search.approximate.manifest import describe_index

__all__ = ["build_index", "describe_index"]
