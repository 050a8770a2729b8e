"""What readers of recorded tracks return: points in the order of the file, and counts of what was dropped."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Literal

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST_S = (datetime(1980, 1, 6, tzinfo=UTC) - EPOCH).total_seconds()
"""The start of GPS time, in seconds since 1970. A clock that shows less was never set."""
LATEST_S = (datetime(2200, 1, 1, tzinfo=UTC) - EPOCH).total_seconds()
LONGEST_S = 1e9
"""Thirty years: no clock of a recording that counts from its own start shows more."""

Reason = Literal["without_time", "without_fix", "imprecise", "bad_position", "unreadable", "duplicate_time"]

_WORDS: dict[str, str] = {
    "without_time": "without a time",
    "without_fix": "without a GPS fix",
    "imprecise": "with a poor GPS fix",
    "bad_position": "with an impossible position",
    "unreadable": "that cannot be parsed",
    "duplicate_time": "at the time of another point",
}


@dataclass(frozen=True, slots=True)
class Dropped:
    """Numbers of points of a file that are not in its track, by reason."""

    without_time: int = 0
    """No time, or one before GPS existed (1980)."""
    without_fix: int = 0
    """The receiver reported no fix."""
    imprecise: int = 0
    """The receiver reported poor precision."""
    bad_position: int = 0
    """Latitude or longitude is out of range or not a number."""
    unreadable: int = 0
    """A row that is too short or contains no numbers."""
    duplicate_time: int = 0
    """The same time as an earlier point in the file, which was kept."""

    @property
    def total(self) -> int:
        """Number of all dropped points."""
        return sum(asdict(self).values())

    def __str__(self) -> str:
        counts = [f"{count} {_WORDS[reason]}" for reason, count in asdict(self).items() if count]
        return ", ".join(counts) or "none"


@dataclass(slots=True)
class Points:
    """Points as they are read; only those that can be part of a track are kept.

    ``since_epoch`` says that times are seconds since 1970 UTC. Otherwise they are seconds on the file's own clock, and
    ``start_time`` is the UTC time of its zero, if the file states it.
    """

    since_epoch: bool = False
    start_time: datetime | None = None
    times_s: list[float] = field(default_factory=list)
    lats_deg: list[float] = field(default_factory=list)
    lons_deg: list[float] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)

    def add(self, time_s: float | None, lat_deg: float, lon_deg: float) -> None:
        """Keep a point, or count the reason why not."""
        earliest, latest = (EARLIEST_S, LATEST_S) if self.since_epoch else (-LONGEST_S, LONGEST_S)
        if time_s is None or not (math.isfinite(time_s) and earliest <= time_s < latest):
            self.dropped["without_time"] += 1
        elif not (abs(lat_deg) <= 90.0 and abs(lon_deg) <= 180.0):  # also refuses NaN
            self.dropped["bad_position"] += 1
        else:
            self.times_s.append(time_s)
            self.lats_deg.append(lat_deg)
            self.lons_deg.append(lon_deg)

    def drop(self, reason: Reason, count: int = 1) -> None:
        """Count points that the reader dropped."""
        self.dropped[reason] += count
