"""Opening video containers, and what they say of themselves."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import av
from av.container import InputContainer
from av.stream import Disposition
from av.video.stream import VideoStream

from x2localizer.errors import VideoError

# Demuxers that make a picture of any text; they are chosen by the suffix of the file alone.
_TEXT_FORMATS = frozenset({"tty", "bin", "xbin", "adf", "idf"})


def open_container(
    address: str,
    name: str,
    *,
    format: str | None = None,
    options: dict[str, str] | None = None,
    timeout_s: float | None,
) -> InputContainer:
    """Open a file, device or address for reading; ``name`` is how errors call it."""
    began_s = time.monotonic()
    try:
        return av.open(address, "r", format=format, options=options or {}, metadata_errors="replace", timeout=timeout_s)
    except av.error.ExitError as problem:
        raise timed_out(name, timeout_s or 0.0) from problem
    except (av.error.InvalidDataError, av.error.EOFError) as problem:
        if timeout_s is not None and time.monotonic() - began_s >= timeout_s:
            raise timed_out(name, timeout_s) from problem  # RTSP calls an answer that never came invalid
        raise VideoError(
            f"{name} is not a video, or is damaged beyond reading.",
            "Check that it plays elsewhere; a recording that was cut off needs repair first.",
        ) from problem
    except av.error.FFmpegError as problem:
        raise VideoError(
            f"Cannot open {name}: {problem.strerror or 'unknown trouble'}.",
            "Check the address, that the device is connected and free, and that you may read it.",
        ) from problem
    except ValueError as problem:
        raise VideoError(f"Cannot open {name}: {problem}.", "Check the address.") from problem


def timed_out(name: str, timeout_s: float) -> VideoError:
    """The error for a camera or stream that went silent."""
    return VideoError(
        f"No picture came from {name} for {timeout_s:g} s.",
        "Check that the camera is on and the network reaches it, or allow a longer timeout.",
    )


def choose_stream(container: InputContainer, name: str) -> VideoStream:
    """The main video stream; cover pictures of music files do not count."""
    moving = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    if container.format.name in _TEXT_FORMATS:
        raise VideoError(f"{name} is a text file, not a video.", "Give a video, a folder of images or a stream.")
    if not moving:
        kinds = ", ".join(sorted({s.type for s in container.streams})) or "nothing"
        sound = "only sound" if container.streams.audio else f"no video (it holds: {kinds})"
        raise VideoError(f"{name} has {sound}.", "Give a file with a video track.")
    best = container.streams.best("video")
    stream = next((s for s in moving if best is not None and s.index == best.index), moving[0])
    # Typed as always there, but PyAV leaves it out when FFmpeg has no decoder for the codec.
    if not getattr(stream, "codec_context", None):
        raise VideoError(
            f"{name} is coded in a way that this build of FFmpeg cannot decode.",
            "Convert it to H.264 or H.265.",
        )
    return stream


def creation_time(container: InputContainer) -> datetime | None:
    """When the file says that it was made, in UTC; None when it does not, or says the clock's zero."""
    for key in ("creation_time", "com.apple.quicktime.creationdate"):
        try:
            said = datetime.fromisoformat(container.metadata[key])
        except (KeyError, ValueError):
            continue
        when = said.replace(tzinfo=UTC) if said.tzinfo is None else said.astimezone(UTC)
        if when.year > 1970:  # 1904 and 1970 are the zeros of MP4 and Unix: a clock that was never set
            return when
    return None


def duration_s(container: InputContainer, stream: VideoStream) -> float | None:
    """How long the container says the video lasts, in seconds."""
    if stream.duration is not None and stream.time_base is not None:
        return float(stream.duration * stream.time_base)
    return None if container.duration is None else container.duration / av.time_base
