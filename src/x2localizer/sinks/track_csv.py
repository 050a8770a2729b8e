"""CSV: every fix, a line each."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from x2localizer.files import write_text
from x2localizer.sinks.base import Sink, sinks, to_row
from x2localizer.types import Fix

COLUMNS = (
    "index", "time_s", "status", "lat_deg", "lon_deg", "confidence", "similarity", "heading_deg", "speed_m_s",
    "ellipse_major_m", "ellipse_minor_m", "ellipse_angle_deg", "on_map", "region", "refreshed",
)  # fmt: skip


@sinks.register
class TrackCsv(Sink):
    """All fixes with their guess, status and confidence."""

    name = "csv"
    file = "track.csv"

    def finish(self, fixes: Sequence[Fix]) -> None:
        """Write the file."""
        out = io.StringIO()
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(to_row(fix) for fix in fixes)
        write_text(self.path, out.getvalue())
