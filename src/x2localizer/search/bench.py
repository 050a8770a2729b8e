"""How fast is a search? Against the plain version in the same run; timing lives here, never in a test."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from x2localizer.encoders import SetCodes
from x2localizer.search.search import Hits, Searcher
from x2localizer.types import Codes


def synthetic(regions: int, tiles: int, dim: int, seed: int = 0) -> tuple[Codes, Codes]:
    """Embeddings (r, d) and tokens (r, l, d) as trained towers give them: all share a direction, the tiles of a region
    share more, and each has something of its own."""
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


def prefix_of(tokens: Codes, region: int, frames: int, noise: float, rng: np.random.Generator) -> SetCodes:
    """A prefix that looks like some tiles of a region, more or less."""
    seen = tokens[region, rng.integers(0, tokens.shape[1], frames)]
    blurred = seen + noise * rng.normal(size=seen.shape) / np.sqrt(seen.shape[1])
    codes = np.asarray(blurred / np.linalg.norm(blurred, axis=-1, keepdims=True), np.float32)
    mean = codes.mean(0)
    return SetCodes(np.asarray(mean / np.linalg.norm(mean), np.float32)[None], codes[None])


def bench_search(queries: int = 20, large: int = 100_000) -> dict[str, object]:
    """3,103 regions of 49 tiles with d = 1000 and 8 frames, both ways; as many by s_path, of 169 tiles with d = 128;
    and many regions with d = 128."""
    whole, tokens = synthetic(3103, 49, 1000)
    searcher = Searcher.of_arrays(whole, tokens)
    rng = np.random.default_rng(1)
    prefixes = [prefix_of(tokens, int(rng.integers(3103)), 8, 1.5, rng) for _ in range(queries)]
    fast_ms, fast = _timed(searcher.search, prefixes)
    plain_ms, plain = _timed(searcher.plain, prefixes)
    same = [set(a.rows.tolist()) == set(b.rows.tolist()) for a, b in zip(fast, plain, strict=True)]
    values: dict[str, object] = {
        "speedup": plain_ms / fast_ms, "same_top10_share": float(np.mean(same)), "ms_3103": fast_ms,
        "ms_3103_plain": plain_ms, "certified_share_3103": float(np.mean([hits.certified for hits in fast])),
        "bytes_per_region": searcher.bytes_per_region, "bytes_per_region_full": int(tokens[0].nbytes + whole[0].nbytes),
    }  # fmt: skip
    del searcher, whole, tokens
    whole, tokens = synthetic(3103, 169, 128)
    searcher = Searcher.of_arrays(whole, tokens, similarity="s_path")
    prefixes = [prefix_of(tokens, int(rng.integers(3103)), 8, 1.0, rng) for _ in range(queries)]
    path_ms, found = _timed(searcher.search, prefixes)
    path_plain_ms, plain = _timed(searcher.plain, prefixes)
    same = [a.rows.tolist() == b.rows.tolist() for a, b in zip(found, plain, strict=True)]
    values |= {
        "ms_3103_path": path_ms, "ms_3103_path_plain": path_plain_ms, "same_top10_share_path": float(np.mean(same)),
    }  # fmt: skip
    whole, tokens = synthetic(large, 49, 128)
    searcher = Searcher.of_arrays(whole, tokens)
    prefixes = [prefix_of(tokens, int(rng.integers(large)), 8, 1.0, rng) for _ in range(queries)]
    large_ms, found = _timed(searcher.search, prefixes)
    return values | {
        "ms_100k": large_ms, "certified_share": float(np.mean([hits.certified for hits in found])),
        "examined_100k": float(np.mean([hits.examined for hits in found])),
        "bytes_per_region_128": searcher.bytes_per_region, "regions_large": large,
    }  # fmt: skip


def _timed(search: Callable[[SetCodes], Hits], prefixes: list[SetCodes]) -> tuple[float, list[Hits]]:
    """Median milliseconds per search, and what was found."""
    search(prefixes[0])
    spent, found = [], []
    for prefix in prefixes:
        start = time.perf_counter()
        found.append(search(prefix))
        spent.append(1000 * (time.perf_counter() - start))
    return float(np.median(spent)), found
