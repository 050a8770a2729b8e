"""Imagery in a file that is decoded in a second process."""

from __future__ import annotations

import math

import numpy as np

from x2localizer.errors import ImageryError
from x2localizer.sources.guard import GuardProcess
from x2localizer.sources.imagery.access import Access
from x2localizer.sources.imagery.pixel_source import Box, Extent, ImageryInfo
from x2localizer.types import Image, Mask

OPEN_S = 60.0
"""Seconds until a file has to be open; a server that sends nothing is given up earlier."""
READ_S = 300.0
"""Seconds until one read has to be done; most take less than one."""


class GuardedRaster:
    """A :class:`~x2localizer.sources.imagery.raster_file.RasterFile` in another process; the same pixels."""

    def __init__(self, path: str, access: Access) -> None:
        self._guard = GuardProcess("imagery", path[:200], ImageryError)
        self._damaged = 0
        try:
            paths = [str(folder.absolute()) for folder in access.paths]
            opened = self._guard.ask(OPEN_S, ask="open", path=path, network=access.network, paths=paths).values
        except BaseException:
            self._guard.close()
            raise
        kind, crs, (west, south, east, north), metres, bands, zoom = opened["info"]
        self._info = ImageryInfo(kind, crs, (west, south, east, north), metres, bands, zoom)
        self._extent = Extent(*opened["extent"])

    @property
    def info(self) -> ImageryInfo:
        """Format, resolution and bounds of the file."""
        return self._info

    @property
    def damaged(self) -> int:
        """Number of reads with pixels that could not be decoded."""
        return self._damaged

    def extent(self, z: int) -> Extent:
        """The extent of the file, the same at every zoom."""
        return self._extent

    def read(self, box: Box, size: int) -> tuple[Image, Mask]:
        """The pixels of a box, and which hold data."""
        answer = self._guard.ask(READ_S, ask="read", box=[box.z, box.x, box.y, box.across], size=size)
        self._damaged = answer.values["damaged"]
        pixels = np.frombuffer(answer.data, np.uint8)
        if len(pixels) != 4 * size * size:
            raise ImageryError("The process that decodes imagery gave no picture.", "Run the same command again.")
        image = pixels[: 3 * size * size].reshape(size, size, 3)
        return image, pixels[3 * size * size :].reshape(size, size).astype(np.bool_)

    def pixels_behind(self, box: Box, size: int) -> float:
        """About how many stored pixels a read takes."""
        answer = self._guard.ask(READ_S, ask="pixels_behind", box=[box.z, box.x, box.y, box.across], size=size)
        pixels = float(answer.values["pixels"])
        return pixels if math.isfinite(pixels) else math.inf

    def close(self) -> None:
        """End the other process."""
        self._guard.close()
