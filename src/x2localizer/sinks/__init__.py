"""Where fixes go: one file per output format, one registry."""

from x2localizer.sinks.base import Sink, TrackContext, sinks
from x2localizer.sinks.folder import TrackFolder

__all__ = ["Sink", "TrackContext", "TrackFolder", "sinks"]
