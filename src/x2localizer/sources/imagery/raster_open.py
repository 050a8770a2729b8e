"""Opening georeferenced rasters with GDAL, and errors that say what to do when that fails."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rasterio

# GDAL's own errors come through some calls of rasterio, which has no public name for them.
from rasterio._err import CPLE_BaseError
from rasterio.enums import ColorInterp, Resampling
from rasterio.errors import CRSError, NodataShadowWarning, NotGeoreferencedWarning, RasterioError
from rasterio.vrt import WarpedVRT

from x2localizer.errors import ImageryError

GDAL_ERRORS = (RasterioError, CPLE_BaseError)
WEB_MERCATOR = rasterio.CRS.from_epsg(3857)


HTTP_SILENCE_S = 20
"""Seconds to wait for a server that sends nothing. GDAL itself waits for ever and ignores Ctrl-C."""


def gdal_env() -> rasterio.Env:
    """A GDAL environment that logs messages and gives up on silent servers; environment variables take precedence."""
    limits = {
        "GDAL_HTTP_CONNECTTIMEOUT": HTTP_SILENCE_S,
        "GDAL_HTTP_LOW_SPEED_TIME": HTTP_SILENCE_S,
        "GDAL_HTTP_LOW_SPEED_LIMIT": 1,
    }
    return rasterio.Env(**{name: value for name, value in limits.items() if name not in os.environ})


@contextmanager
def quiet_gdal() -> Iterator[None]:
    """:func:`gdal_env` without the warnings that our own errors replace."""
    with gdal_env(), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        warnings.simplefilter("ignore", NodataShadowWarning)
        yield


def open_dataset(path: str, overview: int | None = None) -> Any:
    """Open a file, an address that GDAL knows, or the XML of a virtual raster, or one overview of it."""
    options = {} if overview is None else {"overview_level": overview}
    try:
        with quiet_gdal():
            return rasterio.open(path, **options)
    except (*GDAL_ERRORS, CRSError, OSError, ValueError) as problem:
        raise _cannot_open(path) from problem


def georeferenced(dataset: Any, path: str) -> Any:
    """The raster itself if it is georeferenced, or a rectified view if it is placed by control points.

    GDAL fits a polynomial to control points, which costs a second interpolation.
    """
    if dataset.count == 0:
        layers = ", ".join(dataset.subdatasets[:5])
        raise ImageryError(
            f"{path} contains no picture itself.",
            f"Open one of its layers: {layers}." if layers else "Give a file with an aerial picture.",
        )
    points, points_crs = dataset.gcps
    if dataset.crs is None and points and points_crs is not None:
        return _straightened(dataset, path)
    if dataset.rpcs is not None and dataset.transform.is_identity:
        raise ImageryError(
            f"{path} is a raw satellite scene, placed only by camera coefficients (RPC).",
            f"Orthorectify it first: gdalwarp -rpc -t_srs EPSG:3857 {path} <out.tif>.",
        )
    if dataset.transform.is_identity or dataset.transform.is_degenerate:
        raise ImageryError(
            f"{path} has no georeference.",
            "Keep its world file next to it, or set its corners: gdal_translate -a_srs EPSG:<code> "
            f"-a_ullr <west> <north> <east> <south> {path} <out.tif>.",
        )
    if dataset.crs is None:
        raise ImageryError(
            f"{path} does not state its coordinate system.",
            f"Set it: gdal_edit.py -a_srs EPSG:<code> {path} (for formats other than GeoTIFF: "
            f"gdal_translate -a_srs EPSG:<code> {path} <out.tif>).",
        )
    return dataset


def _straightened(dataset: Any, path: str) -> Any:
    if ColorInterp.palette in dataset.colorinterp:
        raise ImageryError(
            f"{path} is placed by control points and has a palette.",
            f"Warp it first: gdalwarp -t_srs EPSG:3857 {path} <out.tif>.",
        )
    try:
        with quiet_gdal():
            return WarpedVRT(
                dataset,
                crs=WEB_MERCATOR,
                resampling=Resampling.bilinear,
                add_alpha=ColorInterp.alpha not in dataset.colorinterp,
            )
    except (*GDAL_ERRORS, CRSError) as problem:
        raise ImageryError(
            f"The control points of {path} do not fit together.",
            f"Check them with gdalinfo {path}, or set the corners with gdal_translate -a_ullr.",
        ) from problem


def is_address(path: str) -> bool:
    """Whether a path is an address that GDAL reads over a network or through a virtual file system."""
    return "://" in path or path.startswith("/vsi")


def no_answer(path: str) -> ImageryError:
    """The error for a server that sends nothing."""
    return ImageryError(
        f"The server behind {path} sent nothing for {HTTP_SILENCE_S} s.",
        "Check the address and the connection, or download the imagery first.",
    )


def _cannot_open(path: str) -> ImageryError:
    name = path if len(path) < 200 else f"{path[:200]}..."
    local = Path(path)
    try:
        exists, size = local.exists(), local.stat().st_size if local.is_file() else 1
    except (OSError, ValueError):  # too long for a file name, or not one at all
        exists, size = False, 1
    if exists and not size:
        return ImageryError(f"{name} is empty.", "Copy or download it again.")
    if exists:
        return ImageryError(
            f"{name} cannot be read as aerial imagery.",
            "Use a GeoTIFF, COG, VRT or MBTiles file or a folder of {z}/{x}/{y} tiles; gdalinfo shows details. "
            "If it is one of these, it is damaged: copy or download it again.",
        )
    if is_address(path):
        return ImageryError(f"{name} cannot be opened.", "Check the address, the connection and your access to it.")
    return ImageryError(f"There is no imagery at {name}.", "Check the path.")
