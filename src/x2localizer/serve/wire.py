"""Messages of the WebSocket.

A frame is one binary message: four bytes with the length of a header (big-endian), the header as JSON, such as
``{"time_s": 12.5}``, then the JPEG. Odometry is a text message: ``{"samples": [{"time_s": ..., "speed_m_s": ...}]}``.
The service sends text messages: ``{"type": "answer", ...}``, ``{"type": "fix", ...}``, ``{"type": "error", ...}``.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from pydantic import Field, ValidationError

from x2localizer.config import Settings
from x2localizer.serve.answers import LATEST_S
from x2localizer.serve.errors import BadInputError
from x2localizer.serve.schemas import OdometryIn

MOST_HEADER = 4096
_LAYOUT = "Send four bytes with the length of a JSON header, the header, and the JPEG."


class FrameHeader(Settings):
    """What stands before the JPEG of a frame."""

    time_s: float = Field(ge=-LATEST_S, le=LATEST_S)


def pack_frame(jpeg: bytes, time_s: float) -> bytes:
    """A frame as a message."""
    header = json.dumps({"time_s": time_s}).encode()
    return struct.pack(">I", len(header)) + header + jpeg


def unpack_frame(message: bytes) -> tuple[FrameHeader, bytes]:
    """The header and the JPEG of a message."""
    if len(message) < 4:
        raise BadInputError("The message is too short for a frame.", _LAYOUT)
    (length,) = struct.unpack(">I", message[:4])
    if length > min(MOST_HEADER, len(message) - 4):
        raise BadInputError(f"The message says that its header has {length:,} bytes.", _LAYOUT)
    try:
        header = FrameHeader.model_validate_json(message[4 : 4 + length])
    except ValidationError as problem:
        raise BadInputError(f"The header is not valid: {_first(problem)}.", _LAYOUT) from problem
    return header, message[4 + length :]


def unpack_odometry(text: str) -> OdometryIn:
    """The samples of a message."""
    try:
        return OdometryIn.model_validate_json(text)
    except ValidationError as problem:
        raise BadInputError(
            f"The message is not valid: {_first(problem)}.", 'Send {"samples": [{"time_s": ..., "speed_m_s": ...}]}.'
        ) from problem


def to_text(kind: str, values: dict[str, Any]) -> str:
    """A message to a client."""
    return json.dumps({"type": kind, **values})


def _first(problem: ValidationError) -> str:
    first = problem.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])[:100]}: {first['msg'][:150]}"
