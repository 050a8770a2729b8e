"""Aerial imagery in any format as Web-Mercator tiles and GPS-centred squares of any size.

Reads GeoTIFF, COG, VRT, MBTiles and everything else that GDAL reads, in any coordinate system, and folders of
``{z}/{x}/{y}`` tiles. Only the window under a request is read. Pixels outside the imagery, without data or damaged are
black and marked as invalid; nothing is filled in.

8-bit colours are returned unchanged, grey is repeated, palettes are looked up. Anything else is stretched linearly from
the 2nd to the 98th percentile of a sample of the file, the same for all of its tiles. Of many bands, those named red,
green and blue are used, otherwise the first three.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from x2localizer import geo
from x2localizer.errors import ImageryError
from x2localizer.sources.guard import AVAILABLE
from x2localizer.sources.imagery.access import LOCAL, Access
from x2localizer.sources.imagery.guarded import GuardedRaster
from x2localizer.sources.imagery.pixel_source import Box, ImageryInfo, PixelSource, blank, check_zoom
from x2localizer.sources.imagery.raster_file import RasterFile
from x2localizer.sources.imagery.xyz_folder import TileFolder
from x2localizer.sources.imagery.xyz_server import TileServer, is_tile_server
from x2localizer.types import Position, Region, Tile, TileId

__all__ = ["Access", "Imagery", "ImageryInfo", "open_imagery"]


def open_imagery(path: str | Path, *, tms: bool | None = None, access: Access = LOCAL) -> Imagery:
    """Open a file, a folder of tiles, or an address: one that GDAL reads (``https://``, ``s3://``, ``/vsicurl/``), or a
    tile server (``https://server/{z}/{x}/{y}.jpg#box=WEST,SOUTH,EAST,NORTH&zoom=19``).

    ``access`` says what it may reach: by default nothing on the network, and no files outside of its folder.
    ``tms`` says whether the rows of a folder are counted from the south. By default they are if the folder contains a
    ``tilemapresource.xml``, which gdal2tiles writes next to such tiles.
    """
    text = str(path)
    folder = Path(path)
    if "://" not in text and folder.is_dir():
        flipped = (folder / "tilemapresource.xml").exists() if tms is None else tms
        return Imagery(TileFolder(folder, flipped))
    if tms:
        raise ImageryError(
            f"{text} is not a folder of tiles, so its rows cannot be counted from the south.",
            "Remove the option tms.",
        )
    if is_tile_server(text):
        return Imagery(TileServer(text, access))
    other = access.own_process and AVAILABLE
    return Imagery(GuardedRaster(text, access) if other else RasterFile(text, access))


class Imagery:
    """Open aerial imagery; use it in a ``with`` block.

    Not thread-safe: GDAL files must not be shared, so open the imagery once per thread.
    """

    def __init__(self, source: PixelSource) -> None:
        self._source = source
        self._closed = False

    @property
    def info(self) -> ImageryInfo:
        """Format, resolution and bounds of the imagery."""
        return self._source.info

    @property
    def damaged(self) -> int:
        """Number of stored tiles (of a folder) or reads (of a file) that could not be decoded so far."""
        return self._source.damaged

    def tile(self, tile: TileId, size: int = 256) -> Tile:
        """A tile of ``size`` x ``size`` pixels; entirely invalid where there is no imagery, or no such tile."""
        centre = geo.tile_centre(tile)
        return self._read(Box(tile.z, tile.x, tile.y), size, centre, tile)

    def square(self, centre: Position, z: int, size: int = 256, tiles: float = 1.0) -> Tile:
        """A square of ``size`` x ``size`` pixels around ``centre``, as wide as ``tiles`` tiles of zoom ``z``."""
        if geo.MAX_LATITUDE_DEG < abs(centre.lat_deg) <= 90:
            image, valid = blank(size)  # there is no map near the poles
            return Tile(image, valid, centre, geo.tile_size_m(centre.lat_deg, z) * tiles)
        return self._read(_square(centre, z, tiles), size, centre)

    def pixels_behind(self, centre: Position, z: int, size: int = 256, tiles: float = 1.0) -> float:
        """About how many stored pixels :meth:`square` has to read; infinite if it would refuse."""
        return self._source.pixels_behind(_square(centre, z, tiles), size)

    def region(self, region: Region, tile_size: int = 256) -> Tile:
        """The tiles of a region as one picture, ``n * tile_size`` pixels wide."""
        box = Box(region.z, region.x, region.y, region.n)
        return self._read(box, region.n * tile_size, geo.region_centre(region))

    def edges(self, z: int) -> tuple[float, float, float, float]:
        """West, north, east and south of the bounds in tiles of zoom ``z``; east goes on past the antimeridian."""
        return self._source.extent(z).edges(z)

    def tiles(self, z: int, *, min_coverage: float = 1.0) -> Iterator[TileId]:
        """Tiles that the bounds of the imagery cover at least by a share, row by row from the north.

        With ``min_coverage=0``, all tiles that the bounds touch. No pixels are read: a tile inside the bounds may still
        have no data.
        """
        check_zoom(z)
        return self._source.extent(z).tiles(z, min_coverage)

    def close(self) -> None:
        """Close the file; the imagery cannot be read any more."""
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
