"""The track of a session as a file, written by the same sinks as those of ``x2l localize``."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from x2localizer.sinks import TrackContext, sinks
from x2localizer.sources.tracks.points import EARLIEST_S, EPOCH, LATEST_S
from x2localizer.types import Fix

TrackFormat = Literal["gpx", "geojson", "kml", "csv"]
MEDIA_TYPES: dict[TrackFormat, str] = {
    "gpx": "application/gpx+xml", "geojson": "application/geo+json", "kml": "application/vnd.google-earth.kml+xml",
    "csv": "text/csv",
}  # fmt: skip


def track_file(fixes: Sequence[Fix], format: TrackFormat, name: str, created: float) -> bytes:
    """Fixes in a format. Times since 1970 are kept; others are counted from the creation of the session."""
    since_1970 = bool(fixes) and EARLIEST_S <= fixes[0].time_s < LATEST_S
    start = EPOCH if since_1970 else datetime.fromtimestamp(created, UTC)
    with tempfile.TemporaryDirectory(prefix="x2l-") as folder:
        sink = sinks.get(format)(TrackContext(Path(folder), name, start_time=start))
        sink.finish(fixes)
        return sink.path.read_bytes()
