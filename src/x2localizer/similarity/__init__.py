"""How similar are a window of frames and a region? One file per similarity, one registry."""

from x2localizer.similarity.base import CodeKind, Compared, Query, Similarity, similarities

__all__ = ["CodeKind", "Compared", "Query", "Similarity", "similarities"]
