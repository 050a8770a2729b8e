"""How fast is a search? Against the plain version in the same run; timing lives here, never in a test."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from x2localizer.search.codes import Views
from x2localizer.search.searcher import RankedRegions, Searcher
from x2localizer.similarity import Query
from x2localizer.types import Codes

STRIDE = 6
"""Half tiles between neighbouring regions of a map."""


def synthetic_regions(regions: int, tiles: int, dim: int, seed: int = 0) -> tuple[Codes, Codes]:
    """Set codes (r, d) and tokens (r, l, d) like those of trained towers.

    All share a direction, the tiles of a region share more, and each has something of its own.
    """
    rng = np.random.default_rng(seed)
    common = rng.normal(size=dim).astype(np.float32)
    own = rng.normal(size=(regions, 1, dim)).astype(np.float32)
    tokens = np.empty((regions, tiles, dim), np.float32)
    for start in range(0, regions, 2048):
        part = slice(start, min(start + 2048, regions))
        shape = (part.stop - part.start, tiles, dim)
        tokens[part] = 0.7 * common + 0.5 * own[part] + rng.standard_normal(shape, np.float32)
        tokens[part] /= np.linalg.norm(tokens[part], axis=-1, keepdims=True)
    whole = tokens.mean(1)
    return whole / np.linalg.norm(whole, axis=-1, keepdims=True), tokens


def synthetic_map(side: int, dim: int, seed: int = 0) -> tuple[Codes, Views]:
    """A map of ``side`` x ``side`` regions of 13 x 13 tiles at half stride, three tiles apart: codes (t, d), views."""
    rng = np.random.default_rng(seed)
    half = STRIDE * (side - 1) + 13
    common = rng.normal(size=dim).astype(np.float32)
    districts = rng.normal(size=(half // 12 + 1, half // 12 + 1, dim)).astype(np.float32)
    own = districts.repeat(12, 0).repeat(12, 1)[:half, :half]
    tiles = 0.7 * common + 0.5 * own + rng.standard_normal((half, half, dim), np.float32)
    tiles /= np.linalg.norm(tiles, axis=-1, keepdims=True)
    corners = STRIDE * np.arange(side)
    rows = corners[:, None] + np.arange(13)
    views = rows[:, None, :, None] * half + rows[None, :, None, :]
    return np.asarray(tiles.reshape(half * half, dim), np.float32), views.reshape(side * side, 169).astype(np.int32)


def query_like(tiles: Codes, frames: int, noise: float, rng: np.random.Generator) -> Query:
    """A window that looks like some of a region's tiles, (l, d), more or less."""
    codes = tiles[rng.integers(0, len(tiles), frames)]
    blurred = codes + noise * rng.normal(size=codes.shape) / np.sqrt(codes.shape[1])
    tokens = np.asarray(blurred / np.linalg.norm(blurred, axis=-1, keepdims=True), np.float32)
    mean = tokens.mean(0)
    return Query(tokens, np.asarray(mean / np.linalg.norm(mean), np.float32))


def bench_search(queries: int = 20, large: int = 100_000) -> dict[str, object]:
    """Searches against their plain version.

    By s_mix among 3,103 regions of 49 tiles with d = 1000, by s_path among 3,136 regions of a map with d = 128, with
    all tiles in memory and with tiles in 8 bits, and by s_mix among many regions with d = 128.
    """
    rng = np.random.default_rng(1)
    whole, tokens = synthetic_regions(3103, 49, 1000)
    searcher = Searcher.of_regions("s_mix", whole, tokens)
    asked = [query_like(tokens[rng.integers(3103)], 8, 1.5, rng) for _ in range(queries)]
    (fast_ms, fast), (plain_ms, plain) = _timed(searcher.search, asked), _timed(searcher.plain, asked)
    values: dict[str, object] = {
        "speedup": plain_ms / fast_ms, "same_top10_share": _same(fast, plain), "ms_3103": fast_ms,
        "ms_3103_plain": plain_ms, "certified_share_3103": _certified(fast),
        "bytes_per_region": searcher.codes.bytes_per_region,
        "bytes_per_region_full": int(tokens[0].nbytes + whole[0].nbytes),
    }  # fmt: skip
    del searcher, whole, tokens
    tiles, views = synthetic_map(56, 128)
    asked = [query_like(tiles[views[rng.integers(len(views))]], 8, 1.0, rng) for _ in range(queries)]
    searcher, small = Searcher.of_tiles("s_path", tiles, views), Searcher.of_tiles("s_path", tiles, views, small=True)
    (path_ms, fast), (small_ms, certified) = _timed(searcher.search, asked), _timed(small.search, asked)
    values |= {
        "ms_3136_path": path_ms, "ms_3136_path_small": small_ms, "same_top10_share_path": _same(certified, fast),
        "certified_share_path_small": _certified(certified),
        "bytes_per_region_path": searcher.codes.bytes_per_region,
        "bytes_per_region_path_small": small.codes.bytes_per_region,
    }  # fmt: skip
    del searcher, small, tiles, views
    whole, tokens = synthetic_regions(large, 49, 128)
    searcher = Searcher.of_regions("s_mix", whole, tokens)
    asked = [query_like(tokens[rng.integers(large)], 8, 1.0, rng) for _ in range(queries)]
    large_ms, fast = _timed(searcher.search, asked)
    return values | {
        "ms_100k": large_ms, "certified_share": _certified(fast),
        "examined_100k": float(np.mean([ranked.examined for ranked in fast])),
        "bytes_per_region_128": searcher.codes.bytes_per_region, "regions_large": large,
    }  # fmt: skip


def _same(a: list[RankedRegions], b: list[RankedRegions]) -> float:
    """The share of searches that found the same regions."""
    return float(np.mean([set(x.rows.tolist()) == set(y.rows.tolist()) for x, y in zip(a, b, strict=True)]))


def _certified(ranked: list[RankedRegions]) -> float:
    return float(np.mean([one.certified for one in ranked]))


def _timed(search: Callable[[Query], RankedRegions], queries: list[Query]) -> tuple[float, list[RankedRegions]]:
    """Median milliseconds per search, and what was found."""
    search(queries[0])
    spent, ranked = [], []
    for query in queries:
        start = time.perf_counter()
        ranked.append(search(query))
        spent.append(1000 * (time.perf_counter() - start))
    return float(np.median(spent)), ranked
