"""Fixes as rows of the store and of the API, and back."""

from __future__ import annotations

import json
from typing import Any

from x2localizer.sinks.base import to_row
from x2localizer.types import ErrorEllipse, Fix, Position


def to_json(fix: Fix) -> str:
    """A fix as one line of JSON; without the evidence and the view."""
    return json.dumps(to_row(fix))


def from_json(text: str) -> Fix:
    """A fix from its line."""
    row: dict[str, Any] = json.loads(text)
    lat, lon, major = row["lat_deg"], row["lon_deg"], row["ellipse_major_m"]
    return Fix(
        row["index"], row["time_s"], row["status"], None if lat is None or lon is None else Position(lat, lon),
        row["confidence"], row["similarity"], refreshed=row["refreshed"], heading_deg=row["heading_deg"],
        speed_m_s=row["speed_m_s"], on_map=row["on_map"],
        ellipse=None if major is None else ErrorEllipse(major, row["ellipse_minor_m"], row["ellipse_angle_deg"]),
    )  # fmt: skip
