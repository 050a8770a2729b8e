"""What users are told when something is wrong, and what to do next.

Everything a user, a camera or a file can cause is raised as a :class:`UserError`. The command line prints it
without a traceback (``--debug`` shows one). Anything else that escapes is a bug of ours.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can mend: what happened, and the next step."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what} {self.remedy}"


class ConfigError(UserError):
    """A preset, an override or an option that does not fit."""


class VideoError(UserError):
    """A video, camera or stream that cannot be read or written."""


class ImageryError(UserError):
    """Aerial imagery that cannot be read."""


class TrackError(UserError):
    """A recorded track that cannot be read."""


class DatasetError(UserError):
    """A data set that is missing, damaged or of another format."""


class CheckpointError(UserError):
    """Weights or a checkpoint that is missing, damaged, of another model, or not safe to open."""


class BundleError(UserError):
    """A bundle that is missing, damaged or of another format."""


class GalleryError(UserError):
    """A gallery that is missing, half built, damaged, or made by another bundle."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A remedy that names the known word nearest to a wrong one, or lists them all."""
    words = sorted(known)
    close = difflib.get_close_matches(name, words, n=1, cutoff=0.5)
    if close:
        return f"Did you mean '{close[0]}'?"
    return f"Known: {', '.join(words)}." if words else "Nothing is known here."
