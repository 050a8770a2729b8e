"""Recorded motion that is read in a second process: Arrow, FFmpeg and the decompression of bags can crash."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from x2localizer.errors import MotionError
from x2localizer.sources.guard import GuardProcess
from x2localizer.sources.motion.record import MotionRecord
from x2localizer.types import Floats

READ_S = 300.0
BYTES_PER_S = 5_000_000.0
"""Seconds until the record has to be there, and bytes of the file for each second more."""
_ARRAYS = ("times_s", "distances_m", "headings_deg", "distance_vars", "heading_vars")
_NUMBERS = ("scale_sd", "bias_sd_deg_s", "has_distance", "has_turn")


def guarded_record(address: str, file: Path, rate_hz: float | None) -> MotionRecord:
    """The motion at an address; ``file`` is what it reads."""
    size = file.stat().st_size if file.is_file() else sum(part.stat().st_size for part in file.glob("*"))
    limit_s = READ_S + size / BYTES_PER_S
    guard = GuardProcess("motion", address, MotionError)
    try:
        answer = guard.ask(limit_s, path=address, rate_hz=rate_hz, limit_s=limit_s)
    finally:
        guard.close()
    try:
        arrays = np.frombuffer(answer.data, np.float64).reshape(len(_ARRAYS), -1)
        start = answer.values["start_time"]
        values = {name: answer.values[name] for name in _NUMBERS} | dict(zip(_ARRAYS, arrays, strict=True))
        return MotionRecord(start_time=None if start is None else datetime.fromisoformat(start), **values)
    except (ValueError, TypeError) as problem:
        raise MotionError("The process that reads motion gave none.", "Run the same command again.") from problem


def as_answer(record: MotionRecord) -> tuple[dict[str, Any], list[Floats]]:
    """A record as plain values and arrays."""
    values: dict[str, Any] = {name: getattr(record, name) for name in _NUMBERS}
    values["start_time"] = None if record.start_time is None else record.start_time.isoformat()
    return values, [getattr(record, name) for name in _ARRAYS]
