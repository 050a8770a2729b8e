"""GeoJSON: a line for every stretch of positions, and every guess as a point."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from x2localizer.files import write_text
from x2localizer.localize.stretches import stretches
from x2localizer.sinks.base import Sink, sinks, to_row
from x2localizer.types import Fix


@sinks.register
class GeoJson(Sink):
    """A FeatureCollection."""

    name = "geojson"
    file = "track.geojson"

    def finish(self, fixes: Sequence[Fix]) -> None:
        """Write the file."""
        features = [*_lines(fixes), *_points(fixes)]
        text = json.dumps({"type": "FeatureCollection", "features": features}, indent=1)
        write_text(self.path, text + "\n")


def _feature(kind: str, coordinates: list[Any], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Feature", "geometry": {"type": kind, "coordinates": coordinates}, "properties": properties}


def _lines(fixes: Sequence[Fix]) -> list[dict[str, Any]]:
    features = []
    for stretch in stretches(fixes):
        line = [[round(p.lon_deg, 7), round(p.lat_deg, 7)] for fix in stretch if (p := fix.position) is not None]
        if len(line) > 1:
            features.append(_feature("LineString", line, {"from_s": stretch[0].time_s, "to_s": stretch[-1].time_s}))
    return features


def _points(fixes: Sequence[Fix]) -> list[dict[str, Any]]:
    features = []
    for fix in fixes:
        if fix.guess is not None:
            values = to_row(fix)
            point = [values.pop("lon_deg"), values.pop("lat_deg")]
            features.append(_feature("Point", point, values))
    return features
