"""Randomness for pictures: every value is a pure function of a place and a seed, so pixels repeat exactly."""

from __future__ import annotations

import zlib

import numpy as np

from x2localizer.town.compiled import compiled


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """A random stream of its own for each purpose, so that drawing more for one never shifts another."""
    words = [zlib.crc32(name.encode()) if isinstance(name, str) else name for name in names]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *words])))


@compiled
def hash01(x: int, y: int, seed: int) -> float:
    """A fixed pseudo-random number in [0, 1) for an integer place."""
    value = (x * 374761393 + y * 668265263 + seed * 974634777) & 0xFFFFFFFF
    value = ((value ^ (value >> 13)) * 1274126177) & 0xFFFFFFFF
    value = ((value ^ (value >> 16)) * 2246822519) & 0xFFFFFFFF
    return ((value ^ (value >> 15)) & 0xFFFFFF) / 16777216.0


@compiled
def smooth_noise(x: float, y: float, seed: int) -> float:
    """Value noise in [0, 1), one bump per unit of length."""
    fx, fy = np.floor(x), np.floor(y)
    ix, iy = int(fx), int(fy)
    u, v = x - fx, y - fy
    u = u * u * (3.0 - 2.0 * u)
    v = v * v * (3.0 - 2.0 * v)
    top = hash01(ix, iy, seed) * (1.0 - u) + hash01(ix + 1, iy, seed) * u
    low = hash01(ix, iy + 1, seed) * (1.0 - u) + hash01(ix + 1, iy + 1, seed) * u
    return top * (1.0 - v) + low * v
