"""A track as files: JSON lines as the fixes come, and at the end GPX, GeoJSON, KML and CSV.

Positions are in the files for maps only where the localizer was sure (status tracking). The CSV and the JSON lines hold
every fix with its guess, its confidence and its status.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO
from xml.sax.saxutils import escape

import numpy as np

from x2localizer.files import cannot_write, write_text
from x2localizer.sources.tracks import Track
from x2localizer.sources.tracks.track import write_gpx
from x2localizer.types import Fix

NO_DATE = datetime(2000, 1, 1, tzinfo=UTC)
"""GPX needs a date; a video that does not know its own starts here."""
EMPTY_GPX = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<gpx xmlns="http://www.topografix.com/GPX/1/1" version="1.1" '
    'creator="X2Localizer"></gpx>\n'
)
COLUMNS = ("index", "time_s", "status", "lat_deg", "lon_deg", "confidence", "similarity", "region", "refreshed")


def to_row(fix: Fix) -> dict[str, Any]:
    """A fix as flat values; the position is the guess, and its status says what it is worth."""
    return {
        "index": fix.index, "time_s": round(fix.time_s, 3), "status": fix.status,
        "lat_deg": None if fix.guess is None else round(fix.guess.lat_deg, 7),
        "lon_deg": None if fix.guess is None else round(fix.guess.lon_deg, 7),
        "confidence": round(fix.confidence, 4), "similarity": round(fix.similarity, 4),
        "region": None if fix.region is None else str(fix.region), "refreshed": fix.refreshed,
    }  # fmt: skip


@dataclass
class TrackFiles:
    """Writes a track into a folder; a context manager. What has come is on disk when the next fix is asked for."""

    folder: Path
    start_time: datetime | None = None
    name: str = "x2localizer"
    fixes: list[Fix] = field(default_factory=list)
    _lines: TextIO | None = None

    def __enter__(self) -> Self:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lines = (self.folder / "fixes.jsonl").open("w", encoding="utf-8", buffering=1)
        except OSError as problem:
            raise cannot_write(self.folder, problem) from problem
        return self

    def write(self, fix: Fix) -> None:
        """Take in a fix."""
        assert self._lines is not None
        row = to_row(fix)
        if fix.refreshed:
            row["candidates"] = [[str(c.region), round(c.similarity, 4)] for c in fix.candidates]
        try:
            self._lines.write(json.dumps(row) + "\n")
        except OSError as problem:
            raise cannot_write(self.folder / "fixes.jsonl", problem) from problem
        self.fixes.append(fix)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._lines is not None
        self._lines.close()
        if kind is None or issubclass(kind, KeyboardInterrupt):
            self._finish()

    def _finish(self) -> None:
        sure = [fix for fix in self.fixes if fix.position is not None]
        write_text(self.folder / "track.csv", to_csv(self.fixes))
        write_text(self.folder / "track.geojson", json.dumps(to_geojson(self.fixes), indent=1) + "\n")
        write_text(self.folder / "track.kml", to_kml(sure, self.name))
        if sure:
            write_gpx(self.folder / "track.gpx", to_track(sure), name=self.name, start_time=self.start_time or NO_DATE)
        else:  # a file without points is still a GPX file
            write_text(self.folder / "track.gpx", EMPTY_GPX)


def to_track(fixes: Sequence[Fix]) -> Track:
    """The sure positions as a track."""
    places = [(fix.time_s, fix.position) for fix in fixes if fix.position is not None]
    return Track(
        np.array([time for time, _ in places]), np.array([p.lat_deg for _, p in places]),
        np.array([p.lon_deg for _, p in places]), None,
    )  # fmt: skip


def to_csv(fixes: Sequence[Fix]) -> str:
    """Every fix, a line each."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(to_row(fix) for fix in fixes)
    return out.getvalue()


def to_geojson(fixes: Sequence[Fix]) -> dict[str, Any]:
    """The track as a line per unbroken stretch, and every fix that has a guess as a point."""
    features: list[dict[str, Any]] = []
    for stretch in stretches(fixes):
        line = [[round(p.lon_deg, 7), round(p.lat_deg, 7)] for fix in stretch if (p := fix.position) is not None]
        if len(line) > 1:
            features.append({
                "type": "Feature", "geometry": {"type": "LineString", "coordinates": line},
                "properties": {"from_s": stretch[0].time_s, "to_s": stretch[-1].time_s},
            })  # fmt: skip
    for fix in fixes:
        if fix.guess is not None:
            values = to_row(fix)
            point = [values.pop("lon_deg"), values.pop("lat_deg")]
            features.append({
                "type": "Feature", "geometry": {"type": "Point", "coordinates": point}, "properties": values,
            })  # fmt: skip
    return {"type": "FeatureCollection", "features": features}


def to_kml(fixes: Sequence[Fix], name: str) -> str:
    """The sure positions as lines for Google Earth and others."""
    lines = []
    for stretch in stretches(fixes):
        places = " ".join(f"{p.lon_deg:.7f},{p.lat_deg:.7f}" for fix in stretch if (p := fix.position) is not None)
        lines.append(f"<Placemark><LineString><coordinates>{places}</coordinates></LineString></Placemark>")
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<kml xmlns="http://www.opengis.net/kml/2.2"><Document>\n'
        f"<name>{escape(name)}</name>\n" + "\n".join(lines) + "\n</Document></kml>\n"
    )


def stretches(fixes: Sequence[Fix]) -> list[list[Fix]]:
    """Runs of consecutive sure fixes."""
    out: list[list[Fix]] = [[]]
    for before, fix in zip([None, *fixes], fixes, strict=False):
        if fix.position is None or (before is not None and fix.index != before.index + 1):
            out.append([])
        if fix.position is not None:
            out[-1].append(fix)
    return [stretch for stretch in out if stretch]
