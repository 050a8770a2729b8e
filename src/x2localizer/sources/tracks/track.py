"""Recorded tracks: where the camera was, and when.

``read_track`` reads GPX, CSV, videos with the camera's own GPS, bare GPMF streams, and KITTI's ``oxts``. A track has
positions only for times that it covers: never before its start, after its end, or within a gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import gpxpy.gpx
import numpy as np
import numpy.typing as npt
from pyproj import Geod

from x2localizer.errors import TrackError
from x2localizer.files import write_text
from x2localizer.geo import distance_m
from x2localizer.sources.oxts import is_oxts
from x2localizer.sources.tracks.points import EPOCH, Dropped, Points, Reason
from x2localizer.sources.tracks.telemetry import read_gpmf, read_telemetry
from x2localizer.sources.tracks.text_files import read_csv, read_gpx, read_oxts_track
from x2localizer.types import Floats, Position

MAX_GAP_S = 5.0
"""Longest time between two points that a track interpolates across."""
_SAME_TIME_S = 1e-6
"""Tolerance for gaps that are as long as allowed except for rounding."""
_LONGEST_OFFSET_S = 1e9  # 30 years

TELEMETRY_SUFFIXES = frozenset({".mp4", ".mov", ".m4v", ".360", ".insv", ".lrv", ".mkv", ".avi"})
"""Suffixes of videos that may contain the positions of the camera."""
_GPMF = frozenset({".raw", ".gpmf", ".gpmd"})
MAX_GPMF_BYTES = 500_000_000
_TABLES = frozenset({".csv", ".tsv", ".txt"})
TRACK_SUFFIXES = frozenset({".gpx"}) | _GPMF | _TABLES
"""Suffixes of files that contain only a track."""
_MARKS_AND_BLANKS = b"\xef\xbb\xbf\xff\xfe \t\r\n\0"

_GEOD = Geod(ellps="WGS84")


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """Timed positions; arrays have shape (n,) with n >= 1.

    ``times_s`` increases strictly. Its zero is the first frame of a video with telemetry, the zero of a CSV of plain
    seconds, and otherwise the first point; an offset moves it (see :func:`read_track`). ``start_time`` is the UTC time
    of that zero, if known. ``reordered`` counts points that were out of order in the file.
    """

    times_s: Floats
    lats_deg: Floats
    lons_deg: Floats
    start_time: datetime | None = None
    dropped: Dropped = field(default_factory=Dropped)
    reordered: int = 0

    def __post_init__(self) -> None:
        for name in ("times_s", "lats_deg", "lons_deg"):
            values = np.array(getattr(self, name), np.float64)
            if values.ndim != 1 or not values.size or not np.isfinite(values).all():
                raise ValueError(f"{name} of a track must be a list of numbers")
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        if not len(self.times_s) == len(self.lats_deg) == len(self.lons_deg):
            raise ValueError("a track needs a latitude and a longitude for every time")
        if not np.all(np.diff(self.times_s) > 0):
            raise ValueError("the times of a track must increase")
        if self.start_time is not None and self.start_time.tzinfo is None:
            raise ValueError("the start time of a track needs a time zone")

    def __len__(self) -> int:
        return len(self.times_s)

    @property
    def duration_s(self) -> float:
        """Time from the first point to the last."""
        return float(self.times_s[-1] - self.times_s[0])

    @property
    def length_m(self) -> float:
        """Distance along the points; straight across gaps."""
        lats, lons = self.lats_deg, self.lons_deg
        return float(np.sum(distance_m(lats[:-1], lons[:-1], lats[1:], lons[1:])))

    def at(self, time_s: float, max_gap_s: float = MAX_GAP_S) -> Position | None:
        """The position at a time, or None if the track does not cover it."""
        lat, lon = self.positions(time_s, max_gap_s)
        return None if np.isnan(lat) else Position(float(lat), float(lon))

    def positions(
        self, times_s: float | npt.NDArray[np.float64], max_gap_s: float = MAX_GAP_S
    ) -> tuple[Floats, Floats]:
        """Latitudes and longitudes, each of the shape of ``times_s``; NaN for times that the track does not cover.

        Positions between two points lie on the geodesic at constant speed. At a point's own time the result is that
        point, even next to a gap.
        """
        when = np.asarray(times_s, np.float64)
        right = np.minimum(np.searchsorted(self.times_s, when), len(self) - 1)
        left = np.maximum(right - 1, 0)
        at_point = self.times_s[right] == when
        gap_s = self.times_s[right] - self.times_s[left]
        between = (self.times_s[left] < when) & (when < self.times_s[right]) & (gap_s <= max_gap_s + _SAME_TIME_S)
        lats = np.where(at_point, self.lats_deg[right], np.nan)
        lons = np.where(at_point, self.lons_deg[right], np.nan)
        if between.any():
            a, b = left[between], right[between]
            share = (when[between] - self.times_s[a]) / gap_s[between]
            lats[between], lons[between] = self._along(a, b, share)
        return lats, lons

    def _along(self, a: npt.NDArray[np.intp], b: npt.NDArray[np.intp], share: Floats) -> tuple[Floats, Floats]:
        """Latitudes and longitudes at a share (0 to 1) of the geodesics from points ``a`` to points ``b``."""
        azimuth, _, length_m = _GEOD.inv(self.lons_deg[a], self.lats_deg[a], self.lons_deg[b], self.lats_deg[b])
        lons, lats, _ = _GEOD.fwd(self.lons_deg[a], self.lats_deg[a], azimuth, length_m * share)
        return np.asarray(lats, np.float64), np.asarray(lons, np.float64)

    def shifted(self, offset_s: float) -> Track:
        """The same track with another zero: time ``offset_s`` becomes time 0."""
        start = None if self.start_time is None else self.start_time + timedelta(seconds=offset_s)
        return replace(self, times_s=self.times_s - offset_s, start_time=start)


def read_track(path: str | Path, *, offset_s: float = 0.0, own_process: bool = False) -> Track:
    """Read a recorded track of any format.

    ``offset_s`` is the time from the start of the track to the start of the video. For a logger that was switched on
    12 s before the camera it is 12: the position at 12 s belongs to the first frame, and has time 0 in the result. If
    the start of the video is known in UTC, the offset is ``(video_start - track.start_time).total_seconds()``, where
    ``track`` was read without an offset.

    Points are sorted by time; of several points at the same time the first in the file is kept. With ``own_process``
    FFmpeg opens a video in a second process, so that a crash or a hang there is an error here.
    """
    if not abs(offset_s) <= _LONGEST_OFFSET_S:  # also refuses NaN
        raise TrackError(f"A time offset of {offset_s} s is not possible.", "Give it in seconds, such as 2.5 or -30.")
    path = Path(path)
    try:
        points = _reader(path, own_process)(path)
    except OSError as problem:
        raise TrackError(
            f"Cannot read {path}: {problem.strerror or problem}.",
            "Check the path and the permissions.",
        ) from problem
    return _to_track(path, points, offset_s)


def write_gpx(path: Path, track: Track, *, name: str = "", start_time: datetime | None = None) -> None:
    """Write a track as GPX with UTC times, with a new segment after every gap longer than ``MAX_GAP_S``.

    ``start_time`` is the UTC time of the track's time 0; required if the track does not know it.
    """
    start = start_time or track.start_time
    if start is None:
        raise TrackError(
            "This track has no date, which GPX needs.",
            "Pass the time at which the video starts.",
        )
    if start.tzinfo is None:
        raise ValueError("the start time of a track needs a time zone")
    gpx = gpxpy.gpx.GPX()
    gpx.creator = "X2Localizer"
    gpx_track = gpxpy.gpx.GPXTrack(name="".join(c for c in name if c.isprintable()) or None)
    gpx.tracks.append(gpx_track)
    for piece in np.split(np.arange(len(track)), np.flatnonzero(np.diff(track.times_s) > MAX_GAP_S) + 1):
        segment = gpxpy.gpx.GPXTrackSegment()
        gpx_track.segments.append(segment)
        for i in piece:
            time = start.astimezone(UTC) + timedelta(seconds=float(track.times_s[i]))
            lat, lon = float(track.lats_deg[i]), float(track.lons_deg[i])
            segment.points.append(gpxpy.gpx.GPXTrackPoint(lat, lon, time=time))
    write_text(path, gpx.to_xml())


def _reader(path: Path, own_process: bool) -> Callable[[Path], Points]:
    """The reader for a file, chosen by its first bytes, otherwise by its suffix."""
    if is_oxts(path):
        return read_oxts_track
    with path.open("rb") as file:
        head = file.read(64)
    suffix = path.suffix.lower()
    if not head:
        raise TrackError(f"{path} is empty.", "Record or export the track again.")
    if head[:4] == b"DEVC" or suffix in _GPMF:
        if path.stat().st_size > MAX_GPMF_BYTES:
            raise TrackError(f"{path} is too large for the telemetry of a drive.", "Give the video that it comes from.")
        return read_gpmf
    if head[4:8] == b"ftyp" or suffix in TELEMETRY_SUFFIXES:
        return partial(read_telemetry, own_process=own_process)
    if suffix == ".gpx" or head.lstrip(_MARKS_AND_BLANKS).startswith(b"<"):
        return read_gpx
    if suffix in _TABLES:
        return read_csv
    raise TrackError(
        f"{path} is not a track in a known format.",
        "Use a .gpx or .csv file, or the video of a camera with GPS; other formats can be converted to GPX.",
    )


def _to_track(path: Path, points: Points, offset_s: float) -> Track:
    if not points.times_s:
        raise _nothing_left(path, Dropped(**points.dropped))
    times_s = np.array(points.times_s)
    start = points.start_time
    if points.since_epoch:
        first_s = float(times_s.min())
        times_s, start = times_s - first_s, EPOCH + timedelta(seconds=first_s)
    if start is not None:
        start += timedelta(seconds=offset_s)
    times_s = times_s - offset_s
    order = np.argsort(times_s, kind="stable")
    kept = order[np.append(True, np.diff(times_s[order]) > 0)]
    points.drop("duplicate_time", len(order) - len(kept))
    return Track(
        times_s[kept],
        np.array(points.lats_deg)[kept],
        np.array(points.lons_deg)[kept],
        start,
        Dropped(**points.dropped),
        reordered=int(np.sum(times_s < np.maximum.accumulate(times_s))),
    )


_REMEDIES: dict[Reason, str] = {
    "without_time": "Export the track with times, which say which frame a position belongs to.",
    "without_fix": "Record with GPS on and under open sky, or use a GPX or CSV track of another device.",
    "imprecise": "Record under open sky, or use a GPX or CSV track of another device.",
    "bad_position": "Positions must be WGS84 degrees: latitude -90 to 90, longitude -180 to 180.",
    "unreadable": "Write numbers like 48.137, and times as seconds or like 2024-05-01T12:00:00Z.",
}


def _nothing_left(path: Path, dropped: Dropped) -> TrackError:
    if not dropped.total:
        return TrackError(
            f"{path} contains no GPS positions in a known format.",
            "Use the GPX or CSV track of a device that recorded the same drive.",
        )
    worst = max(_REMEDIES, key=lambda reason: int(getattr(dropped, reason)))
    return TrackError(f"{path} contains no usable position: {dropped}.", _REMEDIES[worst])
