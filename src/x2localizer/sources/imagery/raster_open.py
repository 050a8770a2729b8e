"""Opening georeferenced rasters with GDAL, and errors that say what to do when that fails."""

from __future__ import annotations

import os
import re
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
from x2localizer.sources.imagery.access import LOCAL, Access

GDAL_ERRORS = (RasterioError, CPLE_BaseError)
MOST_BANDS = 1000
"""Of hyperspectral cameras; a damaged file may claim 65,535, and GDAL would decode them all."""
WEB_MERCATOR = rasterio.CRS.from_epsg(3857)
_SERVICES = frozenset({"WMS", "WMTS", "OGCAPI"})
"""GDAL formats whose files only name a server."""

HTTP_SILENCE_S = 20
"""Seconds to wait for a server that sends nothing. GDAL itself waits for ever and ignores Ctrl-C."""
HTTP_RETRIES = 3
"""How often a server that is overloaded (503 and the like) is asked again, after 0.5 s, 1 s, 2 s, ..."""


def gdal_env(access: Access = LOCAL) -> rasterio.Env:
    """A GDAL environment that logs messages and keeps to what it may reach.

    It gives up on silent servers, and asks again where one is busy; environment variables take precedence in that.
    """
    options = {
        "GDAL_HTTP_CONNECTTIMEOUT": HTTP_SILENCE_S,
        "GDAL_HTTP_LOW_SPEED_TIME": HTTP_SILENCE_S,
        "GDAL_HTTP_LOW_SPEED_LIMIT": 1,
        "GDAL_HTTP_MAX_RETRY": HTTP_RETRIES,
        "GDAL_HTTP_RETRY_DELAY": 0.5,
        **_s3_options(),
    }
    wanted = {name: value for name, value in options.items() if name not in os.environ}
    return rasterio.Env(**{**wanted, **access.gdal_options()})


def _s3_options() -> dict[str, str]:
    """GDAL's names for the endpoint in AWS_ENDPOINT_URL; it reads the other AWS variables by itself."""
    scheme, found, host = os.environ.get("AWS_ENDPOINT_URL", "").partition("://")
    if not found:
        return {}
    return {
        "AWS_S3_ENDPOINT": host.rstrip("/"), "AWS_HTTPS": "NO" if scheme == "http" else "YES",
        "AWS_VIRTUAL_HOSTING": "FALSE",
    }  # fmt: skip


@contextmanager
def quiet_gdal(access: Access = LOCAL) -> Iterator[None]:
    """:func:`gdal_env` without the warnings that our own errors replace."""
    with gdal_env(access), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        warnings.simplefilter("ignore", NodataShadowWarning)
        yield


def open_dataset(path: str, overview: int | None = None, access: Access = LOCAL) -> Any:
    """Open a file, an address that GDAL knows, or the XML of a virtual raster, or one overview of it."""
    options = {} if overview is None else {"overview_level": overview}
    try:
        with quiet_gdal(access):
            return rasterio.open(_for_gdal(path), **options)
    except (*GDAL_ERRORS, CRSError, OSError, ValueError) as problem:
        raise _cannot_open(path) from problem


def _for_gdal(path: str) -> str:
    """A path as GDAL reads it; rasterio would ask for boto3 to open s3:// addresses."""
    return f"/vsis3/{path.removeprefix('s3://')}" if path.startswith("s3://") else path


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
    if dataset.count > MOST_BANDS:
        raise ImageryError(
            f"{path} has {dataset.count:,} bands, more than {MOST_BANDS:,}.", "Write its visible bands to a file."
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


def without_secrets(address: str) -> str:
    """An address without a password in it, and without the query if that is signed."""
    plain = re.sub(r"//[^/?#]*@", "//", address)
    start, mark, query = plain.partition("?")
    signed = "://" in start and re.search(r"(?i)(sig(nature)?|token|key|credential|password)[^&=]*=", query)
    return start if mark and signed else plain


def has_remote_data(path: str, driver: str) -> bool:
    """Whether pixels of a file come over a network: an address, a map service, or a virtual raster of addresses."""
    if is_address(path) or driver in _SERVICES:
        return True
    if driver != "VRT":
        return False
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace") if Path(path).is_file() else path
    except OSError:
        return False
    return re.search(r"/vsi(curl|s3|gs|az|swift|oss|webhdfs)|https?://[^<]*</SourceFilename|>s3://", text) is not None


def server_failed(path: str) -> ImageryError:
    """The error for a server that does not deliver what it did before."""
    return ImageryError(
        f"Part of {without_secrets(path)} could not be read: the server failed, or the file is damaged there.",
        "Run the same command again when the server is back; what takes long resumes. If it fails again, "
        "download the imagery first.",
    )


def no_answer(path: str) -> ImageryError:
    """The error for a server that sends nothing, or nothing that can be read."""
    return ImageryError(
        f"The server behind {without_secrets(path)} sent nothing for {HTTP_SILENCE_S} s, or no pictures.",
        "Check the address and the connection, or download the imagery first.",
    )


def _cannot_open(path: str) -> ImageryError:
    name = without_secrets(path)
    name = name if len(name) < 200 else f"{name[:200]}..."
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
