"""What a sink is, and the registry of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from x2localizer.gallery.store import Gallery
from x2localizer.localize.summary import Summary
from x2localizer.registry import Registry
from x2localizer.sources.tracks import Track
from x2localizer.types import Fix, View


@dataclass
class TrackContext:
    """What a sink may want to know about the track it writes.

    folder: where files go.
    name, title: of the track; the title is for people.
    start_time: of the video, if it is known.
    gallery, truth: for maps and errors, if there are any.
    fixes, views: all so far; views are some frames spread over the track.
    summary: at the end.
    odometry: where the camera's movements came from, if they were known.
    smoothed: whether the fixes at the end know the whole drive, unlike those that were written as they came.
    """

    folder: Path
    name: str = "x2localizer"
    title: str = "Where was the camera?"
    start_time: datetime | None = None
    gallery: Gallery | None = None
    truth: Track | None = None
    fixes: list[Fix] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    summary: Summary | None = None
    odometry: str | None = None
    smoothed: bool = False


class Sink:
    """Writes fixes in one format.

    name: how options call it.
    file: what it writes, below the folder of the track.

    ``open`` is called once before the first fix, ``write`` with every fix as it comes, ``finish`` at the end with all
    of them, and ``close`` also after a failure. A format that is written at the end needs ``finish`` alone.
    """

    name: ClassVar[str]
    file: ClassVar[str]

    def __init__(self, context: TrackContext) -> None:
        self.context = context

    @property
    def path(self) -> Path:
        """The file it writes."""
        return self.context.folder / self.file

    def open(self) -> None:
        """Get ready."""

    def write(self, fix: Fix) -> None:
        """Take in one fix."""

    def finish(self, fixes: Sequence[Fix]) -> None:
        """Write what needs all fixes."""

    def close(self) -> None:
        """Let go of files."""


sinks: Registry[Sink] = Registry("output format", "x2localizer.sinks")


def to_row(fix: Fix) -> dict[str, Any]:
    """A fix as flat values; latitude and longitude are those of the guess, and the status says what it is worth."""
    return {
        "index": fix.index, "time_s": round(fix.time_s, 3), "status": fix.status,
        "lat_deg": None if fix.guess is None else round(fix.guess.lat_deg, 7),
        "lon_deg": None if fix.guess is None else round(fix.guess.lon_deg, 7),
        "confidence": round(fix.confidence, 4), "similarity": round(fix.similarity, 4),
        "heading_deg": _rounded(fix.heading_deg, 1), "speed_m_s": _rounded(fix.speed_m_s, 2),
        "ellipse_major_m": None if fix.ellipse is None else round(fix.ellipse.major_m, 1),
        "ellipse_minor_m": None if fix.ellipse is None else round(fix.ellipse.minor_m, 1),
        "ellipse_angle_deg": None if fix.ellipse is None else round(fix.ellipse.angle_deg, 1),
        "on_map": _rounded(fix.on_map, 4), "region": None if fix.region is None else str(fix.region),
        "refreshed": fix.refreshed,
    }  # fmt: skip


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
