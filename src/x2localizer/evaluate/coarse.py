"""Coarse prefix retrieval: which region holds the video, seen tau of its keyframes?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from x2localizer import geo
from x2localizer.encoders import SetCodes
from x2localizer.evaluate.embed import Embeddings, Prefixes
from x2localizer.metrics import ranks_of
from x2localizer.search.search import reach_in
from x2localizer.search.similarity import best_tiles, fine_similarity, summed_paths, summed_tiles, token_similarity
from x2localizer.types import Codes, Ints

REGIONS_AT_ONCE = 512
IN_MEMORY = 1 << 30
BY_PHI = ("s_half", "s_sum", "s_path")
"""Similarities of phi of the frames with phi of the tiles at half stride: best tile, all tiles, all paths."""
KEPT = 10
"""Regions of each video that are kept: K_c."""


@dataclass(frozen=True, slots=True, eq=False)
class Coarse:
    """One similarity at one budget, by video: the rank of its region, the rank of the first region that holds the
    camera at the end of the prefix, and the best regions, best first (v, 10)."""

    ranks: Ints
    geographic: Ints
    top: Ints


def region_scores(
    whole: Codes, tokens: Codes, regions: SetCodes, kinds: Sequence[str], tau_f: float = 0.01
) -> dict[str, Codes]:
    """Similarities of one prefix, (d,) and (k, d), with all regions: (r,) each."""
    out: dict[str, list[Codes]] = {kind: [] for kind in kinds}
    for start in range(0, len(regions.whole), REGIONS_AT_ONCE):
        part = slice(start, start + REGIONS_AT_ONCE)
        s_g = np.asarray(regions.whole[part] @ whole, np.float32)
        if set(kinds) == {"s_g"}:
            out["s_g"].append(s_g)
            continue
        s_tok = token_similarity(tokens, np.ascontiguousarray(regions.tokens[part]))
        s_f = fine_similarity(s_tok, tau_f) if {"s_f", "s_mix"} & set(kinds) else s_g
        found = {"s_g": s_g, "s_f": s_f, "s_mix": np.asarray((s_g + s_f) / 2, np.float32)}
        if "s_best" in kinds:
            found["s_best"] = best_tiles(s_tok)
        for kind in kinds:
            out[kind].append(found[kind])
    return {kind: np.concatenate(parts) for kind, parts in out.items()}


def half_scores(frames: Codes, tiles: Codes, kinds: Sequence[str], reach: int) -> dict[str, Codes]:
    """Similarities of one prefix by phi of its frames, (k, d), with the tiles at half stride of all regions,
    (r, l, d): (r,) each."""
    out: dict[str, list[Codes]] = {kind: [] for kind in kinds}
    for start in range(0, len(tiles), REGIONS_AT_ONCE):
        s_tok = token_similarity(frames, np.ascontiguousarray(tiles[start : start + REGIONS_AT_ONCE]))
        for kind in kinds:
            if kind == "s_half":
                out[kind].append(best_tiles(s_tok))
            elif kind == "s_sum":
                out[kind].append(summed_tiles(s_tok))
            else:
                out[kind].append(summed_paths(s_tok, reach=reach))
    return {kind: np.concatenate(parts) for kind, parts in out.items()}


def coarse(
    seen: Embeddings, budget: int, kinds: Sequence[str], starts: Ints | None = None, tau_f: float = 0.01
) -> dict[str, Coarse]:
    """Ranks of all videos by each similarity."""
    plain, by_phi = ([kind for kind in kinds if (kind in BY_PHI) is side] for side in (False, True))
    regions = SetCodes(np.asarray(seen.region_codes.whole), _in_memory(seen.region_codes.tokens))
    prefixes = seen.prefixes(budget, starts) if plain else None
    frames = prefix_frames(seen, budget, starts)
    halves = _half_tiles(seen) if by_phi else None
    reach = reach_in(seen.regions[0].region)
    holds = regions_that_hold(seen, end_frames(seen, budget, starts))
    ranks: dict[str, list[tuple[int, int, Ints]]] = {kind: [] for kind in kinds}
    for video in range(len(seen.videos)):
        found: dict[str, Codes] = {}
        if prefixes is not None:
            found |= region_scores(*_one(prefixes, video), regions, plain, tau_f)
        if halves is not None:
            tokens = np.asarray(seen.frame_codes[frames[video]])
            found |= half_scores(tokens, halves, by_phi, reach)
        for kind, scores in found.items():
            rank = int(ranks_of(scores[None], seen.region_of[video : video + 1])[0])
            ranks[kind].append((rank, first_rank(scores, holds[video]), best_rows(scores, KEPT)))
    return {
        kind: Coarse(
            np.array([row[0] for row in rows]), np.array([row[1] for row in rows]), np.stack([row[2] for row in rows])
        )
        for kind, rows in ranks.items()
    }


def best_rows(scores: Codes, k: int) -> Ints:
    """The best k regions, best first; equal scores in the order of the gallery."""
    return np.argsort(-scores, kind="stable")[:k].astype(np.int64)


def first_rank(scores: Codes, right: npt.NDArray[np.bool_]) -> int:
    """The rank of the best right item; wrong ones that score as high count before it. The worst rank if none is."""
    if not right.any():
        return len(scores)
    return 1 + int((scores[~right] >= scores[right].max()).sum())


def prefix_frames(seen: Embeddings, budget: int, starts: Ints | None = None) -> list[Ints]:
    """The frames of each video's prefix, as rows of all frames."""
    begin = np.zeros(len(seen.videos), np.int64) if starts is None else starts
    return [
        seen.first_frame[v] + np.array(keys[begin[v] : begin[v] + budget], np.int64)
        for v, keys in enumerate(seen.keyframes)
    ]


def end_frames(seen: Embeddings, budget: int, starts: Ints | None = None) -> Ints:
    """The last frame of each video's prefix, as a row of ``places``."""
    return np.array([rows[-1] for rows in prefix_frames(seen, budget, starts)])


def regions_that_hold(seen: Embeddings, frames: Ints) -> npt.NDArray[np.bool_]:
    """Which regions hold the camera at some frames, (v, r)."""
    lats, lons = seen.places[frames].T
    return np.stack([geo.region_contains(row.region, lats, lons) for row in seen.regions], 1)


def _one(prefixes: Prefixes, video: int) -> tuple[Codes, Codes]:
    return np.asarray(prefixes.whole[video]), np.asarray(prefixes.tokens[video, : prefixes.lengths[video]])


def _half_tiles(seen: Embeddings) -> Codes:
    """phi of the regions' tiles at half stride, (r, l, d)."""
    return _in_memory(seen.grid_codes.reshape(len(seen.regions), -1, seen.grid_codes.shape[-1]))


def _in_memory(codes: Codes) -> Codes:
    """Embeddings in memory; they stay on disk and are read by part if they are large."""
    return codes if codes.nbytes > IN_MEMORY else np.array(codes)
