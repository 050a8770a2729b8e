"""What imagery may reach: by default its own folder, and nothing on the network.

A description such as a VRT names other files or servers, and GDAL reads whatever it names: any file of the machine, or
a server that never answers. So descriptions are read by us first. What they name has to be in the folder of the
imagery, or in one that the user allows; servers need the user's word, too. What only GDAL understands is checked after
it has opened the file and before a pixel is read. Without the network GDAL gets a proxy that does not exist, so that
nothing leaves the machine even then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.parsers import expat

from x2localizer.errors import ImageryError

_SERVERS = re.compile(
    r"(?:https?|ftps?|s3|gs|az|adls|abfss?|oss|swift|hdfs|webhdfs|wms|wmts|wcs)://"
    r"|/vsi(?:curl|s3|gs|az|adls|oss|swift|hdfs|webhdfs)",
    re.IGNORECASE,
)
_SERVICES = frozenset({"WMS", "WMTS", "WCS", "OGCAPI", "EEDAI", "EEDA", "PLMOSAIC", "PLSCENES", "DAAS", "HTTP", "NGW"})
"""GDAL formats that are servers."""
_UNCHECKED = frozenset({"GTI", "STACTA", "STACIT"})
"""GDAL formats that name other files where nobody can look them up in advance."""
_ARCHIVE = re.compile(r"^(?:/vsi[a-z0-9_]+/)+\{?([^}]*)\}?")
_OF_A_DRIVER = re.compile(r"<|[A-Za-z0-9_]{2,}:")
"""Sources that only one driver of GDAL understands, such as ``NETCDF:file:layer``."""
_LARGEST = 256 << 20
_DEEPEST_XML, _DEEPEST_FILES = 64, 8
_MOST_FILES = 200_000
_CHUNK = 1 << 20
_NAMES = frozenset({"SourceFilename", "SourceDataset", "Argument", "SourceArray"})
"""Elements of a VRT that may name a file."""
NOWHERE = "http://127.0.0.1:9"
"""A proxy that does not exist: port 9 discards, where anything listens at all."""


@dataclass(frozen=True, slots=True)
class Access:
    """What imagery may reach, and where it is decoded.

    network: servers, whether the imagery is an address or only names one.
    paths: folders whose files descriptions may name, beside the folder that the imagery is in.
    own_process: decode in a second process, so that a crash, a hang or a bomb there is an error here.
    """

    network: bool = False
    paths: tuple[Path, ...] = ()
    own_process: bool = False

    def gdal_options(self) -> dict[str, object]:
        """Options that keep GDAL from the network, unless it is allowed."""
        safe: dict[str, object] = {"GDAL_VRT_ENABLE_PYTHON": "NO"}
        if self.network:
            return safe
        return {**safe, "GDAL_HTTP_PROXY": NOWHERE, "GDAL_HTTPS_PROXY": NOWHERE, "GDAL_HTTP_MAX_RETRY": 0}


LOCAL = Access()
"""Files of the imagery's own folder."""


def is_on_network(address: str) -> bool:
    """Whether an address names a server."""
    return _SERVERS.search(address) is not None


def check_address(address: str, access: Access) -> bool:
    """Refuse an address, or a VRT whose sources are on the network or outside of its folder.

    Returns whether any of it is on the network, where that is allowed.
    """
    if is_on_network(address) and not address.lstrip().startswith("<"):
        _insist_on_network(address, address, access)
        return True
    seen: set[str] = set()
    inline = address.lstrip().startswith("<")
    home = Path.cwd() if inline else Path(address).absolute().parent
    _check_vrt(address if inline else Path(address), address, (home, *access.paths), access, seen, 0)
    return any(map(is_on_network, seen))


def check_dataset(dataset: Any, address: str, access: Access) -> None:
    """Refuse what GDAL has opened if it is a server, or if it is made of files from elsewhere."""
    if dataset.driver.upper() in _SERVICES:
        _insist_on_network(address, f"a server ({dataset.driver})", access)
    if dataset.driver.upper() in _UNCHECKED:
        raise ImageryError(
            f"{address} is a tile index, whose files cannot be checked in advance.",
            "Make a VRT of the same files: gdalbuildvrt <all.vrt> <files>.",
        )
    named, homes = Path(), (Path.cwd(), *access.paths)
    if not address.lstrip().startswith("<"):
        # The first file is the imagery itself, also if it is in an archive.
        named = _place(dataset.files[0] if dataset.files else address).absolute()
        homes = (named.parent, named.resolve().parent, *access.paths)
    for file in dataset.files:
        if is_on_network(file):
            _insist_on_network(address, file, access)
        elif _place(file).absolute() != named:
            _insist_on_folder(address, file, homes)


def _check_vrt(
    file: Path | str, address: str, homes: tuple[Path, ...], access: Access, seen: set[str], depth: int
) -> None:
    """Check the sources of a VRT, and of the VRTs among them."""
    if isinstance(file, Path) and not _is_vrt(file):
        return
    folder = file.absolute().parent if isinstance(file, Path) else Path.cwd()
    for source, relative in _sources(file, address):
        if is_on_network(source):
            _insist_on_network(address, source, access)
            seen.add(source)
            continue
        if "<VRTDataset" in source:  # a VRT inside the VRT
            _check_vrt(source, address, homes, access, seen, _deeper(address, depth))
            continue
        if _OF_A_DRIVER.match(source):
            raise ImageryError(
                f"{address[:200]} names {source[:200]}, which is no plain file.",
                "Convert that layer to a GeoTIFF first: gdal_translate <layer> <out.tif>.",
            )
        path = folder / source if relative else Path(source)
        _insist_on_folder(address, str(path), homes)
        if str(path) in seen:
            continue
        seen.add(str(path))
        if len(seen) > _MOST_FILES:
            raise _unreadable(address, f"it names more than {_MOST_FILES:,} files")
        _check_vrt(path, address, homes, access, seen, _deeper(address, depth))


def _deeper(address: str, depth: int) -> int:
    if depth >= _DEEPEST_FILES:
        raise _unreadable(address, f"VRTs name each other more than {_DEEPEST_FILES} deep")
    return depth + 1


def _is_vrt(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b"<VRTDataset" in file.read(1024)
    except (OSError, ValueError):  # not a file, or not one that can be read: GDAL says so
        return False


def _sources(file: Path | str, address: str) -> Iterator[tuple[str, bool]]:
    """What a VRT names, and whether that counts from its own folder; bounded in size and depth."""
    named: list[tuple[str, bool]] = []
    open_names: list[tuple[str, bool]] = []
    texts: list[list[str]] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(open_names) >= _DEEPEST_XML:
            raise _unreadable(address, f"its elements are nested more than {_DEEPEST_XML} deep")
        relative = {key.lower(): value for key, value in attributes.items()}.get("relativetovrt", "0")
        open_names.append((name, relative.strip() == "1"))
        texts.append([])

    def end(_: str) -> None:
        (name, relative), text = open_names.pop(), "".join(texts.pop()).strip()
        if name in _NAMES and text and (name != "Argument" or "/" in text):
            named.append((text, relative))

    def refuse(*_: object) -> None:
        raise _unreadable(address, "it declares a document type")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = lambda text: texts[-1].append(text) if texts else None
    parser.StartDoctypeDeclHandler = refuse
    try:
        for chunk in _chunks(file, address):
            parser.Parse(chunk, False)
            yield from named
            named.clear()
        parser.Parse(b"", True)
    except expat.ExpatError as problem:
        raise _unreadable(address, f"{problem}") from problem
    yield from named


def _chunks(file: Path | str, address: str) -> Iterator[bytes]:
    if isinstance(file, str):
        yield file.encode()
        return
    try:
        if file.stat().st_size > _LARGEST:
            raise _unreadable(address, f"{file.name} is larger than {_LARGEST >> 20} MB")
        with file.open("rb") as data:
            while chunk := data.read(_CHUNK):
                yield chunk
    except OSError as problem:
        raise _unreadable(address, problem.strerror or str(problem)) from problem


def _insist_on_network(address: str, server: str, access: Access) -> None:
    if not access.network:
        what = "is on the network" if server == address else f"names {server[:200]}, which is on the network"
        raise ImageryError(f"{address[:200]} {what}.", "Allow that with --network, or download the imagery first.")


def _place(path: str) -> Path:
    """A file, or the place of a file in an archive, counted from the archive."""
    archive = _ARCHIVE.match(path)
    return Path(archive[1] if archive else path)


def _insist_on_folder(address: str, path: str, homes: tuple[Path, ...]) -> None:
    """Refuse a file that is in none of some folders; archives count as their file."""
    try:
        place = _place(path).resolve()
        inside = any(place.is_relative_to(home.resolve()) for home in homes)
    except (OSError, ValueError, RuntimeError):  # a loop of links, or no path at all
        inside = False
    if not inside:
        raise ImageryError(
            f"{address[:200]} names {path[:200]}, which is outside of its folder.",
            f"If that is meant, allow it with --allow-path {Path(path).parent}",
        )


def _unreadable(address: str, why: str) -> ImageryError:
    return ImageryError(
        f"The VRT {address[:200]} cannot be read: {why}.", "Make it again: gdalbuildvrt <all.vrt> <files>."
    )
