"""Codes in a few bytes: directions in which they differ, and codebooks whose entries add up to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from x2localizer.files import atomic_path
from x2localizer.search.approximate.kernels import choose_entries
from x2localizer.search.codes import ZERO
from x2localizer.types import Codes, Ints

ENTRIES = 256
"""Of a codebook: one byte says which."""
LEVELS = 6
"""Codebooks, each for what those before it left over. The first two name the list that a tile is in."""
KEPT_VARIANCE, BOOK_VARIANCE = 0.995, 0.97
"""Shares of the variance of codes that must lie in the directions that are kept, and in those that codebooks know."""
MOST_DIRECTIONS = 32
"""Of codebooks: the time to encode a tile grows with them."""
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Codebooks:
    """How codes become bytes.

    mean, basis: of the codes, (d,), and the directions that are kept, (d, p).
    step: what one step of a byte is worth along each direction, (p,).
    books: entries of each level, (levels, 256, b): in the first b of these directions.
    """

    mean: Codes
    basis: Codes
    step: Codes
    books: Codes

    @staticmethod
    def train(codes: Codes, seed: int = 42) -> Codebooks:
        """Fitted to some codes, (n, d)."""
        rng = np.random.default_rng(seed)
        mean, basis = principal(codes)
        points = np.asarray((codes - mean) @ basis, np.float32)
        step = np.maximum(np.abs(points).max(0), 1e-6) * np.float32(1.1 / 127.0)
        known = min(principal(codes, BOOK_VARIANCE)[1].shape[1], MOST_DIRECTIONS)
        points = np.ascontiguousarray(points[:, :known])
        books = []
        for _ in range(LEVELS):
            books.append(kmeans(points, ENTRIES, rng))
            chosen_entries(points, books[-1][None])
        return Codebooks(mean, basis, step.astype(np.float32), np.stack(books))

    def encode(self, codes: Codes) -> tuple[Bytes, Bytes]:
        """The entry of each level, (n, levels), and a byte for each direction, (n, p), of which 128 is 0."""
        points = np.asarray((codes - self.mean) @ self.basis, np.float32)
        small = (np.clip(np.rint(points / self.step), -127, 127) + ZERO).astype(np.uint8)
        known = np.ascontiguousarray(points[:, : self.books.shape[2]])
        return chosen_entries(known, self.books), small

    def tables(self, frames: Codes) -> Codes:
        """What each entry adds to the similarity with some frames, (k, levels, 256); the mean is in the first level."""
        out = np.einsum("lep,kp->kle", self.books, frames @ self.basis[:, : self.books.shape[2]]).astype(np.float32)
        out[:, 0] += (frames @ self.mean)[:, None]
        return np.ascontiguousarray(out)

    def save(self, path: Path) -> None:
        """Write the codebooks, as arrays."""
        with atomic_path(path) as target, target.open("wb") as file:
            np.savez(file, mean=self.mean, basis=self.basis, step=self.step, books=self.books)

    @staticmethod
    def load(path: Path) -> Codebooks:
        """Read codebooks; what does not fit is an OSError, KeyError or ValueError."""
        with np.load(path, allow_pickle=False) as arrays:
            return Codebooks(*(arrays[name].astype(np.float32) for name in ("mean", "basis", "step", "books")))


def principal(codes: Codes, kept: float = KEPT_VARIANCE, most: int | None = None) -> tuple[Codes, Codes]:
    """The mean of codes, (d,), and the orthogonal directions that hold most of their variance, (d, p)."""
    mean = codes.mean(0)
    values, vectors = np.linalg.eigh(np.cov((codes - mean).T) if len(codes) > 1 else np.zeros((codes.shape[1],) * 2))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    shares = np.cumsum(values) / max(float(values.sum()), 1e-12)
    count = int(np.searchsorted(shares, kept)) + 1
    count = min(-(-count // 8) * 8, codes.shape[1]) if most is None else min(most, codes.shape[1])
    return np.asarray(mean, np.float32), np.ascontiguousarray(vectors[:, :count], np.float32)


def chosen_entries(points: Codes, books: Codes) -> Bytes:
    """The nearest entry of each codebook, (n, levels); ``points``, (n, p), become what the entries leave over."""
    entries = np.empty((len(points), len(books)), np.uint8)
    half = np.asarray((books**2).sum(2) / 2, np.float32)
    columns = np.ascontiguousarray(books.transpose(0, 2, 1))
    choose_entries(points, columns, half, np.empty(ENTRIES, np.float32), entries)
    return entries


def nearest(points: Codes, centres: Codes) -> Ints:
    """Which of at most 256 centres is nearest to each point, (n,)."""
    padded = np.full((1, ENTRIES, centres.shape[1]), 1e6, np.float32)  # never the nearest
    padded[0, : len(centres)] = centres
    return chosen_entries(points.astype(np.float32), padded)[:, 0].astype(np.int64)


def kmeans(points: Codes, count: int, rng: np.random.Generator, rounds: int = 8) -> Codes:
    """Centres of clusters of points, (count, p); with fewer points than that, some points more than once."""
    centres = points[rng.choice(len(points), count, replace=len(points) < count)].astype(np.float32)
    for _ in range(rounds):
        chosen = nearest(points, centres)
        order = np.argsort(chosen, kind="stable")
        there, first = np.unique(chosen[order], return_index=True)
        sums = np.add.reduceat(points[order], first, axis=0)
        centres[there] = sums / np.diff(np.append(first, len(points)))[:, None]
    return centres
