"""A toy output format: the positions as well-known text. One file is all it takes."""

from __future__ import annotations

from collections.abc import Sequence

from x2localizer.files import write_text
from x2localizer.sinks.base import Sink, sinks
from x2localizer.types import Fix


@sinks.register
class WellKnownText(Sink):
    """A LINESTRING."""

    name = "wkt"
    file = "track.wkt"

    def finish(self, fixes: Sequence[Fix]) -> None:
        """Write the file."""
        places = [fix.position for fix in fixes if fix.position is not None]
        write_text(self.path, "LINESTRING (" + ", ".join(f"{p.lon_deg} {p.lat_deg}" for p in places) + ")\n")
