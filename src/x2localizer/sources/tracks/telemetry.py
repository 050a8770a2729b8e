"""Timed positions that cameras write into their own videos.

GoPro (GPMF) and Street View cameras (CAMM) store positions in a data track with the video's own timestamps, so these
positions line up with the frames: time 0 is the first frame. Insta360 appends positions with their UTC times, but not
the time at which the video starts: such a track starts at its first position and needs a time offset. Telemetry of
other cameras is not read.
"""

from __future__ import annotations

import struct
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path

from x2localizer.errors import TrackError
from x2localizer.sources.packets import NOMINAL_PAYLOAD_S, PROBLEMS, data_packets
from x2localizer.sources.tracks.gpmf import GpsBlock, gps_block, items
from x2localizer.sources.tracks.points import EPOCH, Points

MAX_DOP = 10.0
"""Dilution of precision above which a position is dropped. GoPro considers values below 5 good."""

_GPMF_START = b"DEVC"
_CAMM_POSITION = struct.Struct("<HHddd")  # reserved, type 5, latitude, longitude, altitude
_CAMM_GPS = struct.Struct("<HHdidd7f")  # reserved, type 6, GPS seconds, fix, latitude, longitude, ...
_INSTA360_MAGIC = b"8db42d694ccc418790edff439fe026bf"
_INSTA360_END = struct.Struct("<32xII32s")  # size of the trailer, version, magic
_INSTA360_RECORD = struct.Struct("<BBI")  # format, kind, length
_INSTA360_GPS_KIND = 7
_INSTA360_GPS = struct.Struct("<QHcdcdc24x")  # seconds, milliseconds, fix, latitude, N/S, longitude, E/W, ...


def read_telemetry(path: Path, *, own_process: bool = False) -> Points:
    """The positions in a video file; times are seconds of the video unless ``since_epoch`` is set."""
    points, in_data_track = Points(), False
    try:
        for time_s, duration_s, data in data_packets(path, TrackError, own_process=own_process):
            if data.startswith(_GPMF_START):
                in_data_track = True
                block = gps_block(data)
                if block is not None:
                    _note_start(points, block, time_s)
                    _spread(points, block, time_s, duration_s)
            elif _add_camm(points, time_s, data):
                in_data_track = True
    except PROBLEMS as problem:
        raise TrackError(
            f"Cannot read {path} as a video: {problem}.", "Check that the file is complete and plays."
        ) from problem
    return points if in_data_track else _insta360(path)


def read_gpmf(path: Path) -> Points:
    """The positions in a bare GPMF stream; its only clock is the receiver's UTC time."""
    blocks = [gps_block(item.value) for item in items(path.read_bytes()) if item.key == _GPMF_START.decode()]
    found = [block for block in blocks if block is not None]
    points = Points(since_epoch=True)
    for block, following in zip_longest(found, found[1:]):
        if block.utc is None:
            fixed = int(block.fixed.sum())
            points.drop("without_time", fixed)
            points.drop("without_fix", len(block.fixed) - fixed)
            continue
        lasts_s = NOMINAL_PAYLOAD_S
        if following is not None and following.utc is not None:
            until_next_s = (following.utc - block.utc).total_seconds()
            lasts_s = until_next_s if 0 < until_next_s < 2 * NOMINAL_PAYLOAD_S else lasts_s
        _spread(points, block, (block.utc - EPOCH).total_seconds(), lasts_s)
    return points


def _note_start(points: Points, block: GpsBlock, time_s: float) -> None:
    """Set the UTC time of the first frame, from the first payload with a UTC time."""
    if points.start_time is None and block.utc is not None:
        points.start_time = block.utc - timedelta(seconds=time_s)


def _spread(points: Points, block: GpsBlock, start_s: float, duration_s: float) -> None:
    """Add the samples of a block at even steps from the start of its payload."""
    count = len(block.fixed)
    for i in range(count):
        if not block.fixed[i]:
            points.drop("without_fix")
        elif block.dops[i] > MAX_DOP:
            points.drop("imprecise")
        else:
            time_s = start_s + duration_s * i / count
            points.add(time_s, float(block.lats_deg[i]), float(block.lons_deg[i]))


def _add_camm(points: Points, time_s: float, data: bytes) -> bool:
    """Add the position of a CAMM packet; False if it has none."""
    header = data[:4]
    if header == b"\0\0\5\0" and len(data) == _CAMM_POSITION.size:
        _, _, lat, lon, _ = _CAMM_POSITION.unpack(data)
        points.add(time_s, lat, lon)
        return True
    if header == b"\0\0\6\0" and len(data) == _CAMM_GPS.size:
        _, _, _, fix, lat, lon, *_ = _CAMM_GPS.unpack(data)
        if fix:
            points.add(time_s, lat, lon)
        else:
            points.drop("without_fix")
        return True
    return False


def _insta360(path: Path) -> Points:
    """The positions in Insta360's trailer; none if the file has no such trailer.

    The trailer is a list of records, each followed by its format, kind and length, and is read from the end. Only the
    record of positions is loaded, as those of the motion sensors are far larger.
    """
    points = Points(since_epoch=True)
    with path.open("rb") as file:
        end = file.seek(0, 2) - _INSTA360_END.size
        if end < 0:
            return points
        file.seek(end)
        trailer_size, _, magic = _INSTA360_END.unpack(file.read(_INSTA360_END.size))
        first = max(end + _INSTA360_END.size - trailer_size, 0)
        while magic == _INSTA360_MAGIC and end - _INSTA360_RECORD.size >= first:
            file.seek(end - _INSTA360_RECORD.size)
            _, kind, length = _INSTA360_RECORD.unpack(file.read(_INSTA360_RECORD.size))
            end -= _INSTA360_RECORD.size + length
            if kind == _INSTA360_GPS_KIND and end >= first:
                file.seek(end)
                _add_insta360(points, file.read(length))
    return points


def _add_insta360(points: Points, record: bytes) -> None:
    whole = len(record) // _INSTA360_GPS.size * _INSTA360_GPS.size
    for seconds, milliseconds, fix, lat, south, lon, west in _INSTA360_GPS.iter_unpack(record[:whole]):
        if fix == b"A":
            north, east = -abs(lat) if south == b"S" else lat, -abs(lon) if west == b"W" else lon
            points.add(seconds + milliseconds / 1000.0, north, east)
        else:
            points.drop("without_fix")
