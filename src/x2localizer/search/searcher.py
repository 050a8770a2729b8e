"""The best regions for a window by any similarity: plain, and fast with a proof.

Every region has an upper bound of its similarity at a fraction of the cost. The exact similarity is worked out for the
regions with the highest bounds, until no bound that is left reaches the k-th best. Then the best k are exactly those of
the plain search: the answer is certified.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from x2localizer import geo
from x2localizer.config import MotionSettings
from x2localizer.gallery.regions import RegionTable
from x2localizer.gallery.store import Gallery
from x2localizer.motion import cells_in_reach
from x2localizer.search.codes import RegionCodes, StoredCodes, TileCodes, Views, to_bytes
from x2localizer.search.load import load_codes
from x2localizer.similarity import Compared, Query, Similarity, similarities
from x2localizer.types import Bools, Codes, Ints

ROUNDING = 1e-5
"""Bounds are worked out in float32: so much is added, which is a hundred times their rounding."""
FLOATS_AT_ONCE = 4_000_000
"""Similarities of frames and tiles that are held at once."""


@dataclass(frozen=True, slots=True, eq=False)
class RankedRegions:
    """The best regions, best first.

    rows: in the table of regions, (k,).
    scores: their similarities, (k,).
    certified: no other region of those that were allowed can be better.
    examined: how many regions were compared exactly.
    """

    rows: Ints
    scores: Codes
    certified: bool = True
    examined: int = 0

    def take(self, which: list[int]) -> RankedRegions:
        """Some of them, in that order."""
        return RankedRegions(self.rows[which], self.scores[which], self.certified, self.examined)

    def join(self, other: RankedRegions) -> RankedRegions:
        """With other regions at the end."""
        rows, scores = np.append(self.rows, other.rows), np.append(self.scores, other.scores)
        return RankedRegions(rows, scores, self.certified, self.examined)


class Searcher:
    """Ranks the regions of one gallery by one similarity.

    temperature: of the soft maxima of s_f, as the encoder was trained.
    reach: tiles at half stride that the camera may move along each axis between two keyframes.
    """

    def __init__(
        self, similarity: Similarity, codes: StoredCodes, *, temperature: float = 0.01, reach: int = 4
    ) -> None:
        self.similarity, self.codes, self.temperature, self.reach = similarity, codes, temperature, reach

    @classmethod
    def over(
        cls, gallery: Gallery, similarity: str = "s_path", *, spacing_s: float = 5.0,
        motion: MotionSettings | None = None, temperature: float = 0.01, memory_mb: int = 1024, threads: int = 0,
    ) -> Searcher:  # fmt: skip
        """A searcher over an open gallery, for keyframes ``spacing_s`` seconds apart."""
        chosen = similarities.get(similarity)()
        codes = load_codes(gallery, chosen.codes, memory_mb, threads)
        reach = reach_between(gallery.regions, motion or MotionSettings(), spacing_s)
        return cls(chosen, codes, temperature=temperature, reach=reach)

    @classmethod
    def of_regions(
        cls, similarity: str, whole: Codes, tokens: Codes, valid: Bools | None = None, temperature: float = 0.01
    ) -> Searcher:
        """A searcher over set codes in arrays: (r, d), (r, l, d), (r, l)."""
        held = np.ones(tokens.shape[:2], np.bool_) if valid is None else valid
        codes = RegionCodes(whole, held, to_bytes(tokens), lambda rows: tokens[rows], tokens)
        return cls(similarities.get(similarity)(), codes, temperature=temperature)

    @classmethod
    def of_tiles(
        cls, similarity: str, tiles: Codes, views: Views, valid: Bools | None = None, *, small: bool = False,
        reach: int = 4,
    ) -> Searcher:  # fmt: skip
        """A searcher over tiles (t, d), or (t, h, d) with headings, that regions view, (r, l).

        ``small`` keeps them in 8 bits.
        """
        held = np.ones(len(tiles), np.bool_) if valid is None else valid
        tiles = tiles if tiles.ndim == 3 else tiles[:, None]
        count, headings, d = tiles.shape
        if small:
            packed = to_bytes(tiles.reshape(count * headings, 1, d))
            codes = TileCodes(
                views, held, small=packed, read=lambda numbers: tiles[numbers].reshape(-1, d), headings=headings
            )
        else:
            codes = TileCodes(views, held, full=tiles.reshape(-1, d), headings=headings)
        return cls(similarities.get(similarity)(), codes, reach=reach)

    # Exact -----------------------------------------------------------------------------------------------------------

    def score(self, query: Query, rows: Ints) -> Codes:
        """The exact similarity of some regions, in their order, (m,)."""
        parts = [self._score(query, part) for part in self._chunks(rows, query)]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def compare(self, query: Query, rows: Ints) -> RankedRegions:
        """Some regions with their similarity, in their order."""
        return RankedRegions(rows, self.score(query, rows), examined=len(rows))

    def plain(self, query: Query, k: int = 10, allowed: Bools | None = None) -> RankedRegions:
        """The best k regions by comparing with all of them."""
        rows = self._rows(allowed)
        return best_of(rows, self.score(query, rows), k)

    def _score(self, query: Query, rows: Ints) -> Codes:
        return self.similarity.score(self._compared(query, rows, self.codes.tokens(query.tokens, rows)))

    def _compared(self, query: Query, rows: Ints, s_tok: Codes) -> Compared:
        held = self.codes.held(rows)
        headings = self.codes.headings
        valid = None if s_tok.shape[2] != held.shape[1] * headings or held.all() else held
        wholes = None if query.whole is None else self.codes.wholes(rows)
        s_g = None if wholes is None or query.whole is None else np.asarray(wholes @ query.whole, np.float32)
        return Compared(s_tok, s_g, valid, self.temperature, self.reach, headings)

    # Fast ------------------------------------------------------------------------------------------------------------

    def search(self, query: Query, k: int = 10, allowed: Bools | None = None, most: int = 4096) -> RankedRegions:
        """The best k regions, as ``plain`` finds them; not certified if that would take over ``most`` comparisons."""
        rows = self._rows(allowed)
        if self.codes.exact or len(rows) <= 4 * k or 4 * k > most:
            return self.plain(query, k, allowed)
        bound = np.concatenate([self.bound(query, part) for part in self._chunks(rows, query)])
        order = np.argsort(-bound, kind="stable")
        taken, scores = np.zeros(0, np.int64), np.zeros(0, np.float32)
        start, size = 0, 4 * k
        while start < len(order):
            if len(taken) >= k:
                threshold = np.partition(scores, -k)[-k]
                left = int((bound[order[start:]] >= threshold).sum())
                if left == 0:
                    break
                size = min(size, left)
            if start + size > most:
                return best_of(rows[taken], scores, k, certified=False)
            part = order[start : start + size]
            taken, scores = np.append(taken, part), np.append(scores, self.score(query, rows[part]))
            start += size
            size = 256
        return best_of(rows[taken], scores, k)

    def bound(self, query: Query, rows: Ints) -> Codes:
        """At least the similarity of some regions, (m,)."""
        if self.similarity.bounded_by == "best":
            s_tok = self.codes.upper_best(query.tokens, rows)[:, None, None]
        else:
            s_tok = self.codes.upper_tokens(query.tokens, rows)
        bound = self.similarity.bound(self._compared(query, rows, s_tok)) + np.float32(ROUNDING)
        return np.asarray(bound, np.float32)

    def _rows(self, allowed: Bools | None) -> Ints:
        return np.arange(len(self.codes)) if allowed is None else np.flatnonzero(allowed)

    def _chunks(self, rows: Ints, query: Query) -> Iterator[Ints]:
        size = max(1, FLOATS_AT_ONCE // (len(query.tokens) * self.codes.tiles * self.codes.headings))
        for start in range(0, len(rows), size):
            yield rows[start : start + size]


def best_of(rows: Ints, scores: Codes, k: int, *, certified: bool = True) -> RankedRegions:
    """The best k of some regions; of equally good ones the first."""
    order = np.lexsort((rows, -scores))[:k]
    return RankedRegions(rows[order], scores[order], certified, len(rows))


def reach_between(table: RegionTable, motion: MotionSettings, spacing_s: float) -> int:
    """Tiles at half stride that the camera may move along each axis between two keyframes.

    Tiles are smaller on the ground towards the poles: the region that lies furthest from the equator decides.
    """
    lats, _ = table.centres()
    furthest = float(np.abs(lats).max()) if len(table) else 0.0
    return cells_in_reach(motion, spacing_s, geo.tile_size_m(furthest, table.zoom) / 2)
