"""One typed door to numba: machine code that is compiled once and kept in a cache.

numba's own cache looks at one function's file only and misses a change in a function that was compiled into it. So
the cache lies in a folder named after the contents of all files here: another version never meets old machine code.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])

# Without numba's reference counting: the kernels allocate nothing, and counting the arrays of a named tuple made the
# painter of the ground five times as slow.
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": True, "_nrt": False}


def _cache_folder() -> Path:
    """Beside the source where that can be written to, else below the user's cache."""
    here = Path(__file__).parent
    sources = b"".join(path.read_bytes() for path in sorted(here.glob("*.py")))
    name = f"numba-{hashlib.sha256(sources).hexdigest()[:12]}"
    home = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "x2localizer"
    spare = Path(tempfile.gettempdir()) / f"x2localizer-{getpass.getuser()}"
    for parent in (here / "__pycache__", home, spare):
        folder = parent / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "used").touch()
        except OSError:
            continue
        _forget_old(parent)
        return folder
    return Path(tempfile.mkdtemp(prefix="x2localizer-"))


def _forget_old(parent: Path) -> None:
    """Remove caches of other versions that nobody has used for a month."""
    for old in parent.glob("numba-*"):
        with contextlib.suppress(OSError):
            if time.time() - (old / "used").stat().st_mtime > 30 * 86400:
                shutil.rmtree(old, ignore_errors=True)


CACHE = str(_cache_folder())


def _compile(function: Function, **more: Any) -> Function:
    """Decorate with the cache folder set; numba reads that setting at this moment only."""
    settings: Any = numba.config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = CACHE
    try:
        return cast(Function, numba.njit(**OPTIONS, **more)(function))
    finally:
        settings.CACHE_DIR = before


def compiled(function: Function) -> Function:
    """Compile on first call; later processes load the machine code. Kernels must not allocate."""
    return _compile(function)


def inlined(function: Function) -> Function:
    """Compile into the body of the compiled functions that call it: for what runs once per pixel.

    A call costs more than such a function does, since a named tuple of arrays is copied for each.
    """
    return _compile(function, forceinline=True)
