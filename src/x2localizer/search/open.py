"""A searcher over an open gallery: exact, or by its approximate index."""

from __future__ import annotations

from typing import Literal

from x2localizer.config import MotionSettings
from x2localizer.errors import ConfigError
from x2localizer.gallery.store import Gallery
from x2localizer.search.approximate.manifest import has_index
from x2localizer.search.approximate.searcher import ApproximateSearcher
from x2localizer.search.approximate.tile_index import TileIndex
from x2localizer.search.load import require_codes
from x2localizer.search.searcher import Searcher, reach_between
from x2localizer.similarity import similarities

SearchMode = Literal["auto", "exact", "approximate"]
"""auto: approximate if the gallery has an index for it, else exact."""


def open_searcher(
    gallery: Gallery, similarity: str = "s_path", mode: SearchMode = "auto", *, spacing_s: float = 5.0,
    motion: MotionSettings | None = None, temperature: float = 0.01, memory_mb: int = 1024, threads: int = 0,
) -> Searcher:  # fmt: skip
    """A searcher over a gallery, for keyframes ``spacing_s`` seconds apart.

    mode: "exact" compares with every region, "approximate" uses the index that :func:`build_index` made, "auto" uses it
        where there is one. An index that is stale or damaged is an error in both.
    memory_mb: codes that an exact search keeps in full at most; above, it keeps them in 8 bits.
    """
    if mode not in ("auto", "exact", "approximate"):
        raise ConfigError(f"There is no search '{mode}'.", "Use auto, exact or approximate.")
    if mode == "exact" or (mode == "auto" and not has_index(gallery)):
        return Searcher.over(
            gallery, similarity, spacing_s=spacing_s, motion=motion, temperature=temperature, memory_mb=memory_mb,
            threads=threads,
        )  # fmt: skip
    chosen = similarities.get(similarity)()
    require_codes(gallery, chosen.codes)
    reach = reach_between(gallery.regions, motion or MotionSettings(), spacing_s)
    return ApproximateSearcher(chosen, gallery, TileIndex(gallery, threads), temperature=temperature, reach=reach)
