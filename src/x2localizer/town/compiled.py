"""One typed door to numba: machine code that is compiled once and kept beside the source."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile on first call; later processes load the machine code from the cache."""
    return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=True)(function))


def inlined(function: Function) -> Function:
    """Compile for use inside other compiled functions of the same module."""
    return cast(
        Function, numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=True, inline="never")(function)
    )
