"""X²Localizer: where is the camera? Progressive cross-view video geo-localization, without GPS.

The public API. Names are loaded when they are first used, so ``import x2localizer`` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from x2localizer.encoders import open_bundle
    from x2localizer.gallery import index, open_gallery
    from x2localizer.localize import Localizer
    from x2localizer.localize.follow import VideoFollower
    from x2localizer.localize.track.track_map import TrackMap
    from x2localizer.localize.track.tracker import Tracker
    from x2localizer.odometry import CameraProfile, VisualOdometry
    from x2localizer.pipeline import LocalizedVideo, localize_odometry, localize_video
    from x2localizer.sources.imagery import open_imagery
    from x2localizer.sources.motion import read_motion
    from x2localizer.sources.tracks import read_track
    from x2localizer.sources.video import open_video
    from x2localizer.types import Fix

__version__ = "0.1.0"
__all__ = [
    "CameraProfile", "Fix", "LocalizedVideo", "Localizer", "TrackMap", "Tracker", "VideoFollower", "VisualOdometry",
    "index", "localize_odometry", "localize_video", "open_bundle", "open_gallery", "open_imagery", "open_video",
    "read_motion", "read_track",
]  # fmt: skip

_HOMES = {
    "CameraProfile": "odometry", "Fix": "types", "LocalizedVideo": "pipeline", "Localizer": "localize",
    "TrackMap": "localize.track.track_map", "Tracker": "localize.track.tracker", "VideoFollower": "localize.follow",
    "VisualOdometry": "odometry", "index": "gallery", "localize_odometry": "pipeline", "localize_video": "pipeline",
    "open_bundle": "encoders", "open_gallery": "gallery", "open_imagery": "sources.imagery",
    "open_video": "sources.video", "read_motion": "sources.motion", "read_track": "sources.tracks",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'x2localizer' has no attribute '{name}'")
    return getattr(import_module(f"x2localizer.{_HOMES[name]}"), name)
