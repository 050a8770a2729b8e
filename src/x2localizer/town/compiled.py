"""One typed door to numba: machine code that is compiled once and kept beside the source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])

# Without numba's reference counting: the kernels allocate nothing, and counting the arrays of a named tuple made the
# painter of the ground five times as slow.
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": True, "_nrt": False}


def compiled(function: Function) -> Function:
    """Compile on first call; later processes load the machine code from the cache. Kernels must not allocate."""
    return cast(Function, numba.njit(**OPTIONS)(function))


def inlined(function: Function) -> Function:
    """Compile into the body of the compiled functions that call it: for what runs once per pixel.

    A call costs more than such a function does, since a named tuple of arrays is copied for each. numba's cache does
    not see a change in such a function: after editing one, delete the ``*.nbi`` files beside it.
    """
    return cast(Function, numba.njit(**OPTIONS, forceinline=True)(function))
