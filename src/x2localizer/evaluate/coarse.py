"""Coarse prefix retrieval: which region holds the video, split tau of its keyframes?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from x2localizer import geo
from x2localizer.config import MotionSettings
from x2localizer.encoders import SetCodes
from x2localizer.evaluate.embed import Embeddings
from x2localizer.metrics import ranks_of
from x2localizer.motion import cells_in_reach
from x2localizer.similarity import CodeKind, Compared, Query, Similarity, similarities
from x2localizer.similarity.aggregate import token_similarity
from x2localizer.types import Bools, Codes, Ints

REGIONS_AT_ONCE = 512
IN_MEMORY = 1 << 30
KEPT = 10
"""Regions of each video that are kept; K_c in the paper."""


@dataclass(frozen=True, slots=True, eq=False)
class Coarse:
    """One similarity at one budget, by video.

    ranks: the rank of each video's region, (v,).
    geographic: the rank of the first region that holds the camera at the end of the prefix, (v,).
    top: the best regions, best first, (v, 10).
    top_scores: their similarities, (v, 10).
    """

    ranks: Ints
    geographic: Ints
    top: Ints
    top_scores: Codes


Queries = Callable[[int], dict[CodeKind, Query]]
"""The prefix of a video, as a query for each kind of codes."""


class RegionScorer:
    """Compares prefixes with all regions of a split, by similarities that are given by name."""

    def __init__(self, split: Embeddings, names: Sequence[str], temperature: float = 0.01) -> None:
        self._split, self._temperature = split, temperature
        self._by_codes: dict[CodeKind, list[Similarity]] = {}
        for name in names:
            similarity = similarities.get(name)()
            self._by_codes.setdefault(similarity.codes, []).append(similarity)
        self._regions: dict[CodeKind, SetCodes] = {kind: _codes_of(split, kind) for kind in self._by_codes}
        self.reach = reach_of(split)

    @property
    def kinds(self) -> tuple[CodeKind, ...]:
        """Which codes the similarities compare."""
        return tuple(self._by_codes)

    def scores(self, queries: dict[CodeKind, Query], reach: Sequence[int] | None = None) -> dict[str, Codes]:
        """Similarities of one prefix with all regions, by name, (r,) each; one query for each kind of codes.

        ``reach`` is that between each two frames of the prefix, where they are not as far apart as keyframes.
        """
        out: dict[str, Codes] = {}
        for kind, chosen in self._by_codes.items():
            query, regions = queries[kind], self._regions[kind]
            parts: dict[str, list[Codes]] = {similarity.name: [] for similarity in chosen}
            for start in range(0, len(regions.tokens), REGIONS_AT_ONCE):
                part = slice(start, start + REGIONS_AT_ONCE)
                s_tok = token_similarity(query.tokens, np.ascontiguousarray(regions.tokens[part]))
                s_g = None if query.whole is None else np.asarray(regions.whole[part] @ query.whole, np.float32)
                headings = self._split.encoder.spec.headings if kind == "tiles" else 1
                compared = Compared(
                    s_tok, s_g, None, self._temperature, self.reach if reach is None else reach, headings
                )
                for similarity in chosen:
                    parts[similarity.name].append(similarity.score(compared))
            out |= {name: np.concatenate(values) for name, values in parts.items()}
        return out


def reach_of(split: Embeddings) -> int:
    """Tiles at half stride that a car may move along each axis between two keyframes of the split."""
    return reach_in(split, split.keyframe_spacing_s)


def reach_in(split: Embeddings, seconds: float) -> int:
    """Tiles at half stride that a car may move along each axis in some time."""
    furthest = max(abs(row.lat_deg) for row in split.regions)
    half_tile_m = geo.tile_size_m(furthest, split.regions[0].zoom) / 2
    return cells_in_reach(MotionSettings(), seconds, half_tile_m)


def queries_of(split: Embeddings, budget: int, kinds: Sequence[CodeKind], starts: Ints | None = None) -> Queries:
    """The prefixes of all videos, as similarities of some kinds compare them."""
    frames = prefix_frames(split, budget, starts)
    prefixes = split.prefixes(budget, starts) if "regions" in kinds else None

    def query(video: int) -> dict[CodeKind, Query]:
        out: dict[CodeKind, Query] = {}
        if prefixes is not None:
            tokens = np.asarray(prefixes.tokens[video, : prefixes.lengths[video]])
            out["regions"] = Query(tokens, np.asarray(prefixes.whole[video]))
        if "tiles" in kinds:
            out["tiles"] = Query(np.asarray(split.keyframe_codes[split.keyframe_rows[frames[video]]]))
        return out

    return query


def coarse(
    split: Embeddings, budget: int, names: Sequence[str], starts: Ints | None = None, temperature: float = 0.01
) -> dict[str, Coarse]:
    """Ranks of all videos by each similarity."""
    scorer = RegionScorer(split, names, temperature)
    query = queries_of(split, budget, scorer.kinds, starts)
    holds = regions_that_hold(split, end_frames(split, budget, starts))
    rows: dict[str, list[tuple[int, int, Ints, Codes]]] = {name: [] for name in names}
    for video in range(len(split.videos)):
        for name, scores in scorer.scores(query(video)).items():
            rank = int(ranks_of(scores[None], split.region_of[video : video + 1])[0])
            best = best_rows(scores, KEPT)
            rows[name].append((rank, first_rank(scores, holds[video]), best, scores[best]))
    return {
        name: Coarse(
            np.array([row[0] for row in found]),
            np.array([row[1] for row in found]),
            np.stack([row[2] for row in found]),
            np.stack([row[3] for row in found]),
        )
        for name, found in rows.items()
    }


def best_rows(scores: Codes, k: int) -> Ints:
    """The best k regions, best first; equal scores in the order of the gallery."""
    return np.argsort(-scores, kind="stable")[:k].astype(np.int64)


def first_rank(scores: Codes, right: Bools) -> int:
    """The rank of the best right item; wrong ones that score as high count before it. The worst rank if none is."""
    if not right.any():
        return len(scores)
    return 1 + int((scores[~right] >= scores[right].max()).sum())


def prefix_frames(split: Embeddings, budget: int, starts: Ints | None = None) -> list[Ints]:
    """The frames of each video's prefix, as rows of all frames."""
    begin = np.zeros(len(split.videos), np.int64) if starts is None else starts
    return [
        split.first_frame[v] + np.array(keys[begin[v] : begin[v] + budget], np.int64)
        for v, keys in enumerate(split.keyframes)
    ]


def end_frames(split: Embeddings, budget: int, starts: Ints | None = None) -> Ints:
    """The last frame of each video's prefix, as a row of ``places``."""
    return np.array([rows[-1] for rows in prefix_frames(split, budget, starts)])


def regions_that_hold(split: Embeddings, frames: Ints) -> Bools:
    """Which regions hold the camera at some frames, (v, r)."""
    lats, lons = split.places[frames].T
    return np.stack([geo.region_contains(row.region, lats, lons) for row in split.regions], 1)


def _codes_of(split: Embeddings, kind: CodeKind) -> SetCodes:
    """The codes of the split's regions: set codes, or image codes of their tiles at half stride, (r, l, d).

    Tiles with a code for each of h headings are (r, l h, d).
    """
    if kind == "regions":
        return SetCodes(np.asarray(split.region_codes.whole), _in_memory(split.region_codes.tokens))
    tiles = split.grid_codes.reshape(len(split.regions), -1, split.grid_codes.shape[-1])
    return SetCodes(tiles[:, 0], _in_memory(tiles))


def _in_memory(codes: Codes) -> Codes:
    """Codes in memory; large ones stay on disk and are read by part."""
    return codes if codes.nbytes > IN_MEMORY else np.array(codes)
