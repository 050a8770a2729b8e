"""GPX: the positions as a track, for maps and loggers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from x2localizer.files import write_text
from x2localizer.sinks.base import Sink, sinks
from x2localizer.sources.tracks import Track
from x2localizer.sources.tracks.track import write_gpx
from x2localizer.types import Fix

NO_DATE = datetime(2000, 1, 1, tzinfo=UTC)
"""GPX needs a date; a video that does not know its own starts here."""
EMPTY = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<gpx xmlns="http://www.topografix.com/GPX/1/1" version="1.1" '
    'creator="X2Localizer"></gpx>\n'
)


@sinks.register
class Gpx(Sink):
    """The fixes that have a position."""

    name = "gpx"
    file = "track.gpx"

    def finish(self, fixes: Sequence[Fix]) -> None:
        """Write the file; one without points is still a GPX file."""
        sure = [(fix.time_s, fix.position) for fix in fixes if fix.position is not None]
        if not sure:
            write_text(self.path, EMPTY)
            return
        track = Track(
            np.array([time for time, _ in sure]), np.array([place.lat_deg for _, place in sure]),
            np.array([place.lon_deg for _, place in sure]), None,
        )  # fmt: skip
        write_gpx(self.path, track, name=self.context.name, start_time=self.context.start_time or NO_DATE)
