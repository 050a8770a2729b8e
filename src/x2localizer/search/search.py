"""The best regions for a prefix by s_mix or s_path: plain, and fast with a proof.

The fast search rests on two facts. A softmax-weighted mean is at most its maximum, so s_f is at most the best
frame-tile similarity, and s_mix at most (s_g + that) / 2; s_path grows with every frame-tile similarity. And tokens
kept in 8 bits give these similarities up to an error that the Cauchy-Schwarz inequality bounds. So every
region has an upper bound at a fraction of the cost; the exact similarity is worked out for the regions with the highest
bounds, until no bound that is left reaches the K-th best. Then the top K is exactly that of the plain search: the
answer is certified.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from x2localizer import geo
from x2localizer.encoders import SetCodes
from x2localizer.errors import GalleryError
from x2localizer.gallery.store import Gallery
from x2localizer.gallery.tiles import TileReader
from x2localizer.search.similarity import REACH, fine_similarity, summed_paths, token_similarity
from x2localizer.types import Bools, Codes, Region

Rows = npt.NDArray[np.int64]
Similarity = Literal["s_mix", "s_path"]
ROUNDING = 1e-5
"""Bounds are worked out in float32: so much is added, which is a hundred times their rounding."""
REACH_M_S = 23.0
"""s_path: how fast the camera may move between keyframes, along rows and along columns, in metres a second."""
ZERO = 128
"""The byte that stands for 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """The best regions, best first: rows in the gallery, their similarity, and what it is made of, all (k,).

    ``fine`` is s_f, or s_path itself. ``certified``: no other region of those that
    were allowed can be better. ``examined`` counts exact comparisons.
    """

    rows: Rows
    score: Codes
    s_g: Codes
    fine: Codes
    certified: bool
    examined: int

    def taken(self, which: list[int]) -> Hits:
        """Some of them, in that order."""
        return Hits(
            self.rows[which], self.score[which], self.s_g[which], self.fine[which], self.certified, self.examined
        )

    def joined(self, other: Hits) -> Hits:
        """With other regions at the end."""
        return Hits(
            np.append(self.rows, other.rows), np.append(self.score, other.score), np.append(self.s_g, other.s_g),
            np.append(self.fine, other.fine), self.certified, self.examined,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Bytes:
    """Tokens in 8 bits: (r, l, d) bytes, a scale per region, and how far any token of a region is off at most."""

    values: npt.NDArray[np.uint8]
    scale: Codes
    slack: Codes


class Searcher:
    """Searches one gallery. Embeddings of regions and their tokens in 8 bits are kept in memory.

    s_mix compares Phi of the prefix with Phi of the regions. s_path compares phi of the frames with phi of the regions'
    tiles at half stride: the prefix's ``tokens`` are then phi of its frames, and its ``whole`` is not looked at.

    Full tokens are kept too if they take at most ``memory_mb``; else those of the best regions are read when needed.
    """

    def __init__(
        self,
        whole: Codes,
        valid: Bools,
        read: Callable[[Rows], Codes],
        small: Bytes,
        temperature: float = 0.01,
        threads: int = 0,
        similarity: Similarity = "s_mix",
        full: Codes | None = None,
        reach: int = REACH,
    ) -> None:
        self.whole, self.valid, self._read, self.small, self._full = whole, valid, read, small, full
        self.similarity, self.reach = similarity, reach
        self.temperature, self.threads = temperature, threads or os.cpu_count() or 1

    @classmethod
    def over(
        cls, gallery: Gallery, *, temperature: float = 0.01, memory_mb: int = 1024, threads: int = 0,
        similarity: Similarity = "s_mix", spacing_s: float = 5.0,
    ) -> Searcher:  # fmt: skip
        """A searcher over an open gallery, for keyframes that are so many seconds apart."""
        table = gallery.regions
        if not len(table):
            raise GalleryError(f"The gallery {gallery.address} holds no region.", "Index larger imagery.")
        half = similarity == "s_path"
        per, d = (2 * gallery.about.n - 1) ** 2 if half else gallery.about.n**2, gallery.about.dim
        keep = len(table) * per * d * 4 <= memory_mb << 20
        full = np.empty((len(table), per, d), np.float32) if keep else None
        parts = Bytes(
            np.empty((len(table), per, d), np.uint8), np.empty(len(table), np.float32), np.empty(len(table), np.float32)
        )
        valid = np.empty((len(table), per), np.bool_)
        tiles = TileReader(gallery)
        for rows, tokens, held in _half_parts(gallery, tiles) if half else _token_parts(gallery):
            small = to_bytes(tokens)
            parts.values[rows], parts.scale[rows], parts.slack[rows] = small.values, small.scale, small.slack
            valid[rows] = held
            if full is not None:
                full[rows] = tokens

        def read(rows: Rows) -> Codes:
            if half:
                return _half_tiles(gallery, tiles, rows)[0]
            return gallery.tokens(table.ids[rows])

        reach = reach_in(table.region(0), spacing_s)
        return cls(table.whole, valid, read, parts, temperature, threads, similarity, full, reach)

    @classmethod
    def of_arrays(
        cls, whole: Codes, tokens: Codes, valid: Bools | None = None, temperature: float = 0.01,
        similarity: Similarity = "s_mix",
    ) -> Searcher:  # fmt: skip
        """A searcher over arrays (r, d) and (r, l, d)."""
        held = np.ones(tokens.shape[:2], np.bool_) if valid is None else valid
        return cls(
            whole, held, lambda rows: tokens[rows], to_bytes(tokens), temperature, similarity=similarity, full=tokens
        )

    @property
    def bytes_per_region(self) -> int:
        """Memory per region that every search needs."""
        return int(self.whole.shape[1] * 4 + self.small.values[0].nbytes + 8 + self.valid.shape[1])

    def mixed(self, s_g: Codes, fine: Codes) -> Codes:
        """The similarity from its parts."""
        return np.asarray(fine if self.similarity == "s_path" else (s_g + fine) / 2, np.float32)

    def look_at(self, prefix: SetCodes, rows: Rows) -> Hits:
        """Some regions, in their order."""
        s_g, fine = self.scores(prefix, rows)
        return Hits(rows, self.mixed(s_g, fine), s_g, fine, True, len(rows))

    def _best(self, rows: Rows, s_g: Codes, fine: Codes, k: int, *, certified: bool) -> Hits:
        score = self.mixed(s_g, fine)
        order = np.lexsort((rows, -score))[:k]
        return Hits(rows[order], score[order], s_g[order], fine[order], certified, len(rows))

    # Plain -----------------------------------------------------------------------------------------------------------

    def scores(self, prefix: SetCodes, rows: Rows) -> tuple[Codes, Codes]:
        """s_g and the fine part of some regions, exactly: (m,) each."""
        s_tok = self._token_similarity(prefix.tokens[0], rows)
        valid = None if self.valid[rows].all() else self.valid[rows]
        if self.similarity == "s_path":
            return np.zeros(len(rows), np.float32), summed_paths(s_tok, valid, reach=self.reach)
        s_g = self.whole[rows] @ prefix.whole[0]
        return s_g, fine_similarity(s_tok, self.temperature, valid)

    def _token_similarity(self, frames: Codes, rows: Rows) -> Codes:
        """s_tok of some regions, (m, k, l); tokens that are in memory are not copied together first."""
        if self._full is None:
            return token_similarity(frames, self._read(rows))
        neighbours = len(rows) > 0 and np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows)))
        if neighbours:  # one product
            return token_similarity(frames, self._full[rows[0] : rows[-1] + 1])
        out = np.empty((len(rows), len(frames), self._full.shape[1]), np.float32)
        for i, row in enumerate(rows):
            np.dot(frames, self._full[row].T, out=out[i])
        return out

    def plain(self, prefix: SetCodes, k: int = 10, allowed: Bools | None = None, chunk: int = 256) -> Hits:
        """The best k regions by comparing with all of them, some at a time."""
        rows = np.arange(len(self.whole)) if allowed is None else np.flatnonzero(allowed)
        found = [self.scores(prefix, part) for part in _chunks(rows, chunk)]
        if not found:
            return _nothing()
        s_g, s_f = (np.concatenate([pair[i] for pair in found]) for i in (0, 1))
        return self._best(rows, s_g, s_f, k, certified=True)

    # Fast ------------------------------------------------------------------------------------------------------------

    def search(self, prefix: SetCodes, k: int = 10, allowed: Bools | None = None, most: int = 4096) -> Hits:
        """The best k regions, as ``plain`` finds them; not certified if that would take over ``most`` comparisons."""
        rows = np.arange(len(self.whole)) if allowed is None else np.flatnonzero(allowed)
        if len(rows) <= 4 * k or 4 * k > most:
            return self.plain(prefix, k, allowed)
        s_g = 0.0 if self.similarity == "s_path" else self.whole[rows] @ prefix.whole[0]
        bound = self.mixed(np.asarray(s_g, np.float32), self._fine_bound(prefix.tokens[0], rows)) + ROUNDING
        order = np.argsort(-bound, kind="stable")
        taken = np.zeros(0, np.int64)
        s_g, s_f = np.zeros(0, np.float32), np.zeros(0, np.float32)
        start, size = 0, 4 * k
        while start < len(order):
            if len(taken) >= k:
                threshold = np.partition(self.mixed(s_g, s_f), -k)[-k]
                reach = int((bound[order[start:]] >= threshold).sum())
                if reach == 0:
                    break
                size = min(size, reach)
            if start + size > most:
                return self._best(rows[taken], s_g, s_f, k, certified=False)
            part = order[start : start + size]
            more_g, more_f = self.scores(prefix, rows[part])
            taken, s_g, s_f = np.append(taken, part), np.append(s_g, more_g), np.append(s_f, more_f)
            start += size
            size = 256
        return self._best(rows[taken], s_g, s_f, k, certified=True)

    def _fine_bound(self, frames: Codes, rows: Rows, chunk: int = 2048) -> Codes:
        """An upper bound of the fine part of each region: by its best frame-tile similarity, or by all of them."""
        step = np.maximum(np.abs(frames).max(1), 1e-12) / 63.0  # 7 bits: the sums of older CPUs would overflow with 8
        query = np.rint(frames / step[:, None]).astype(np.int8)  # (k, d)
        rounded = query * step[:, None]
        off = np.linalg.norm(frames - rounded, axis=1)  # error of the query, for tokens of length 1
        length = np.linalg.norm(rounded, axis=1)
        columns = np.ascontiguousarray(query.T)
        zero = ZERO * query.astype(np.int32).sum(1)
        product = _product(self.threads)
        out = np.empty(len(rows), np.float32)
        everything = len(rows) == len(self.whole)
        per, d = self.small.values.shape[1:]
        for part in _chunks(np.arange(len(rows)), chunk if self.similarity == "s_mix" else chunk // 8):
            chosen = rows[part]
            values = self.small.values[chosen[0] : chosen[-1] + 1] if everything else self.small.values[chosen]
            whole = product.run(None, {"a": values.reshape(-1, d), "b": columns})[0]  # (m l, k)
            tokens = whole.reshape(len(part), per, -1)  # (m, l, k)
            scale = step * self.small.scale[chosen, None]  # (m, k)
            above = off + length * self.small.slack[chosen, None]
            if self.similarity == "s_path":
                bound = (tokens - zero).transpose(0, 2, 1).astype(np.float32, order="C")
                bound *= scale[:, :, None]
                bound += above[:, :, None]
                held = None if self.valid[chosen].all() else self.valid[chosen]
                out[part] = summed_paths(bound, held, reach=self.reach)
            else:
                out[part] = ((tokens.max(1) - zero) * scale + above).max(1)
        return out


def reach_in(region: Region, spacing_s: float = 5.0) -> int:
    """How many tiles at half stride the camera may move between keyframes that are so many seconds apart."""
    half_tile_m = geo.tile_size_m(geo.region_centre(region).lat_deg, region.z) / 2
    return max(1, round(REACH_M_S * spacing_s / half_tile_m))


def _token_parts(gallery: Gallery) -> Iterator[tuple[Rows, Codes, Bools]]:
    """Phi of the regions' tiles, some regions at a time: rows, tokens (m, n n, d), which hold data."""
    table = gallery.regions
    for ids, tokens in gallery.token_parts():
        rows = np.searchsorted(table.ids, ids)
        yield rows, tokens, table.valid[rows]


def _half_parts(gallery: Gallery, tiles: TileReader) -> Iterator[tuple[Rows, Codes, Bools]]:
    """phi of the regions' tiles at half stride, some regions at a time."""
    for rows in _chunks(np.arange(len(gallery.regions)), 64):
        yield rows, *_half_tiles(gallery, tiles, rows)


def _half_tiles(gallery: Gallery, tiles: TileReader, rows: Rows) -> tuple[Codes, Bools]:
    grid = tiles.grid([gallery.regions.region(int(row)) for row in rows])
    return grid.codes.reshape(len(rows), -1, gallery.about.dim), grid.valid.reshape(len(rows), -1)


def to_bytes(tokens: Codes) -> Bytes:
    """Tokens (r, l, d) in 8 bits, with one scale for each region."""
    r = len(tokens)
    scale = np.maximum(np.abs(tokens).reshape(r, -1).max(1), 1e-12) / np.float32(127.0)
    steps = np.rint(tokens / scale[:, None, None])
    slack = np.linalg.norm(tokens - steps * scale[:, None, None], axis=2).max(1)
    return Bytes((steps + ZERO).astype(np.uint8), scale.astype(np.float32), slack.astype(np.float32))


@cache
def _product(threads: int) -> ort.InferenceSession:
    """A product of bytes and signed bytes, exact in 32 bits: ten times as fast as one of floats."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    graph = (resources.files("x2localizer") / "search" / "product.onnx").read_bytes()
    return ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _nothing() -> Hits:
    none = np.zeros(0, np.float32)
    return Hits(np.zeros(0, np.int64), none, none, none, True, 0)


def _chunks(rows: Rows, size: int) -> Iterator[Rows]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
