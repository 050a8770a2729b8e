"""What lies where: regions and tiles of aerial imagery with their codes, and roads, on disk or in an object store."""

from importlib import import_module
from typing import TYPE_CHECKING

from x2localizer.gallery.open import open_gallery
from x2localizer.gallery.regions import RegionTable
from x2localizer.gallery.store import Gallery

if TYPE_CHECKING:  # building reads imagery and roads, which a small machine that only localizes need not load
    from x2localizer.gallery.build import index
    from x2localizer.gallery.build_roads import index_roads
    from x2localizer.gallery.work import Estimate

__all__ = ["Estimate", "Gallery", "RegionTable", "index", "index_roads", "open_gallery"]

_HOMES = {"Estimate": "work", "index": "build", "index_roads": "build_roads"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'x2localizer.gallery' has no attribute '{name}'")
    return getattr(import_module(f"x2localizer.gallery.{_HOMES[name]}"), name)
