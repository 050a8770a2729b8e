"""Which ways of a map are roads for cars, and how they are driven: OpenStreetMap's tags and their usual copies."""

from __future__ import annotations

import re
from collections.abc import Mapping

from x2localizer.sources.roads.roads import RoadKind

_RAMPS = ("motorway", "trunk", "primary", "secondary", "tertiary")
KINDS: dict[str, RoadKind] = {
    **dict.fromkeys([*_RAMPS, *(f"{name}_link" for name in _RAMPS)], RoadKind.MAIN),
    **dict.fromkeys(["unclassified", "residential", "living_street", "road"], RoadKind.STREET),
    **dict.fromkeys(["service", "track"], RoadKind.SERVICE),
    # Geofabrik's files say how good a track is.
    **dict.fromkeys([f"track_grade{grade}" for grade in range(1, 6)], RoadKind.SERVICE),
}
"""Values of ``highway`` that cars drive on. Footways, cycleways, steps, paths and what is being built are left out."""

HIGHWAY_COLUMNS = ("highway", "fclass")
"""Columns with the kind of road: OpenStreetMap's own, and that of Geofabrik's Shapefiles and GeoPackages."""
COLUMNS = (*HIGHWAY_COLUMNS, "oneway", "junction", "area", "route", "other_tags")
"""Columns that say something about a road; upper and lower case are the same."""

_PAIR = re.compile(r'"((?:[^"\\]|\\.)*)"=>"((?:[^"\\]|\\.)*)"')
_WITH_THE_LINE = ("yes", "true", "1", "f")  # f and t: "from" and "to" in Geofabrik's files
_AGAINST_THE_LINE = ("-1", "reverse", "t")


def other_tags(text: str) -> dict[str, str]:
    """The tags in GDAL's column of all others, such as ``"oneway"=>"yes","lanes"=>"2"``."""
    return dict(_PAIR.findall(text))


def kind_of(tags: Mapping[str, str]) -> RoadKind | None:
    """The kind of a road; None if cars do not drive there."""
    kind = KINDS.get(tags.get("highway") or tags.get("fclass") or "")
    return None if tags.get("area") == "yes" or tags.get("route") == "ferry" else kind


def direction_of(tags: Mapping[str, str]) -> int:
    """1 for a one-way road along its points, -1 for one against them, 0 for both ways."""
    oneway = tags.get("oneway", "")
    if oneway in _WITH_THE_LINE:
        return 1
    if oneway in _AGAINST_THE_LINE:
        return -1
    implied = tags.get("highway") == "motorway" or tags.get("junction") in ("roundabout", "circular")
    return int(implied and not oneway)
