"""Opening video containers, and reading their metadata."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime

import av
from av.container import InputContainer
from av.stream import Disposition
from av.video.stream import VideoStream

from x2localizer.errors import VideoError

# Demuxers that render text as pictures; FFmpeg chooses them by the suffix alone.
_TEXT_FORMATS = frozenset({"tty", "bin", "xbin", "adf", "idf"})


def open_container(
    address: str,
    name: str,
    *,
    format: str | None = None,
    options: dict[str, str] | None = None,
    timeout_s: float | None,
) -> InputContainer:
    """Open a file, device or address for reading; ``name`` is used in errors."""
    began_s = time.monotonic()
    try:
        return av.open(address, "r", format=format, options=options or {}, metadata_errors="replace", timeout=timeout_s)
    except av.error.ExitError as problem:
        raise timed_out(name, timeout_s or 0.0) from problem
    except (av.error.InvalidDataError, av.error.EOFError) as problem:
        if timeout_s is not None and time.monotonic() - began_s >= timeout_s:
            raise timed_out(name, timeout_s) from problem  # RTSP reports a missing answer as invalid data
        raise VideoError(
            f"{name} is not a video, or is too damaged to be read.",
            "Check that it plays elsewhere; repair recordings that were cut off.",
        ) from problem
    except av.error.FFmpegError as problem:
        raise VideoError(
            f"Cannot open {name}: {problem.strerror or 'unknown error'}.",
            "Check the address and the permissions, and that the device is connected and not in use.",
        ) from problem
    except ValueError as problem:
        raise VideoError(f"Cannot open {name}: {problem}.", "Check the address.") from problem


def timed_out(name: str, timeout_s: float) -> VideoError:
    """The error for a camera or stream that sends nothing."""
    return VideoError(
        f"No picture from {name} for {timeout_s:g} s.",
        "Check that the camera is on and the network works, or set a longer timeout.",
    )


def choose_stream(container: InputContainer, name: str) -> VideoStream:
    """The main video stream; cover pictures of music files are ignored."""
    moving = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    if container.format.name in _TEXT_FORMATS:
        raise VideoError(f"{name} is a text file, not a video.", "Use a video, a folder of images or a stream.")
    if not moving:
        kinds = ", ".join(sorted({s.type for s in container.streams})) or "nothing"
        sound = "only sound" if container.streams.audio else f"no video (only {kinds})"
        raise VideoError(f"{name} has {sound}.", "Use a file with a video track.")
    best = container.streams.best("video")
    stream = next((s for s in moving if best is not None and s.index == best.index), moving[0])
    # PyAV types it as always present, but leaves it out if FFmpeg has no decoder for the codec.
    if not getattr(stream, "codec_context", None):
        raise VideoError(
            f"This build of FFmpeg cannot decode {name}.",
            "Convert it to H.264 or H.265.",
        )
    return stream


def creation_time(container: InputContainer) -> datetime | None:
    """The creation time in the metadata, in UTC; None if there is none, or the clock was never set."""
    for key in ("creation_time", "com.apple.quicktime.creationdate"):
        try:
            said = datetime.fromisoformat(container.metadata[key])
        except (KeyError, ValueError):
            continue
        when = said.replace(tzinfo=UTC) if said.tzinfo is None else said.astimezone(UTC)
        if when.year > 1970:  # 1904 and 1970, the zeros of MP4 and Unix, mean that the clock was never set
            return when
    return None


def focal_35mm(container: InputContainer) -> float | None:
    """The focal length in the metadata as for 35 mm film, in millimetres, which telephones write; None without it."""
    for key, value in container.metadata.items():
        if key.lower().endswith("focal_length.35mm_equivalent"):
            return positive(value)
    return None


def positive(value: object) -> float | None:
    """A number above 0, or None for anything else."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0.0 < number < math.inf else None


def duration_s(container: InputContainer, stream: VideoStream) -> float | None:
    """The duration that the container states, in seconds."""
    if stream.duration is not None and stream.time_base is not None:
        return float(stream.duration * stream.time_base)
    return None if container.duration is None else container.duration / av.time_base
