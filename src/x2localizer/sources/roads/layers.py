"""Which layers of a file hold roads, and whether an OpenStreetMap file is complete."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from x2localizer.errors import RoadError, nearest
from x2localizer.sources.roads.tags import COLUMNS, HIGHWAY_COLUMNS

DRIVERS = ("OSM", "GPKG", "ESRI Shapefile", "GeoJSON", "GeoJSONSeq", "FlatGeobuf")
"""Formats that are read. GDAL knows more, but some of them open further files or servers that they name."""
_STARTS = (b"SQLite format 3\0", b"\0\0\x27\x0a", b"fgb\x03", b"{", b"[")
"""First bytes of a GeoPackage, a Shapefile, a FlatGeobuf file and JSON."""
_BLANKS = b"\xef\xbb\xbf\x1e \t\r\n"
"""What may come before JSON: a byte order mark, the separator of sequences, white space."""
_NO_NETWORK = {
    "GDAL_HTTP_PROXY": "http://127.0.0.1:9", "GDAL_HTTPS_PROXY": "http://127.0.0.1:9", "GDAL_HTTP_MAX_RETRY": 0,
}  # fmt: skip
"""A proxy that does not exist: a file may name a server in its coordinate system, too."""


@dataclass(frozen=True, slots=True)
class RoadLayer:
    """A layer that holds roads.

    columns: names of the columns that say something about a road, and the tags that they stand for.
    crs: its coordinate system as GDAL names it; None if the file does not say.
    """

    name: str
    columns: dict[str, str]
    crs: str | None


def road_layers(path: Path, file: Path, wanted: str | None = None) -> list[RoadLayer]:
    """The layers of a file to read: those with a road class, else the only one with lines."""
    from pyogrio import list_layers, read_info, set_gdal_config_options  # noqa: PLC0415 - GDAL takes a while to load
    from pyogrio.errors import DataSourceError  # noqa: PLC0415

    _check_format(path, file)
    set_gdal_config_options(_NO_NETWORK)
    try:
        kinds = {str(name): str(kind) for name, kind in list_layers(file)}
        infos = {name: read_info(file, layer=name) for name in _chosen(path, kinds, wanted)}
    except DataSourceError as problem:
        raise _unknown(path) from problem
    if any(info["driver"] not in DRIVERS for info in infos.values()):
        raise RoadError(f"{path} is not in a format for roads.", "Convert it to GeoPackage: ogr2ogr roads.gpkg FILE")
    layers = [RoadLayer(name, _columns(info["fields"]), info["crs"]) for name, info in infos.items()]
    classified = [layer for layer in layers if any(tag in HIGHWAY_COLUMNS for tag in layer.columns.values())]
    if len(layers) > 1 and not classified:
        names = ", ".join(f"'{layer.name}'" for layer in layers[:10])
        raise RoadError(
            f"{path} has several layers of lines, and none says which lines are roads: {names}.",
            "Export the layer of roads alone, or name its column of road classes 'highway'.",
        )
    return classified or layers


def _check_format(path: Path, file: Path) -> None:
    """Refuse other formats by their first bytes: GDAL would open whatever a file of them names, to list its layers."""
    with file.open("rb") as data:
        head = data.read(512)
    is_osm = b"<osm" in head or b"OSMHeader" in head
    if head and not is_osm and not head.startswith(_STARTS) and not head.lstrip(_BLANKS).startswith((b"{", b"[")):
        raise _unknown(path)


def _unknown(path: Path) -> RoadError:
    return RoadError(
        f"{path} is not a file of roads that can be read.",
        "Give a complete .osm, .osm.pbf, .gpkg, .shp or .geojson file; ogr2ogr converts others.",
    )


def _chosen(path: Path, kinds: dict[str, str], wanted: str | None) -> list[str]:
    if wanted is not None:
        if wanted not in kinds:
            raise RoadError(f"{path} has no layer '{wanted}'.", nearest(wanted, kinds))
        return [wanted]
    if {"lines", "multilinestrings", "other_relations"} <= set(kinds):  # as GDAL shows OpenStreetMap
        return ["lines"]
    chosen = [name for name, kind in kinds.items() if "LineString" in kind or kind.startswith("Unknown")]
    if not chosen:
        shapes = ", ".join(sorted(set(kinds.values()) - {"None"})) or "no shapes"
        raise RoadError(f"{path} holds {shapes}, not lines.", "Export the centre lines of the roads.")
    return chosen


def _columns(fields: list[str]) -> dict[str, str]:
    """Columns by name with the tag that each stands for."""
    return {str(name): str(name).lower() for name in fields if str(name).lower() in COLUMNS}


def check_complete(path: Path, file: Path) -> None:
    """Refuse an OpenStreetMap file that ends too early, of which GDAL reads what there is without a word."""
    with file.open("rb") as data:
        head = data.read(512)
        size = data.seek(0, os.SEEK_END)
        if b"<osm" in head:
            data.seek(max(0, size - 256))
            complete = data.read().rstrip(b" \r\n\t\0").endswith(b"</osm>")
        elif b"OSMHeader" in head:
            complete = _blocks_end(data, size) == size
        else:
            return
    if not complete:
        raise RoadError(f"{path} is incomplete: it ends in the middle.", "Download or export it again.")


def _blocks_end(data: BinaryIO, size: int) -> int:
    """Where the last block of a .pbf file ends: each has the length of its header, the header, and its content."""
    at = 0
    while at + 4 <= size:
        data.seek(at)
        (length,) = struct.unpack(">I", data.read(4))
        content = _content_size(data.read(min(length, 1 << 16)))
        if not content:
            break
        at += 4 + length + content
    return at


def _content_size(header: bytes) -> int:
    """The field ``datasize`` of a block's header: number 3, a variable-length integer; 0 if it is not there."""
    at = 0
    while at < len(header):
        field, at = _varint(header, at)
        value, at = _varint(header, at)
        if field == 3 << 3:
            return value
        at += value if field & 7 == 2 else 0  # text and bytes
    return 0


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 128:
            break
    return value, at
