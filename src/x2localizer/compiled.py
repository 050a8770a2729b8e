"""Kernels compiled by numba once: later processes load the machine code from a cache.

numba's own cache only checks the file of a kernel and misses changes in functions that were compiled into it. So the
cache is a folder named after the contents of all files of the kernel's package: new sources never run old machine code.
A kernel may use compiled functions of its own package only.
Importing a kernel writes nothing; the folder is created when the first kernel is called.
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

# Without numba's reference counting: kernels allocate nothing, and counting the arrays of named tuples made painting
# the ground five times as slow.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": True, "_nrt": False}


@functools.cache
def _sources(package: Path) -> str:
    """A short name for the contents of a package.

    Read at import: when the first kernel is called, a source may differ from what was imported.
    """
    files = [Path(__file__), *sorted(package.glob("*.py"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def compiled(function: Function) -> Function:
    """Compile on the first call; later processes load the machine code. Kernels must not allocate."""
    return _compile(function)


def inlined(function: Function) -> Function:
    """Compile into the body of the kernels that call it: for functions that run once per pixel.

    A call would cost more than such a function does, since it copies named tuples of arrays.
    """
    return _compile(function, forceinline=True)


def _compile(function: Function, **options: Any) -> Function:
    dispatcher: Any = numba.njit(**OPTIONS, **options)(function)
    package = Path(function.__code__.co_filename).parent
    dispatcher._cache = _CacheOnFirstCall(dispatcher, package, _sources(package))
    return cast(Function, dispatcher)


class _CacheOnFirstCall(NullCache):  # type: ignore[misc, unused-ignore]
    """A placeholder that numba's cache replaces when the kernel is first called.

    ``njit(cache=True)`` would create the cache's folder while the kernel's module is imported.
    """

    def __init__(self, dispatcher: Any, package: Path, sources: str) -> None:
        self._dispatcher, self._package, self._sources = dispatcher, package, sources

    def load_overload(self, signature: object, target_context: object) -> object:
        """The machine code for a signature, if it is in the cache. numba holds its compiler lock during the call."""
        settings: Any = numba.config
        before, settings.CACHE_DIR = settings.CACHE_DIR, str(cache_folder(self._package, self._sources))
        try:
            self._dispatcher.enable_caching()
        finally:
            settings.CACHE_DIR = before
        return self._dispatcher._cache.load_overload(signature, target_context)


@functools.cache
def cache_folder(package: Path, sources: str) -> Path:
    """The folder of a package's machine code, created if missing: beside the sources if that is writable."""
    for parent in _cache_parents(package):
        folder = parent / f"numba-{sources}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "used").touch()
        except OSError:
            continue
        _remove_old(parent)
        return folder
    folder = Path(tempfile.mkdtemp(prefix="x2localizer-"))  # private: in a shared folder others could plant code
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _cache_parents(package: Path) -> Iterator[Path]:
    yield package / "__pycache__"
    with contextlib.suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "x2localizer"


def _remove_old(parent: Path) -> None:
    """Remove the caches of other versions that have not been used for a month."""
    for old in parent.glob("numba-*"):
        with contextlib.suppress(OSError):
            if time.time() - (old / "used").stat().st_mtime > 30 * 86400:
                shutil.rmtree(old, ignore_errors=True)
