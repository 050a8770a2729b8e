"""A fix as JSON, for programs that read neither NMEA nor ROS."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from x2localizer.sinks.base import to_row
from x2localizer.types import Fix, Position


def fix_values(fix: Fix, utc: datetime) -> dict[str, Any]:
    """The values of a fix, ready for JSON.

    ``position`` is null unless the localizer is sure of it; ``guess`` is the best guess, however unsure.
    """
    row = to_row(fix)
    for name in ("lat_deg", "lon_deg", "region", "refreshed", "similarity"):
        del row[name]
    return {
        "utc": utc.isoformat(timespec="milliseconds").replace("+00:00", "Z"), **row,
        "position": _place(fix.position), "guess": _place(fix.guess),
    }  # fmt: skip


def _place(position: Position | None) -> dict[str, float] | None:
    if position is None:
        return None
    return {"lat_deg": round(position.lat_deg, 7), "lon_deg": round(position.lon_deg, 7)}
