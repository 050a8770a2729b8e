"""Recorded tracks in text files: GPX, and tables of comma, semicolon or tab separated values.

Times without a time zone are taken as UTC, as GPX requires. In a table, times may be ISO 8601, seconds since 1970 (or
milli-, micro- or nanoseconds, whichever puts the typical time between 1980 and 2200), or otherwise plain seconds on the
file's own clock.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from xml.parsers import expat

import gpxpy
import gpxpy.gpx

from x2localizer.errors import TrackError
from x2localizer.sources.oxts import LATITUDE, LONGITUDE, read_oxts
from x2localizer.sources.tracks.points import EARLIEST_S, LATEST_S, Points

COLUMNS = {
    "lat": ("lat", "latitude", "lat_deg", "latitude_deg", "gps_lat", "gps_latitude"),
    "lon": ("lon", "lng", "long", "longitude", "lon_deg", "longitude_deg", "gps_lon", "gps_longitude"),
    "time": (
        *(
            "time_s",
            "seconds",
            "time",
            "timestamp",
            "timestamp_s",
            "utc",
            "datetime",
            "date_time",
            "utc_time",
        ),
        *("time_utc", "gps_time", "epoch", "unix_time", "time_ms", "timestamp_ms", "milliseconds"),
    ),
}
"""Known names of columns, the preferred first; case, spaces and units in brackets are ignored."""

MAX_BYTES = 100_000_000
"""About a million points. Parsed text takes up to 20 times its size in memory, so larger files are refused."""
_DEEPEST = 100
"""Levels of elements. GPX itself has six, extensions add a few."""
_CHUNK = 1 << 20
_MILLISECONDS = ("time_ms", "timestamp_ms", "milliseconds")


def read_gpx(path: Path) -> Points:
    """All track points of a GPX file; several tracks and segments count as one recording."""
    gpx = _parse_gpx(path, _text(path))
    points = Points(since_epoch=True)
    count = 0
    for point in (p for track in gpx.tracks for segment in track.segments for p in segment.points):
        count += 1
        if point.type_of_gpx_fix == "none":
            points.drop("without_fix")
        else:
            points.add(_since_epoch(point.time), point.latitude, point.longitude)
    if not count:
        planned = " only routes or waypoints," if gpx.routes or gpx.waypoints else ""
        raise TrackError(
            f"{path} contains{planned} no recorded track.",
            "Export the recording itself, as a GPX track with times.",
        )
    return points


def read_oxts_track(path: Path) -> Points:
    """All positions of a raw recording of KITTI."""
    rows = read_oxts(path, TrackError)
    points = Points(since_epoch=rows.timed)
    for time_s, row in zip(rows.times_s.tolist(), rows.values.tolist(), strict=True):
        points.add(time_s, row[LATITUDE], row[LONGITUDE])
    return points


def _parse_gpx(path: Path, text: str) -> gpxpy.gpx.GPX:
    # Entities can expand a small file without bound or include other files. GPX does not need them.
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise TrackError(f"{path} declares a document type, which GPX does not have.", "Export the track again.")
    if _too_deep(text):
        raise TrackError(f"{path} nests its elements more than {_DEEPEST} deep.", "Export the track again.")
    try:
        return gpxpy.parse(text)
    except (gpxpy.gpx.GPXException, ValueError, RecursionError) as problem:
        raise TrackError(
            f"Cannot read {path} as GPX: {problem}.",
            "Export the track again, or remove the incomplete end of the file and close its tags.",
        ) from problem


def _too_deep(text: str) -> bool:
    """Whether elements are nested so deep that gpxpy, which copies them recursively, would crash."""
    depth = deepest = 0

    def start(name: str, attributes: object) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    with suppress(expat.ExpatError):  # gpxpy reports what is wrong
        for at in range(0, len(text), _CHUNK):
            parser.Parse(text[at : at + _CHUNK], at + _CHUNK >= len(text))
            if deepest > _DEEPEST:
                break
    return deepest > _DEEPEST


def _since_epoch(time: datetime | None) -> float | None:
    """A time as seconds since 1970; UTC if it has no time zone."""
    if time is None:
        return None
    try:
        return (time.replace(tzinfo=UTC) if time.tzinfo is None else time).timestamp()
    except ValueError:  # a time zone of more than a day
        return None


@dataclass(frozen=True, slots=True)
class _Header:
    """The separator of a table, the names of its columns, and the places of the three that are needed."""

    separator: str
    names: list[str]
    columns: dict[str, int]


def read_csv(path: Path) -> Points:
    """The rows of a table with columns for latitude, longitude and time."""
    text = _text(path)
    if "\0" in text:
        raise TrackError(f"{path} is not a text file.", "Use a table with the columns lat, lon and time.")
    header = _header(path, text)
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=header.separator, skipinitialspace=True))
    except csv.Error as problem:
        raise TrackError(f"Cannot read {path} as a table: {problem}.", "Export it again as CSV.") from None
    filled = [row for row in rows if any(cell.strip() for cell in row)]
    return _from_rows(filled[1:], header)


def _header(path: Path, text: str) -> _Header:
    """The first line with content, split by the separator that gives the most known columns."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    candidates = []
    for separator in ",;\t":
        names = [name.strip().strip('"') for name in line.split(separator)]
        candidates.append(_Header(separator, names, _known_columns(names)))
    best = max(candidates, key=lambda header: (len(header.columns), len(header.names)))
    missing = [name for name in COLUMNS if name not in best.columns]
    if missing:
        found = ", ".join(f"'{name[:40]}'" for name in best.names[:30])
        raise TrackError(
            f"{path} has no column for {' and '.join(missing)}; its first line names {found}.",
            "Name the columns, for example: "
            + "; ".join(f"{name} as {', '.join(COLUMNS[name][:4])}" for name in missing)
            + ".",
        )
    return best


def _known_columns(names: list[str]) -> dict[str, int]:
    plain = [_plain(name) for name in names]
    best = {column: next((n for n in known if n in plain), None) for column, known in COLUMNS.items()}
    return {column: plain.index(name) for column, name in best.items() if name is not None}


def _plain(name: str) -> str:
    """A column name without case, units and punctuation: ``Latitude [deg]`` is ``latitude``."""
    bare = name.partition("(")[0].partition("[")[0]
    return "_".join(bare.lower().replace("-", " ").replace("_", " ").split())


def _from_rows(rows: list[list[str]], header: _Header) -> Points:
    points = Points()
    comma = header.separator != ","  # so a comma can only be a decimal comma
    read: list[tuple[str, float, float]] = []
    for row in rows:
        cells = [row[header.columns[name]].strip() if header.columns[name] < len(row) else "" for name in COLUMNS]
        lat, lon = _number(cells[0], comma), _number(cells[1], comma)
        if lat is None or lon is None:
            points.drop("unreadable")
        else:
            read.append((cells[2], lat, lon))
    times = list(_times([time for time, _, _ in read], comma))
    unit_s, points.since_epoch = _clock(times, _plain(header.names[header.columns["time"]]))
    for (written, lat, lon), time in zip(read, times, strict=True):
        if written and time is None:
            points.drop("unreadable")
        else:
            points.add(None if time is None else time * unit_s, lat, lon)
    return points


def _times(written: list[str], comma: bool) -> Iterator[float | None]:
    """Numbers, or dates as seconds since 1970, depending on the first time; None for anything else."""
    first = next((text for text in written if text), "")
    numbers = _number(first, comma) is not None
    for text in written:
        yield _number(text, comma) if numbers else _date(text)


def _clock(times: list[float | None], column: str) -> tuple[float, bool]:
    """Seconds per unit of a column of times, and whether they count from 1970, judged by the median."""
    known = [abs(time) for time in times if time is not None]
    typical = median(known) if known else 0.0
    for unit_s in (1.0, 1e-3, 1e-6, 1e-9):
        if EARLIEST_S <= typical * unit_s < LATEST_S:
            return unit_s, True
    return (1e-3 if column in _MILLISECONDS else 1.0), False


def _number(text: str, comma: bool) -> float | None:
    try:
        return float(text.replace(",", ".") if comma else text)
    except ValueError:
        return None


def _date(text: str) -> float | None:
    try:
        return _since_epoch(datetime.fromisoformat(text.replace("/", "-").removesuffix("UTC").rstrip()))
    except ValueError:
        return None


def _text(path: Path) -> str:
    """The text of a file in any common encoding; a wrong guess affects names only, never numbers."""
    if path.stat().st_size > MAX_BYTES:
        raise TrackError(
            f"{path} is larger than {MAX_BYTES / 1e6:.0f} MB, too large for a track.",
            "Cut it to the drive, or keep only every n-th point.",
        )
    data = path.read_bytes()
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")
