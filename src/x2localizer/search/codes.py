"""The codes of a gallery in memory, ready to be compared with a window.

Two kinds: :class:`RegionCodes` are set codes, with tokens of its own for every region. :class:`TileCodes` are image
codes of tiles, which overlapping regions share: a region is a view of some of them.

Both give exact similarities of frames and tiles, and upper bounds of them from codes in 8 bits: a product of bytes is
ten times as fast as one of floats, and the Cauchy-Schwarz inequality bounds what rounding can change.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from x2localizer.similarity.aggregate import token_similarity
from x2localizer.types import Bools, Codes, Ints

ZERO = 128
"""The byte that stands for 0."""
Views = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class ByteCodes:
    """Codes in 8 bits, in groups that share a scale.

    values: bytes, (groups, per group, d).
    scale: what one step of a byte is worth, (groups,).
    slack: how far any code of the group is off at most, (groups,).
    """

    values: npt.NDArray[np.uint8]
    scale: Codes
    slack: Codes


def to_bytes(codes: Codes) -> ByteCodes:
    """Codes (groups, per group, d) in 8 bits."""
    groups = len(codes)
    scale = np.maximum(np.abs(codes).reshape(groups, -1).max(1), 1e-12) / np.float32(127.0)
    steps = np.rint(codes / scale[:, None, None])
    slack = np.linalg.norm(codes - steps * scale[:, None, None], axis=2).max(1)
    return ByteCodes((steps + ZERO).astype(np.uint8), scale.astype(np.float32), slack.astype(np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class ByteQuery:
    """Frames in 7 bits (older CPUs overflow with 8), and what rounding can change."""

    columns: npt.NDArray[np.int8]  # (d, k)
    step: Codes  # (k,)
    off: Codes  # (k,) error of the query, for codes of length 1
    length: Codes  # (k,) length of the rounded query
    zero: Ints  # (k,) what the bytes' offset adds to each product

    @staticmethod
    def of(frames: Codes) -> ByteQuery:
        """The frames' codes, (k, d)."""
        step = np.maximum(np.abs(frames).max(1), 1e-12) / 63.0
        query = np.rint(frames / step[:, None]).astype(np.int8)
        rounded = query * step[:, None]
        return ByteQuery(
            np.ascontiguousarray(query.T), step, np.linalg.norm(frames - rounded, axis=1),
            np.linalg.norm(rounded, axis=1), ZERO * query.astype(np.int64).sum(1),
        )  # fmt: skip


def are_neighbours(rows: Ints) -> bool:
    """Whether rows follow each other without a gap."""
    return len(rows) > 0 and bool(rows[-1] - rows[0] + 1 == len(rows)) and bool((np.diff(rows) == 1).all())


def take_rows(values: npt.NDArray[Any], rows: Ints) -> npt.NDArray[Any]:
    """Some rows of an array; neighbours are not copied."""
    return values[rows[0] : rows[-1] + 1] if are_neighbours(rows) else values[rows]


class StoredCodes(ABC):
    """Codes of r regions with l tiles each.

    valid: which tiles hold data, (r, l).
    whole: set codes of the regions, (r, d); None for codes of tiles.
    headings: in how many headings each tile is there; similarities of tiles are then (m, k, l h).
    exact: whether :meth:`upper_tokens` gives exact similarities: then nothing needs to be compared twice.
    bytes_per_region: memory that a search needs for each region.
    """

    valid: Bools
    whole: Codes | None = None
    headings: int = 1
    exact: bool = False

    def __len__(self) -> int:
        return len(self.valid)

    @property
    def tiles(self) -> int:
        """Tiles of each region, l."""
        return int(self.valid.shape[1])

    def held(self, rows: Ints) -> Bools:
        """Which tiles of some regions hold data, (m, l)."""
        return self.valid[rows]

    def wholes(self, rows: Ints) -> Codes | None:
        """Set codes of some regions, (m, d); None for codes of tiles."""
        return None if self.whole is None else take_rows(self.whole, rows)

    @property
    @abstractmethod
    def bytes_per_region(self) -> int:
        """Memory that a search needs for each region."""

    @abstractmethod
    def tokens(self, frames: Codes, rows: Ints) -> Codes:
        """Exact similarities of frames (k, d) with the tiles of some regions: (m, k, l)."""

    @abstractmethod
    def upper_tokens(self, frames: Codes, rows: Ints) -> Codes:
        """At least those similarities, (m, k, l)."""

    def upper_best(self, frames: Codes, rows: Ints) -> Codes:
        """At least the best of those similarities for each region, (m,)."""
        best: Codes = self.upper_tokens(frames, rows).max((1, 2))
        return best


class RegionCodes(StoredCodes):
    """Tokens of each region in 8 bits; in full as well if ``full`` is given, else ``read`` gets those of some rows."""

    def __init__(
        self, whole: Codes, valid: Bools, small: ByteCodes, read: Callable[[Ints], Codes], full: Codes | None = None,
        threads: int = 0,
    ) -> None:  # fmt: skip
        self.whole, self.valid, self._small, self._read, self._full = whole, valid, small, read, full
        self._threads = threads or os.cpu_count() or 1

    @property
    def bytes_per_region(self) -> int:
        """Memory that a search needs for each region."""
        assert self.whole is not None
        return int(self.whole.shape[1] * 4 + self._small.values[0].nbytes + 8 + self.valid.shape[1])

    def tokens(self, frames: Codes, rows: Ints) -> Codes:
        """Exact similarities, (m, k, l); tokens that are in memory are not copied together first."""
        if self._full is None:
            return token_similarity(frames, self._read(rows))
        if are_neighbours(rows):  # one product
            return token_similarity(frames, take_rows(self._full, rows))
        out = np.empty((len(rows), len(frames), self._full.shape[1]), np.float32)
        for i, row in enumerate(rows):
            np.dot(frames, self._full[row].T, out=out[i])
        return out

    def upper_tokens(self, frames: Codes, rows: Ints) -> Codes:
        """At least those similarities, (m, k, l)."""
        products, scale, above = self._products(frames, rows)
        bound = products.transpose(0, 2, 1).astype(np.float32, order="C")
        bound *= scale[:, :, None]
        bound += above[:, :, None]
        return bound

    def upper_best(self, frames: Codes, rows: Ints) -> Codes:
        """At least the best of those similarities for each region, (m,)."""
        products, scale, above = self._products(frames, rows)
        return np.asarray((products.max(1) * scale + above).max(1), np.float32)

    def _products(self, frames: Codes, rows: Ints) -> tuple[Ints, Codes, Codes]:
        """Products in bytes (m, l, k), what one is worth (m, k), and what to add for rounding (m, k)."""
        query = ByteQuery.of(frames)
        per, d = self._small.values.shape[1:]
        values = take_rows(self._small.values, rows)
        products = byte_product(self._threads).run(None, {"a": values.reshape(-1, d), "b": query.columns})[0]
        scale = query.step * self._small.scale[rows, None]
        above = query.off + query.length * self._small.slack[rows, None]
        return products.reshape(len(rows), per, -1) - query.zero, scale, above


class TileCodes(StoredCodes):
    """Tiles kept once, and regions as views of them.

    views: the tiles of each region, (r, l); -1 where there is none.
    valid: which tiles hold data, (t,).
    full: all tiles, heading by heading, (t h, d), where they fit into memory; else ``small`` has them in 8 bits, each
        with a scale of its own, and ``read`` gets some of them by number, (n h, d).
    """

    def __init__(
        self, views: Views, valid: Bools, *, full: Codes | None = None, small: ByteCodes | None = None,
        read: Callable[[Ints], Codes] | None = None, threads: int = 0, headings: int = 1,
    ) -> None:  # fmt: skip
        self.headings = headings
        self._views, self._full, self._small, self._read = np.where(views < 0, 0, views), full, small, read
        self.valid = valid[self._views] & (views >= 0)
        self.exact = full is not None
        self._threads = threads or os.cpu_count() or 1

    @property
    def bytes_per_region(self) -> int:
        """Memory that a search needs for each region: its share of the tiles, and its view."""
        held = self._full.nbytes if self._full is not None else 0
        held += 0 if self._small is None else self._small.values.nbytes + 8 * len(self._small.scale)
        return int((held + self._views.nbytes + self.valid.nbytes) / max(1, len(self)))

    def tokens(self, frames: Codes, rows: Ints) -> Codes:
        """Exact similarities, (m, k, l h)."""
        views = self._views[rows]
        if self._full is not None:
            if views.size * self.headings >= len(self._full):  # every tile once, then the views
                return self._viewed(frames @ self._full.T, views)
            return token_similarity(frames, self._full[self._numbers(views).reshape(len(rows), -1)])
        assert self._read is not None
        tiles, inverse = np.unique(views, return_inverse=True)
        return self._viewed(frames @ self._read(tiles).T, inverse.reshape(views.shape))

    def upper_tokens(self, frames: Codes, rows: Ints) -> Codes:
        """At least those similarities, (m, k, l h); exactly those where all tiles are in memory."""
        if self._small is None:
            return self.tokens(frames, rows)
        query, d = ByteQuery.of(frames), self._small.values.shape[2]
        tiles, inverse = np.arange(len(self._small.values)), self._views[rows]
        if 2 * self.headings * inverse.size < len(tiles):
            chosen, inverse = np.unique(inverse, return_inverse=True)
            tiles = self._numbers(chosen).reshape(-1)
        values = self._small.values[:, 0] if len(tiles) == len(self._small.values) else self._small.values[tiles, 0]
        products = byte_product(self._threads).run(None, {"a": values.reshape(-1, d), "b": query.columns})[0]
        bound = (products - query.zero) * (query.step * self._small.scale[tiles, None])
        bound += query.off + query.length * self._small.slack[tiles, None]
        return self._viewed(np.ascontiguousarray(bound.T, np.float32), inverse.reshape(len(rows), -1))

    def _numbers(self, tiles: npt.NDArray[np.integer]) -> Ints:
        """Where the headings of some tiles are among all codes, (..., h)."""
        return tiles[..., None].astype(np.int64) * self.headings + np.arange(self.headings)

    def _viewed(self, values: Codes, views: npt.NDArray[np.integer]) -> Codes:
        """Similarities of tiles (k, t h) as those of regions, (m, k, l h)."""
        k, (m, tiles) = len(values), views.shape
        seen = values.reshape(k, -1, self.headings)[:, views]
        return np.ascontiguousarray(seen.transpose(1, 0, 2, 3)).reshape(m, k, tiles * self.headings)


@cache
def byte_product(threads: int) -> ort.InferenceSession:
    """A product of bytes and signed bytes, exact in 32 bits."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    graph = (resources.files("x2localizer") / "search" / "product.onnx").read_bytes()
    return ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
