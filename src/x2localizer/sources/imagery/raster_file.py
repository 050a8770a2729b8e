"""Aerial imagery in a file that GDAL reads: GeoTIFF, COG, VRT, MBTiles and more, in any coordinate system.

Each request is warped to its own Web-Mercator grid in one step, so that pixels which already lie on the grid are
returned unchanged, and only the window under the request is read. A request coarser than the file reads the nearest
finer overview and averages it; without overviews the full resolution under the request has to be read, in pieces of
bounded memory.

An interpolated pixel is valid if its centre lies on data, an averaged one if any part of it does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from affine import Affine
from pyproj import CRS
from rasterio.enums import Resampling
from rasterio.vrt import WarpedVRT

from x2localizer import geo
from x2localizer.errors import ImageryError
from x2localizer.sources.imagery.access import LOCAL, Access, check_address, check_dataset
from x2localizer.sources.imagery.footprint import Footprint
from x2localizer.sources.imagery.pixel_source import VALID_FROM_ALPHA, Box, Extent, ImageryInfo, blank, natural_zoom
from x2localizer.sources.imagery.raster_bands import Stretch, choose_bands, measure_stretch, needs_view, view_of
from x2localizer.sources.imagery.raster_blocks import Blocks, blocks_of
from x2localizer.sources.imagery.raster_open import (
    GDAL_ERRORS,
    HTTP_SILENCE_S,
    WEB_MERCATOR,
    gdal_env,
    georeferenced,
    has_remote_data,
    no_answer,
    open_dataset,
    quiet_gdal,
    server_failed,
)
from x2localizer.types import Image, Mask

_AVERAGE_FROM = 1.5
"""Source pixels per pixel above which averaging looks better than interpolation."""
_SMOOTH_FROM = 1.05
"""Source pixels per pixel above which interpolation alone would skip some of them."""
_SMALLEST_RETRY = 64
"""Pixels. A read that fails is split until the damage is confined to pieces of this side."""
MOST_PIXELS = 4e9
"""Stored pixels that one read may take; a minute or two of work."""
_SMALL_BLOCK_PIXELS = 1 << 22
"""Stored pixels. Blocks up to this are decoded again for each piece of a read that fails; larger ones are not."""
_EDGE = 0.005
"""Share of the extent. Its edges are curved between the sampled points, so data may lie slightly beyond them."""
_STRETCH_SIDE = 256
"""Pixels. Overviews smaller than this are too smooth to measure a stretch on."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a picture.

    ``left``, ``top``, ``right`` and ``bottom`` are its pixel edges in the picture. ``x_m`` and ``y_m`` are the
    Web-Mercator coordinates of the picture's corner, ``step_m`` the side of a pixel. ``turns`` is the number of turns
    of the globe by which the source has to be moved to lie there.
    """

    left: int
    top: int
    right: int
    bottom: int
    x_m: float
    y_m: float
    step_m: float
    turns: int

    def quarters(self) -> list[_Piece]:
        """The piece cut in four, or in two if it is one pixel thin."""
        middle, centre = (self.left + self.right) // 2, (self.top + self.bottom) // 2
        return [
            replace(self, left=left, right=right, top=top, bottom=bottom)
            for left, right in ((self.left, middle), (middle, self.right))
            for top, bottom in ((self.top, centre), (centre, self.bottom))
            if left < right and top < bottom
        ]


@dataclass(frozen=True, slots=True)
class _Level:
    """The file, or one of its overviews, ``factor`` times coarser; ``blocks`` are those that are stored."""

    dataset: Any
    blocks: Blocks
    factor: int
    colours: tuple[int, ...]
    alpha: int | None
    nodata: float | None


class RasterFile:
    """A file or an address that GDAL reads (``/vsicurl/...``, ``s3://...``); not thread-safe."""

    def __init__(self, path: str, access: Access = LOCAL) -> None:
        self._path, self._access = path, access
        self._damaged = 0
        self._levels: dict[int | None, _Level] = {}
        on_network = check_address(path, access)
        self._file = self._base = open_dataset(path, None, access)
        self._remote = on_network or has_remote_data(path, self._file.driver)
        try:
            check_dataset(self._file, path, access)
            with quiet_gdal(access):
                self._prepare()
        except (ArithmeticError, ValueError) as problem:
            self.close()
            raise ImageryError(
                f"The georeference of {path} is not a place on the globe.",
                "Set the right one: gdal_edit.py -a_srs EPSG:CODE -a_ullr WEST NORTH EAST SOUTH FILE",
            ) from problem
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        self._base = georeferenced(self._file, self._path)
        blocks_of(self._file, self._path)
        plain = self._base is self._file
        crs = CRS.from_wkt(self._base.crs.to_wkt(version="WKT2_2019"))
        self._footprint = Footprint(crs, self._base.transform, self._base.width, self._base.height)
        self._extent = self._footprint.extent()
        self._turn_length, self._turn = self._footprint.turn()
        self._bands = choose_bands(self._base)
        self._viewed = plain and needs_view(self._base, self._bands)
        self._overviews = [int(factor) for factor in self._base.overviews(1)] if plain else []
        self._stretch = self._measure_stretch()
        metres = self._footprint.metres_per_pixel()
        self._info = ImageryInfo(
            kind=_kind(self._file),
            crs=f"EPSG:{code}" if (code := crs.to_epsg()) else crs.name,
            bounds=self._extent.degrees(),
            metres_per_pixel=metres,
            bands=self._file.count,
            zoom=natural_zoom(self._extent.centre_latitude(), metres),
        )

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

    def close(self) -> None:
        """Close the file and its overviews."""
        for dataset in (*(level.dataset for level in self._levels.values()), self._base, self._file):
            dataset.close()
        self._levels.clear()

    def read(self, box: Box, size: int) -> tuple[Image, Mask]:
        """The pixels of a box; those that cannot be decoded are invalid, and counted in :attr:`damaged`."""
        image, valid = blank(size)
        with gdal_env(self._access):
            intact = [self._fill(piece, image, valid) for piece in self._pieces(box, size)]
        self._damaged += not all(intact)
        return image, valid

    def pixels_behind(self, box: Box, size: int) -> float:
        """About how many stored pixels a read takes, from the overview that fits."""
        return sum(self._stored_pixels(piece) for piece in self._pieces(box, size))

    def _stored_pixels(self, piece: _Piece) -> float:
        """About how many stored pixels are decoded for a piece."""
        across, down = self._coarser(piece)
        level = self._level(min(across, down))
        width, height = piece.right - piece.left, piece.bottom - piece.top
        return level.blocks.pixels(width * across / level.factor, height * down / level.factor)

    def _pieces(self, box: Box, size: int) -> Iterator[_Piece]:
        """The parts of a picture that may contain data, cut at the antimeridian.

        Each lies within one turn of the globe, because coordinate systems may jump back beyond it.
        """
        world = 1 << box.z
        pixel = box.across / size  # in tiles
        wide = self._extent.east - self._extent.west
        edge_x, edge_y = wide * _EDGE * world, (self._extent.south - self._extent.north) * _EDGE * world
        top = max(0, math.floor((self._extent.north * world - edge_y - box.y) / pixel))
        bottom = min(size, math.ceil((self._extent.south * world + edge_y - box.y) / pixel))
        for turn in range(math.floor(box.x / world), math.ceil((box.x + box.across) / world)):
            x = box.x - turn * world
            first = max(0, math.ceil(-x / pixel - 0.5))  # pixels whose centres lie in this turn
            last = min(size, math.ceil((world - x) / pixel - 0.5))
            for copy in (0, -1):
                west = (self._extent.west + copy) * world - edge_x
                east = (self._extent.east + copy) * world + edge_x
                left = max(first, math.floor((west - x) / pixel))
                right = min(last, math.ceil((east - x) / pixel))
                if left < right and top < bottom:
                    x_m, _, east_m, y_m = geo.mercator_bounds(x, box.y, box.z, box.across)
                    step_m = (east_m - x_m) / size
                    yield _Piece(left, top, right, bottom, x_m, y_m, step_m, copy - self._turn)

    def _fill(self, piece: _Piece, image: Image, valid: Mask) -> bool:
        """Copy one piece into the picture, as far as the file is undamaged; returns whether all of it could be read."""
        began_s = time.monotonic()
        try:
            pixels, holds = self._warp(piece)
        except GDAL_ERRORS as problem:
            if self._remote:  # smaller pieces would take just as long, and what is not delivered is no hole
                silent = time.monotonic() - began_s >= HTTP_SILENCE_S
                raise (no_answer(self._path) if silent else server_failed(self._path)) from problem
            if max(piece.right - piece.left, piece.bottom - piece.top) <= _SMALLEST_RETRY or self._in_a_block(piece):
                return False
            intact = [self._fill(quarter, image, valid) for quarter in piece.quarters()]
            return all(intact)
        place = (slice(piece.top, piece.bottom), slice(piece.left, piece.right))
        image[place][holds] = pixels[holds]
        valid[place] |= holds
        return True

    def _warp(self, piece: _Piece) -> tuple[Image, Mask]:
        """The pixels of a piece on the Web-Mercator grid, and a mask of those that hold data."""
        x_m, y_m = piece.x_m + piece.left * piece.step_m, piece.y_m - piece.top * piece.step_m
        width, height = piece.right - piece.left, piece.bottom - piece.top
        coarser = self._coarser(piece)
        level = self._level(min(coarser))
        pixels = self._stored_pixels(piece)
        if pixels > MOST_PIXELS:
            raise ImageryError(
                f"One picture of {self._path} takes {pixels / 1e9:,.0f} billion of its pixels.",
                "Add overviews (gdaladdo -r average FILE), or ask for a smaller area or a finer zoom.",
            )
        average = max(coarser) / level.factor >= _AVERAGE_FROM
        place = level.dataset.transform
        with WarpedVRT(
            level.dataset,
            crs=WEB_MERCATOR,
            src_transform=Affine(
                place.a, place.b, place.c + piece.turns * self._turn_length, place.d, place.e, place.f
            ),
            transform=Affine(piece.step_m, 0.0, x_m, 0.0, -piece.step_m, y_m),
            width=width,
            height=height,
            resampling=Resampling.average if average else Resampling.bilinear,
            src_nodata=level.nodata,
            add_alpha=level.alpha is None,
            # By default GDAL chooses the smoothing by the window, so that tiles and regions would differ.
            xscale=_smoothing(coarser[0] / level.factor),
            yscale=_smoothing(coarser[1] / level.factor),
        ) as warped:
            return self._picture(warped.read([*level.colours, level.alpha or warped.count]))

    def _in_a_block(self, piece: _Piece) -> bool:
        """Whether all of a piece may lie in one large block, so that its parts would decode the same again."""
        across, down = self._coarser(piece)
        level = self._level(min(across, down))
        columns, rows = (piece.right - piece.left) * across, (piece.bottom - piece.top) * down
        fits = columns <= level.blocks.columns * level.factor and rows <= level.blocks.rows * level.factor
        return fits and level.blocks.pixels(1, 1) > _SMALL_BLOCK_PIXELS

    def _coarser(self, piece: _Piece) -> tuple[float, float]:
        """Columns and rows of the file per pixel in the middle of a piece."""
        x_m, y_m = piece.x_m + piece.left * piece.step_m, piece.y_m - piece.top * piece.step_m
        width, height = piece.right - piece.left, piece.bottom - piece.top
        return self._footprint.pixels_per_step(
            x_m + width / 2 * piece.step_m, y_m - height / 2 * piece.step_m, piece.step_m
        )

    def _picture(self, pixels: npt.NDArray[Any]) -> tuple[Image, Mask]:
        """8-bit RGB, and where there is data, from the bands of a read, the last of which is alpha."""
        colours, alpha = pixels[:-1], pixels[-1]
        # Files with more than 8 bits use different values for opaque, so anything but 0 counts as data there.
        holds: Mask = alpha >= VALID_FROM_ALPHA if alpha.dtype == np.uint8 else alpha > 0
        if self._stretch is not None:
            holds &= np.isfinite(colours).all(axis=0)
            colours = self._stretch.apply(np.where(holds, colours, 0))
        return np.broadcast_to(np.moveaxis(colours, 0, -1), (*holds.shape, 3)), holds

    def _level(self, coarser: float) -> _Level:
        """The coarsest overview that is not coarser than the request, otherwise the file itself."""
        fitting = [index for index, factor in enumerate(self._overviews) if factor <= coarser * 1.01]
        overview = max(fitting, key=lambda index: self._overviews[index], default=None)
        if overview not in self._levels:
            self._levels[overview] = self._open_level(overview)
        return self._levels[overview]

    def _open_level(self, overview: int | None) -> _Level:
        dataset = self._base if overview is None else open_dataset(self._path, overview, self._access)
        blocks = blocks_of(self._file if overview is None else dataset, self._path)
        if self._viewed:
            xml = view_of(dataset, self._bands, overview)
            if overview is not None:
                dataset.close()
            dataset = open_dataset(xml, None, self._access)
        bands = choose_bands(dataset)
        factor = 1 if overview is None else self._overviews[overview]
        return _Level(dataset, blocks, factor, bands.colours, bands.alpha, _nodata(dataset, bands.dtype))

    def _measure_stretch(self) -> Stretch | None:
        """The stretch, measured on the coarsest overview with enough detail; None for 8-bit pictures."""
        if self._bands.palette is not None or self._bands.dtype == np.uint8:
            return None
        side = min(self._base.width, self._base.height)
        level = self._level(side / _STRETCH_SIDE)
        return measure_stretch(level.dataset, level.colours, level.blocks)


def _smoothing(coarser: float) -> float:
    """The resolution to smooth to before interpolation, as a share of the source's; 1 is no smoothing."""
    return 1 / coarser if coarser > _SMOOTH_FROM else 1.0


def _nodata(dataset: Any, dtype: np.dtype[Any]) -> float | None:
    """The nodata value; NaN for files of floats that state none."""
    nodata: float | None = dataset.nodata
    return math.nan if nodata is None and np.issubdtype(dtype, np.floating) else nodata


def _kind(dataset: Any) -> str:
    if dataset.driver == "GTiff":
        return "COG" if dataset.tags(ns="IMAGE_STRUCTURE").get("LAYOUT") == "COG" else "GeoTIFF"
    return str(dataset.driver)
