"""KML: the positions as lines, for Google Earth and others."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from x2localizer.files import write_text
from x2localizer.localize.stretches import stretches
from x2localizer.sinks.base import Sink, sinks
from x2localizer.types import Fix


@sinks.register
class Kml(Sink):
    """One line for every stretch of positions."""

    name = "kml"
    file = "track.kml"

    def finish(self, fixes: Sequence[Fix]) -> None:
        """Write the file."""
        lines = []
        for stretch in stretches(fixes):
            places = " ".join(f"{p.lon_deg:.7f},{p.lat_deg:.7f}" for fix in stretch if (p := fix.position) is not None)
            lines.append(f"<Placemark><LineString><coordinates>{places}</coordinates></LineString></Placemark>")
        # XML has no way to write control characters, not even escaped.
        name = escape("".join(c for c in self.context.name if c.isprintable()))
        text = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<kml xmlns="http://www.opengis.net/kml/2.2"><Document>\n'
            f"<name>{name}</name>\n" + "\n".join(lines) + "\n</Document></kml>\n"
        )
        write_text(self.path, text)
