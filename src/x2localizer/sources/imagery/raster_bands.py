"""Choosing the bands of a raster that make a picture, and converting their values to 8 bits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import numpy.typing as npt
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.errors import RasterioError
from rasterio.windows import Window

from x2localizer.errors import ImageryError
from x2localizer.sources.imagery.raster_blocks import PICTURE_BANDS, Blocks
from x2localizer.sources.imagery.raster_open import GDAL_ERRORS
from x2localizer.types import Floats, Image

_GDAL_TYPES = {
    "uint8": "Byte",
    "int8": "Int8",
    "uint16": "UInt16",
    "int16": "Int16",
    "uint32": "UInt32",
    "int32": "Int32",
    "uint64": "UInt64",
    "int64": "Int64",
    "float32": "Float32",
    "float64": "Float64",
}
_WHOLE_READ_PIXELS = 1 << 20
_WINDOWS_PER_SIDE, _WINDOW_SIDE = 12, 64
"""The stretch is measured on one small read, or on this many windows of this many pixels."""
_STRETCH_PIXELS = 1 << 29
"""Stored pixels that may be decoded for a stretch; a few seconds' work. Files of large blocks get fewer windows."""


@dataclass(frozen=True, slots=True)
class Bands:
    """The bands of a picture, counted from 1.

    ``colours`` is one band (grey) or three (red, green, blue). ``alpha`` is the band that says how much of a pixel is
    data. ``palette`` maps values of the only band to (red, green, blue, alpha).
    """

    colours: tuple[int, ...]
    alpha: int | None
    palette: dict[int, tuple[int, int, int, int]] | None
    dtype: np.dtype[Any]


def choose_bands(dataset: Any) -> Bands:
    """The bands named red, green and blue, otherwise the first three, otherwise the first."""
    try:
        meaning = list(dataset.colorinterp)
    except GDAL_ERRORS as problem:  # GDAL reads the rest of a file's directory only now
        raise ImageryError(f"{dataset.name} is damaged.", "Download or convert it again.") from problem
    alpha = meaning.index(ColorInterp.alpha) + 1 if ColorInterp.alpha in meaning else None
    plain = [band for band in dataset.indexes if band != alpha]
    if not plain:
        raise ImageryError(f"{dataset.name} contains a mask and no picture.", "Use the file with the picture.")
    primary = (ColorInterp.red, ColorInterp.green, ColorInterp.blue)
    if all(colour in meaning for colour in primary):
        colours = tuple(meaning.index(colour) + 1 for colour in primary)
    else:
        colours = tuple(plain[:3]) if len(plain) >= 3 else (plain[0],)
    palette = None
    if meaning[colours[0] - 1] == ColorInterp.palette:
        palette = _palette(dataset, colours[0])
        colours = colours[:1]
    kinds = [dataset.dtypes[band - 1] for band in colours]
    unknown = [kind for kind in kinds if kind not in _GDAL_TYPES]  # complex numbers, not all of which exist in numpy
    if unknown:
        raise ImageryError(
            f"{dataset.name} contains {unknown[0]} numbers, which are not a picture.",
            "Convert it to 8-bit colours first: gdal_translate -ot Byte -scale <in> <out.tif>.",
        )
    return Bands(colours, alpha, palette, np.result_type(*kinds))


def needs_view(dataset: Any, bands: Bands) -> bool:
    """Whether the file has to be read through :func:`view_of`: warping takes time for every band."""
    return bands.palette is not None or dataset.count > PICTURE_BANDS or len(set(dataset.dtypes)) > 1


def view_of(dataset: Any, bands: Bands, overview: int | None) -> str:
    """A GDAL virtual raster (XML) that has only the bands of the picture, with palette colours looked up."""
    first = bands.colours[0]
    if bands.palette is not None:
        rasters = [
            _band(name, "Byte", _source(dataset, first, overview, _lookup(bands.palette, channel)))
            for channel, name in enumerate(("Red", "Green", "Blue", "Alpha"))
        ]
    else:
        names = ("Gray",) if len(bands.colours) == 1 else ("Red", "Green", "Blue")
        kind = _GDAL_TYPES[bands.dtype.name]
        rasters = [
            _band(name, kind, _source(dataset, band, overview), dataset.nodata)
            for name, band in zip(names, bands.colours, strict=True)
        ]
        masks = dataset.mask_flag_enums[first - 1]
        if MaskFlags.per_dataset in masks and MaskFlags.nodata not in masks:
            rasters.append(_band("Alpha", "Byte", _source(dataset, f"mask,{first}", overview)))
    place = ", ".join(repr(float(number)) for number in dataset.transform.to_gdal())
    return (
        f'<VRTDataset rasterXSize="{dataset.width}" rasterYSize="{dataset.height}">'
        f"<SRS>{escape(dataset.crs.to_wkt(version='WKT2_2019'))}</SRS>"
        f"<GeoTransform>{place}</GeoTransform>{''.join(rasters)}</VRTDataset>"
    )


def _band(name: str, kind: str, source: str, nodata: float | None = None) -> str:
    """The XML of one band of a view."""
    empty = "" if nodata is None else f"<NoDataValue>{nodata!r}</NoDataValue>"
    return f'<VRTRasterBand dataType="{kind}"><ColorInterp>{name}</ColorInterp>{empty}{source}</VRTRasterBand>'


def _source(dataset: Any, band: int | str, overview: int | None, lookup: str = "") -> str:
    """The XML of the source of a band of a view."""
    name = dataset.files[0] if "://" in dataset.name and dataset.files else dataset.name
    name = str(Path(name).absolute()) if Path(name).exists() else name
    level = f'<OpenOptions><OOI key="OVERVIEW_LEVEL">{overview}</OOI></OpenOptions>'
    kind = "ComplexSource" if lookup else "SimpleSource"
    return (
        f'<{kind}><SourceFilename relativeToVRT="0">{escape(name)}</SourceFilename>'
        f"{'' if overview is None else level}<SourceBand>{band}</SourceBand>{lookup}</{kind}>"
    )


def _lookup(palette: dict[int, tuple[int, int, int, int]], channel: int) -> str:
    """The XML that maps palette values to one of red, green, blue and alpha."""
    return f"<LUT>{','.join(f'{value}:{entry[channel]}' for value, entry in sorted(palette.items()))}</LUT>"


def _palette(dataset: Any, band: int) -> dict[int, tuple[int, int, int, int]]:
    """The colours of a palette; the nodata value is transparent."""
    palette = dict(dataset.colormap(band))
    if dataset.nodata is not None and dataset.nodata in palette:
        palette[int(dataset.nodata)] = (0, 0, 0, 0)
    return palette


@dataclass(frozen=True, slots=True)
class Stretch:
    """A linear map to 8 bits: ``low`` becomes 0 and ``high`` 255; values outside are clipped."""

    low: float
    high: float

    def apply(self, pixels: npt.NDArray[Any]) -> Image:
        """The pixels as rounded 8-bit values."""
        scaled = (pixels.astype(np.float64) - self.low) * (255.0 / (self.high - self.low))
        eight_bits: Image = np.rint(np.clip(scaled, 0.0, 255.0)).astype(np.uint8)
        return eight_bits


def measure_stretch(dataset: Any, colours: tuple[int, ...], blocks: Blocks) -> Stretch:
    """A stretch from the 2nd to the 98th percentile of a small sample of all colours together.

    One stretch for all bands keeps the colours, and one for the whole file keeps its tiles consistent. ``blocks`` are
    those of the file, from which follows how large a sample may be.
    """
    values = [part for part in _samples(dataset, colours, blocks) if part.size]
    if not values:
        return Stretch(0.0, 1.0)
    low, high = (float(limit) for limit in np.percentile(np.concatenate(values), (2.0, 98.0)))
    return Stretch(low, high if high > low else low + 1.0)


def _samples(dataset: Any, colours: tuple[int, ...], blocks: Blocks) -> Iterator[Floats]:
    """Valid values from all over a raster, without reading all of it."""
    width, height = dataset.width, dataset.height
    windows = [Window(0, 0, width, height)]
    if width * height > _WHOLE_READ_PIXELS:
        across, down = min(width, _WINDOW_SIDE), min(height, _WINDOW_SIDE)
        while down > 1 and blocks.pixels(across, down) > _STRETCH_PIXELS:
            down //= 2
        affordable = math.isqrt(int(_STRETCH_PIXELS / blocks.pixels(across, down)))
        per_side = min(max(affordable, 1), _WINDOWS_PER_SIDE)
        windows = [
            Window(int(column), int(row), across, down)
            for row in _even(height - down, per_side)
            for column in _even(width - across, per_side)
        ]
    for window in windows:
        try:
            pixels = dataset.read(colours, window=window, masked=True).compressed().astype(np.float64)
        except RasterioError:  # damaged there; the other windows are enough
            continue
        yield pixels[np.isfinite(pixels)]


def _even(end: int, count: int) -> Floats:
    """Places from 0 to an end, (count,); one alone is in the middle."""
    return np.linspace(0, end, count) if count > 1 else np.array([end / 2])
