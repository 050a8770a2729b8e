"""What lies where: regions and tiles of aerial imagery with their codes, and roads, on disk or in an object store."""

from x2localizer.gallery.build import index
from x2localizer.gallery.build_roads import index_roads
from x2localizer.gallery.open import open_gallery
from x2localizer.gallery.regions import RegionTable
from x2localizer.gallery.store import Gallery
from x2localizer.gallery.work import Estimate

__all__ = ["Estimate", "Gallery", "RegionTable", "index", "index_roads", "open_gallery"]
