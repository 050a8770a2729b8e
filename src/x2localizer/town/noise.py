"""Randomness that repeats exactly: every value is a pure function of a place or a purpose and a seed."""

from __future__ import annotations

import zlib

import numpy as np

from x2localizer.compiled import inlined


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """The random stream of a seed for a purpose, so that drawing more for one purpose never changes another."""
    words = [zlib.crc32(name.encode()) if isinstance(name, str) else name for name in names]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *words])))


@inlined
def hash01(x: int, y: int, seed: int) -> float:
    """A pseudo-random number in [0, 1) that depends on integer coordinates and a seed."""
    value = (x * 374761393 + y * 668265263 + seed * 974634777) & 0xFFFFFFFF
    value = ((value ^ (value >> 13)) * 1274126177) & 0xFFFFFFFF
    value = ((value ^ (value >> 16)) * 2246822519) & 0xFFFFFFFF
    return ((value ^ (value >> 15)) & 0xFFFFFF) / 16777216.0


_LATTICE = 128
_BUMPS = stream(20, "bumps").random((_LATTICE, _LATTICE)).astype(np.float32)
"""Random heights on a lattice that repeats; each seed starts at another corner of it."""


@inlined
def smooth_noise(x: float, y: float, seed: int) -> float:
    """Value noise in [0, 1) with a bump per unit of length, which repeats after 128 units."""
    fx, fy = np.floor(x), np.floor(y)
    c, r = int(fx) + seed * 37, int(fy) + seed * 59
    c0, c1 = c & (_LATTICE - 1), (c + 1) & (_LATTICE - 1)
    r0, r1 = r & (_LATTICE - 1), (r + 1) & (_LATTICE - 1)
    u, v = np.float32(x - fx), np.float32(y - fy)
    u = u * u * (np.float32(3.0) - np.float32(2.0) * u)
    v = v * v * (np.float32(3.0) - np.float32(2.0) * v)
    top = _BUMPS[r0, c0] + (_BUMPS[r0, c1] - _BUMPS[r0, c0]) * u
    low = _BUMPS[r1, c0] + (_BUMPS[r1, c1] - _BUMPS[r1, c0]) * u
    return float(top + (low - top) * v)
