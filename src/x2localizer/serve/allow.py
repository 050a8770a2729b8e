"""Which addresses a service may read by itself: only those that its owner has named."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import SplitResult, unquote, urlsplit

from x2localizer.errors import ConfigError
from x2localizer.serve.errors import ForbiddenError
from x2localizer.sources.video.open import redacted

_STREAMS = ("rtsp", "rtsps")
_NOT_ALLOWED = "Ask the owner of the service, who starts it with --allow-path, --allow-rtsp or --allow-camera."


@dataclass(frozen=True, slots=True)
class Allowed:
    """What may be read.

    paths: folders; files below them may be read, symbolic links followed.
    streams: addresses such as rtsp://camera.local/live; everything below them on the same host and port.
    cameras: numbers of local cameras.
    """

    paths: tuple[Path, ...] = ()
    streams: tuple[str, ...] = ()
    cameras: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for address in self.streams:
            parts = _split(address)
            if parts is None or parts.scheme not in _STREAMS or not parts.hostname:
                raise ConfigError(f"'{redacted(address)}' is not an RTSP address.", "Write rtsp://HOST/PATH.")

    def check(self, source: str) -> str:
        """The address to open, or an error. Files come back as their real path."""
        camera = re.fullmatch(r"camera:(\d{1,3})", source)
        if camera is not None:
            if int(camera[1]) not in self.cameras:
                raise ForbiddenError(f"The camera {camera[1]} is not allowed.", _NOT_ALLOWED)
            return source
        parts = _split(source)
        if parts is not None and parts.scheme in _STREAMS:
            if not any(_below(parts, allowed) for allowed in map(_split, self.streams) if allowed is not None):
                raise ForbiddenError("That stream is not allowed.", _NOT_ALLOWED)
            return source
        if "://" in source or "\0" in source or re.match(r"[a-zA-Z0-9+.-]{2,}:", source):
            raise ForbiddenError("That kind of address is not allowed.", "Use rtsp://, camera:0 or a file.")
        return str(self._file(source))

    def _file(self, source: str) -> Path:
        """The real path of a file below one of the folders; whether another file exists is nobody's business."""
        try:
            path = Path(source).resolve(strict=True)
            if path.is_file() and any(path.is_relative_to(folder.resolve()) for folder in self.paths):
                return path
        except (OSError, RuntimeError, ValueError):
            pass
        raise ForbiddenError("That file is not allowed, or is not there.", _NOT_ALLOWED)


def is_live(source: str) -> bool:
    """Whether an address is a camera or a stream; else it is a file, with an end."""
    return source.startswith(("camera:", "rtsp://", "rtsps://"))


def _split(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _below(parts: SplitResult, allowed: SplitResult) -> bool:
    """Whether an address has the scheme, host and port of another, and a path at or below its."""
    if (parts.scheme, parts.hostname, parts.port) != (allowed.scheme, allowed.hostname, allowed.port):
        return False
    path, top = PurePosixPath(unquote(parts.path) or "/"), PurePosixPath(unquote(allowed.path) or "/")
    return ".." not in path.parts and path.is_relative_to(top)
