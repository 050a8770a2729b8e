"""Aerial imagery in any format as Web-Mercator tiles, and a GeoTIFF writer."""

from x2localizer.sources.imagery.access import Access
from x2localizer.sources.imagery.geotiff import write_geotiff
from x2localizer.sources.imagery.glance import Glance, glance
from x2localizer.sources.imagery.open import Imagery, ImageryInfo, open_imagery

__all__ = ["Access", "Glance", "Imagery", "ImageryInfo", "glance", "open_imagery", "write_geotiff"]
