"""Recorded tracks as timed positions: GPX, CSV and the telemetry in camera files."""

from x2localizer.sources.tracks.track import (
    MAX_GAP_S,
    TELEMETRY_SUFFIXES,
    TRACK_SUFFIXES,
    Track,
    read_track,
    write_gpx,
)

__all__ = ["MAX_GAP_S", "TELEMETRY_SUFFIXES", "TRACK_SUFFIXES", "Track", "read_track", "write_gpx"]
