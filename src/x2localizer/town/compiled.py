"""Kernels compiled by numba, once: later processes load the machine code from a cache.

numba's own cache looks at one function's file only and misses a change in a function that was compiled into it. So
the cache is a folder named after the contents of all files of this package: new sources never meet old machine code.
Importing a kernel writes nothing; the folder is made when the first kernel is called.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import NullCache

Function = TypeVar("Function", bound=Callable[..., object])

# Without numba's reference counting: the kernels allocate nothing, and counting the arrays of a named tuple made the
# painter of the ground five times as slow.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": True, "_nrt": False}

_HERE = Path(__file__).parent
# Hashed at import, not when the first kernel is called: by then a file may have changed that was imported before.
_SOURCES = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(_HERE.glob("*.py")))).hexdigest()


def compiled(function: Function) -> Function:
    """Compile on first call; later processes load the machine code. Kernels must not allocate."""
    return _compile(function)


def inlined(function: Function) -> Function:
    """Compile into the body of the compiled functions that call it: for what runs once per pixel.

    A call costs more than such a function does, since a named tuple of arrays is copied for each.
    """
    return _compile(function, forceinline=True)


def _compile(function: Function, **options: Any) -> Function:
    dispatcher: Any = numba.njit(**OPTIONS, **options)(function)
    dispatcher._cache = _CacheOnFirstCall(dispatcher)
    return cast(Function, dispatcher)


class _CacheOnFirstCall(NullCache):  # type: ignore[misc, unused-ignore]
    """Stands in for numba's cache of a kernel until its machine code is first wanted, and then makes way for it.

    ``njit(cache=True)`` makes the cache's folder while the kernel's module is imported.
    """

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher

    def load_overload(self, signature: object, target_context: object) -> object:
        settings: Any = numba.config
        before, settings.CACHE_DIR = settings.CACHE_DIR, str(cache_folder())  # numba holds its lock here
        try:
            self._dispatcher.enable_caching()
        finally:
            settings.CACHE_DIR = before
        return self._dispatcher._cache.load_overload(signature, target_context)


@functools.cache
def cache_folder() -> Path:
    """The folder of the machine code, made if need be: beside the sources if that can be written to."""
    for parent in _cache_parents():
        folder = parent / f"numba-{_SOURCES[:12]}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "used").touch()
        except OSError:
            continue
        _remove_old(parent)
        return folder
    folder = Path(tempfile.mkdtemp(prefix="x2localizer-"))  # for this process: others could plant code in a shared one
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _cache_parents() -> Iterator[Path]:
    yield _HERE / "__pycache__"
    with contextlib.suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "x2localizer"


def _remove_old(parent: Path) -> None:
    """Remove caches of other versions that were not used for a month."""
    for old in parent.glob("numba-*"):
        with contextlib.suppress(OSError):
            if time.time() - (old / "used").stat().st_mtime > 30 * 86400:
                shutil.rmtree(old, ignore_errors=True)
