"""Aerial imagery, whatever it is kept in, as Web-Mercator tiles and GPS-centred squares of the asked size.

GeoTIFF, COG, VRT, MBTiles and everything else GDAL reads, in any coordinate system, and folders of
``{z}/{x}/{y}`` tiles. Only the window under a request is read. Pixels outside of the imagery, without data or
damaged are black and marked as not valid; nothing is filled in.

Colours of 8 bits come as they are, grey is repeated, palettes are looked up. Anything else is stretched
linearly from the 2nd to the 98th percentile of a sample of the file, the same for all of its tiles. Of many
bands those named red, green and blue are taken, else the first three.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from x2localizer import geo
from x2localizer.errors import ImageryError
from x2localizer.sources.imagery.pixel_source import Box, ImageryInfo, PixelSource, blank
from x2localizer.sources.imagery.raster_file import RasterFile
from x2localizer.sources.imagery.xyz_folder import TileFolder
from x2localizer.types import Position, Region, Tile, TileId

__all__ = ["Imagery", "ImageryInfo", "open_imagery"]

FINEST_ZOOM = 24
"""Tiles of 2 m; no imagery is finer."""


def open_imagery(path: str | Path, *, tms: bool | None = None) -> Imagery:
    """Open a file, a folder of tiles, or an address that GDAL reads (``https://``, ``s3://``, ``/vsicurl/``).

    ``tms`` is for folders whose rows count from the south. Left open, that is so where the folder holds a
    ``tilemapresource.xml``, which gdal2tiles leaves with such tiles.
    """
    text = str(path)
    folder = Path(path)
    if "://" not in text and folder.is_dir():
        flipped = (folder / "tilemapresource.xml").exists() if tms is None else tms
        return Imagery(TileFolder(folder, flipped))
    if tms:
        raise ImageryError(
            f"{text} is not a folder of tiles, so its rows cannot be counted from the south.",
            "Leave out the option tms.",
        )
    try:
        return Imagery(RasterFile(text))
    except (ArithmeticError, ValueError) as problem:
        raise ImageryError(
            f"{text} claims to lie where nothing can: its georeference makes no sense.",
            "Give it the right one: gdal_edit.py -a_srs EPSG:CODE -a_ullr WEST NORTH EAST SOUTH FILE",
        ) from problem


class Imagery:
    """Open aerial imagery; a context manager.

    One thread at a time: GDAL's files must not be shared, so open the imagery once per thread.
    """

    def __init__(self, source: PixelSource) -> None:
        self._source = source
        self._closed = False

    @property
    def info(self) -> ImageryInfo:
        """What the imagery is and where it lies."""
        return self._source.info

    @property
    def damaged(self) -> int:
        """How many stored tiles (of a folder) or reads (of a file) met data that could not be decoded."""
        return self._source.damaged

    def tile(self, tile: TileId, size: int = 256) -> Tile:
        """A tile as ``size`` x ``size`` pixels; nowhere valid if there is no imagery, or no such tile."""
        centre = geo.tile_centre(tile)
        return self._read(Box(tile.z, tile.x, tile.y), size, centre, tile)

    def square(self, centre: Position, z: int, size: int = 256, tiles: float = 1.0) -> Tile:
        """A square as large as a tile of zoom ``z``, or as some of them, with ``centre`` in its middle."""
        if geo.MAX_LATITUDE_DEG < abs(centre.lat_deg) <= 90:
            image, valid = blank(size)  # there is no map near the poles
            return Tile(image, valid, centre, geo.tile_size_m(centre.lat_deg, z) * tiles)
        return self._read(_square(centre, z, tiles), size, centre)

    def pixels_behind(self, centre: Position, z: int, size: int = 256, tiles: float = 1.0) -> float:
        """About how many stored pixels :meth:`square` has to read; infinite if it would refuse."""
        return self._source.pixels_behind(_square(centre, z, tiles), size)

    def region(self, region: Region, tile_size: int = 256) -> Tile:
        """The tiles of a region as one picture of ``n * tile_size`` pixels a side."""
        box = Box(region.z, region.x, region.y, region.n)
        return self._read(box, region.n * tile_size, geo.region_centre(region))

    def tiles(self, z: int, *, min_coverage: float = 1.0) -> Iterator[TileId]:
        """The tiles of which the bounds of the imagery cover at least a share, row by row from the north.

        0 means all that the bounds touch. No pixels are read: a tile inside the bounds may still lack data.
        """
        if not 0 <= z <= FINEST_ZOOM:
            raise ImageryError(f"There are no tiles of zoom {z}.", f"Give a zoom from 0 to {FINEST_ZOOM}, such as 19.")
        return self._source.extent(z).tiles(z, min_coverage)

    def close(self) -> None:
        """Let go of the file. The imagery cannot be read any more."""
        self._closed = True
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, box: Box, size: int, centre: Position, tile: TileId | None = None) -> Tile:
        if self._closed:
            raise ValueError("the imagery is closed")
        if size < 1:
            raise ValueError(f"a picture of {size} pixels")
        image, valid = self._source.read(box, size)
        return Tile(image, valid, centre, geo.tile_size_m(centre.lat_deg, box.z) * box.across, tile)


def _square(centre: Position, z: int, tiles: float) -> Box:
    x, y = geo.tile_coordinates(centre.lat_deg, centre.lon_deg, z)
    return Box(z, float(x) - tiles / 2, float(y) - tiles / 2, tiles)
