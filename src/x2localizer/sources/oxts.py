"""What a car's GPS and inertial unit wrote, as KITTI's raw recordings have it: 30 numbers a row.

A recording is a folder ``oxts`` with ``timestamps.txt`` and ``data/0000000000.txt`` and so on, one row each; or one
text file with all rows. Motion and the track of positions are both read from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from x2localizer.errors import UserError
from x2localizer.types import Floats

COLUMNS = 30
LATITUDE, LONGITUDE = 0, 1  # degrees
SPEED = 8  # forward, metres per second
YAW_RATE = 22  # about the axis that points up, counter-clockwise, radians per second
RATE_HZ = 10.0
CLOCK = "timestamps.txt"


@dataclass(frozen=True, slots=True, eq=False)
class OxtsRows:
    """Rows of a recording.

    times_s: seconds since 1970 if there are timestamps, else from the first row, (n,).
    values: (n, 30).
    timed: whether there are timestamps.
    """

    times_s: Floats
    values: Floats
    timed: bool


def is_oxts(path: Path) -> bool:
    """Whether a path is such a recording: a folder of it, or a text whose first row has 30 numbers."""
    return _data_folder(path) is not None if path.is_dir() else _starts_with_row(path)


def read_oxts(path: Path, error: type[UserError], rate_hz: float | None = None) -> OxtsRows:
    """All rows of a recording; with ``rate_hz`` timestamps are not looked for."""
    folder = _data_folder(path) if path.is_dir() else None
    files = sorted(folder.glob("*.txt")) if folder is not None else [path]
    rows: list[list[float]] = []
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if line.strip():
                row = _row(line)
                if row is None:
                    raise error(f"Line {number} of {file} is not {COLUMNS} numbers.", "Copy the recording again.")
                rows.append(row)
    if len(rows) < 2:
        raise error(f"{path} has {len(rows)} rows, too few for a drive.", "Give a recording with two or more.")
    near = [path.parent] if folder is None else [folder.parent, folder]
    clock = next((place / CLOCK for place in near if (place / CLOCK).is_file()), None)
    if clock is None or rate_hz is not None:
        return OxtsRows(np.arange(len(rows)) / (rate_hz or RATE_HZ), np.array(rows), timed=False)
    times = _times(clock, error)
    if len(times) != len(rows):
        raise error(f"{path} has {len(rows)} rows, but {clock} has {len(times)} times.", "Copy the recording again.")
    return OxtsRows(times, np.array(rows), timed=True)


def _data_folder(path: Path) -> Path | None:
    """The folder of the rows, from it, from ``oxts``, or from the folder of the whole drive."""
    for place in (path / "oxts" / "data", path / "data", path):
        first = min(place.glob("*.txt"), default=None) if place.is_dir() else None
        if first is not None and _starts_with_row(first):
            return place
    return None


def _starts_with_row(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(1 << 12).decode("utf-8", "replace")
    return _row(head.lstrip().partition("\n")[0]) is not None


def _row(line: str) -> list[float] | None:
    words = line.split()
    if len(words) != COLUMNS:
        return None
    try:
        row = [float(word) for word in words]
    except ValueError:
        return None
    return row if np.isfinite(row).all() else None


def _times(clock: Path, error: type[UserError]) -> Floats:
    """Seconds since 1970 of lines such as ``2011-09-30 12:05:25.964389120``; without a time zone they are UTC."""
    times: list[float] = []
    for number, line in enumerate(clock.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        whole, _, fraction = line.strip().partition(".")
        try:
            times.append(datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp() + float(f"0.{fraction or 0}"))
        except ValueError as problem:
            raise error(f"Line {number} of {clock} is not a time: {line.strip()[:40]}.", "Copy it again.") from problem
    return np.array(times)
