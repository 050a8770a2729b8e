"""Messages between the two processes: a line of JSON, and bytes that it announces. Nothing is unpickled."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

_HEAD = struct.Struct("<IQ")
"""Lengths of the JSON and of the bytes."""
LONGEST_JSON = 1 << 20
MOST_BYTES = 1 << 32


def packed(values: dict[str, Any], size: int = 0) -> bytes:
    """The start of a message; so many bytes follow."""
    text = json.dumps(values).encode()
    return _HEAD.pack(len(text), size) + text


def received(read: Callable[[int], bytearray]) -> tuple[dict[str, Any], bytearray]:
    """A message, from a function that gives exactly as many bytes as it is asked for."""
    text, data = _HEAD.unpack(read(_HEAD.size))
    if text > LONGEST_JSON or data > MOST_BYTES:
        raise ValueError("a message is too long")
    values: dict[str, Any] = json.loads(read(text))
    return values, read(data)
