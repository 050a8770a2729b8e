"""Memory that tensors give back, kept for the next step."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h
KEPT_BYTES = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let malloc keep up to 2 GiB that tensors gave back; False where the C library cannot.

    By default glibc returns large blocks to the system at once. Each step of a training on the CPU then waits for the
    same pages to be cleared again.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_MAX, 0)) and bool(mallopt(M_TRIM_THRESHOLD, KEPT_BYTES))
