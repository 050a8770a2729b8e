"""Errors for users: what happened, and what to do next.

Everything that a user, a camera or a file can cause is raised as a :class:`UserError`. The command line prints it
without a traceback (``--debug`` shows it). Any other exception that escapes is a bug.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType
from typing import ClassVar


class UserError(Exception):
    """A problem the user can fix.

    ``what`` says what happened, ``remedy`` what to do next. ``exit_code`` is that of the command line.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what} {self.remedy}"


class StoppedError(UserError):
    """Ctrl-C, with what became of the work so far."""

    exit_code = 130


class ConfigError(UserError):
    """A preset, an override or an option that is not valid."""


class VideoError(UserError):
    """A video, camera or stream that cannot be read or written."""


class ImageryError(UserError):
    """Aerial imagery that cannot be read."""


class TrackError(UserError):
    """A recorded track that cannot be read."""


class RoadError(UserError):
    """A file of roads that cannot be read."""


class MotionError(UserError):
    """A file of recorded motion that cannot be read."""


class SinkError(UserError):
    """A program, a port or a file that fixes cannot be handed on to."""


class DatasetError(UserError):
    """A dataset that is missing, damaged or in another format."""


class CheckpointError(UserError):
    """A checkpoint that is missing, damaged, from another model, or not safe to open."""


class BundleError(UserError):
    """A bundle that is missing, damaged or in another format."""


class DeviceError(UserError):
    """A device to run encoders on that is not there, or does not work."""


class GalleryError(UserError):
    """A gallery that is missing, incomplete, damaged, or built with another bundle."""


_OF_MEMORY = (
    "bad_alloc", "bad allocation", "failed to allocate", "failed to map segment", "cannot allocate memory",
    "can't start new thread", "pthread_create",
)  # fmt: skip


def lacks_memory(problem: BaseException) -> bool:
    """Whether an error of a library says that memory has run out; few of them raise a MemoryError."""
    said = str(problem).lower()
    return isinstance(problem, MemoryError) or any(words in said for words in _OF_MEMORY)


def nearest(name: str, valid: Iterable[str]) -> str:
    """A remedy for a wrong name: the most similar valid name, or the list of them all."""
    names = sorted(valid)
    similar = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if similar:
        return f"Did you mean '{similar[0]}'?"
    return f"Valid names: {', '.join(names)}." if names else "There are no valid names."


def optional(module: str, package: str, what: str) -> ModuleType:
    """A module of a package that comes with the extra [programs]; without it, an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError as problem:
        raise UserError(
            f"{what} needs {package}, which is not installed.", "pip install 'x2localizer[programs]'"
        ) from problem
