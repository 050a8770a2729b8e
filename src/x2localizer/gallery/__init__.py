"""What lies where: regions and tiles of aerial imagery with their embeddings, on disk or in an object store."""

from x2localizer.gallery.build import index
from x2localizer.gallery.store import Gallery, open_gallery

__all__ = ["Gallery", "index", "open_gallery"]
