"""What a reader of recorded tracks hands over: points in the order of the file, and what was left out."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Literal

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST_S = (datetime(1980, 1, 6, tzinfo=UTC) - EPOCH).total_seconds()
"""The first second of GPS. A clock that shows less, in seconds since 1970, was never set."""
LATEST_S = (datetime(2200, 1, 1, tzinfo=UTC) - EPOCH).total_seconds()

Reason = Literal["without_time", "without_fix", "imprecise", "bad_position", "unreadable", "duplicate_time"]

_WORDS: dict[str, str] = {
    "without_time": "without a time",
    "without_fix": "without a GPS fix",
    "imprecise": "with a poor GPS fix",
    "bad_position": "off the globe",
    "unreadable": "that cannot be read",
    "duplicate_time": "at a time already taken",
}


@dataclass(frozen=True, slots=True)
class Dropped:
    """How many points of a file are not in its track, and why."""

    without_time: int = 0
    """No time, or one that no GPS can have shown (before 1980)."""
    without_fix: int = 0
    """The receiver said that it did not know where it was."""
    imprecise: int = 0
    """The receiver said that it hardly knew where it was."""
    bad_position: int = 0
    """Latitude or longitude out of range or not a number."""
    unreadable: int = 0
    """A row that is too short or holds no numbers."""
    duplicate_time: int = 0
    """The same time as a point before it in the file, which was kept."""

    @property
    def total(self) -> int:
        """All dropped points."""
        return sum(asdict(self).values())

    def __str__(self) -> str:
        counts = [f"{count} {_WORDS[reason]}" for reason, count in asdict(self).items() if count]
        return ", ".join(counts) or "none"


@dataclass(slots=True)
class Points:
    """Points as they are read; only those that may be part of a track are kept.

    ``since_epoch`` says that times are seconds since 1970 UTC. Otherwise they are seconds on a clock of the
    file's own, and ``start_time`` is the UTC of its zero, when the file tells.
    """

    since_epoch: bool = False
    start_time: datetime | None = None
    times_s: list[float] = field(default_factory=list)
    lats_deg: list[float] = field(default_factory=list)
    lons_deg: list[float] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)

    def add(self, time_s: float | None, lat_deg: float, lon_deg: float) -> None:
        """Keep a point, or count why not."""
        earliest, latest = (EARLIEST_S, LATEST_S) if self.since_epoch else (-math.inf, math.inf)
        if time_s is None or not (math.isfinite(time_s) and earliest <= time_s < latest):
            self.dropped["without_time"] += 1
        elif not (abs(lat_deg) <= 90.0 and abs(lon_deg) <= 180.0):  # also refuses not-a-number
            self.dropped["bad_position"] += 1
        else:
            self.times_s.append(time_s)
            self.lats_deg.append(lat_deg)
            self.lons_deg.append(lon_deg)

    def drop(self, reason: Reason, count: int = 1) -> None:
        """Count points that the reader left out."""
        self.dropped[reason] += count
