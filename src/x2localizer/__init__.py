"""X²Localizer: where is the camera? Progressive cross-view video geo-localization, without GPS.

What most programs need can be imported from here; each room has the rest. Names are loaded when first used, so that
``import x2localizer`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from x2localizer.encoders import open_bundle
    from x2localizer.gallery import index, open_gallery
    from x2localizer.localize import Localizer
    from x2localizer.sources.imagery import open_imagery
    from x2localizer.sources.tracks import read_track
    from x2localizer.sources.video import open_video

__version__ = "0.1.0"
__all__ = ["Localizer", "index", "open_bundle", "open_gallery", "open_imagery", "open_video", "read_track"]

_ROOMS = {
    "Localizer": "localize", "index": "gallery", "open_bundle": "encoders", "open_gallery": "gallery",
    "open_imagery": "sources.imagery", "open_video": "sources.video", "read_track": "sources.tracks",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _ROOMS:
        raise AttributeError(f"x2localizer has no {name}")
    return getattr(import_module(f"x2localizer.{_ROOMS[name]}"), name)
