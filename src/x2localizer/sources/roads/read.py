"""Reading road files by GDAL, in batches.

Of OpenStreetMap files the ways with a tag ``highway`` that cars drive on are read; of other files with a column
``highway`` (or ``fclass``, as Geofabrik names it) the same. In a file without such a column every line is a street.
"""

from __future__ import annotations

import bz2
import gzip
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyproj import CRS, Transformer
from pyproj.exceptions import ProjError

from x2localizer.errors import RoadError
from x2localizer.sources.guard import AVAILABLE
from x2localizer.sources.roads.guarded import guarded_batches
from x2localizer.sources.roads.layers import RoadLayer, check_complete, road_layers
from x2localizer.sources.roads.lines import Lines
from x2localizer.sources.roads.roads import RoadKind, Roads
from x2localizer.sources.roads.tags import HIGHWAY_COLUMNS, direction_of, kind_of, other_tags
from x2localizer.sources.roads.wkb import lines_of

ROAD_SUFFIXES = frozenset({".osm", ".pbf", ".gpkg", ".shp", ".geojson", ".geojsonl", ".fgb"})
"""Suffixes of files that contain roads; ``.osm.gz`` and ``.osm.bz2`` are read too."""
LINES_AT_ONCE = 32_768
"""Lines of a batch; some 30 MB while they are decoded."""
_PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_MOST_RATIO, _LEAST_UNPACKED = 100, 64 << 20
"""How many times its size a packed file may unpack to, and bytes that are always fine."""
_PROBLEMS = (RuntimeError, ValueError, OSError, EOFError, pa.ArrowException)
T = TypeVar("T")


def read_roads(path: str | Path, *, layer: str | None = None, own_process: bool = False) -> Roads:
    """All roads of a file, in WGS84.

    layer: which layer of a GeoPackage to read; by default all that hold roads.
    own_process: let GDAL read it in a second process, so that a crash or a hang there is an error here.
    """
    return Roads.join(list(road_batches(path, layer=layer, own_process=own_process)))


def road_batches(
    path: str | Path, *, layer: str | None = None, lines_at_once: int = LINES_AT_ONCE, own_process: bool = False
) -> Iterator[Roads]:
    """The roads of a file, some at a time, so that large files need little memory; a file without any is an error."""
    path = Path(path)
    if not path.is_file():
        found = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise RoadError(f"The road file {path} {found}.", "Give an .osm, .osm.pbf, .gpkg, .shp or .geojson file.")
    read = guarded_batches if own_process and AVAILABLE else file_batches
    with _unpacked(path) as file:
        yield from read(path, file, layer, lines_at_once)


def file_batches(path: Path, file: Path, layer: str | None, lines_at_once: int) -> Iterator[Roads]:
    """The roads of a file that is not packed, in this process; ``path`` is its name in errors."""
    counts = _Counts()
    _guarded(path, lambda: check_complete(path, file))
    for source in _guarded(path, lambda: road_layers(path, file, layer)):
        yield from _layer_batches(path, file, source, lines_at_once, counts)
    if not counts.roads:
        raise counts.nothing_left(path)


class _Counts:
    """What was seen while reading: features, lines, roads, and lines with impossible coordinates."""

    features = lines = roads = dropped = 0

    def nothing_left(self, path: Path) -> RoadError:
        """The error for a file of which no road is left."""
        if not self.features:
            return RoadError(f"{path} is empty: it holds no lines.", "Export the roads of the area again.")
        if self.dropped:
            return RoadError(
                f"{path} has no road with possible coordinates (lines that are not on the map: {self.dropped:,}).",
                "Export it again with its coordinate system, or in WGS84 degrees.",
            )
        if not self.lines:
            return RoadError(f"{path} holds points or areas, not lines.", "Export the centre lines of the roads.")
        return RoadError(
            f"{path} has no road for cars (lines of other kinds: {self.lines:,}).",
            "Export the ways with the tag highway, such as residential or primary.",
        )


@contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """The file itself; a packed one is unpacked into a temporary file."""
    opener = _PACKED.get(path.suffix.lower())
    if opener is None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="x2l-roads-") as folder:
        file = Path(folder) / path.stem
        try:
            most = _LEAST_UNPACKED + _MOST_RATIO * path.stat().st_size
            with opener(path, "rb") as packed, file.open("wb") as plain:
                while chunk := packed.read(1 << 20):
                    plain.write(chunk)
                    if plain.tell() > most:
                        raise RoadError(
                            f"{path} unpacks to more than {_MOST_RATIO} times its size, as no map does.",
                            "Download it again, or unpack it yourself.",
                        )
        except (OSError, EOFError) as problem:
            raise _damaged(path, problem) from problem
        yield file


def _layer_batches(path: Path, file: Path, layer: RoadLayer, size: int, counts: _Counts) -> Iterator[Roads]:
    from pyogrio.raw import open_arrow  # noqa: PLC0415 - GDAL takes a while to load

    to_degrees = _transformer(path, layer)
    opened = open_arrow(file, layer=layer.name, columns=list(layer.columns), batch_size=size, use_pyarrow=True)
    meta, reader = _guarded(path, opened.__enter__)
    try:
        while True:
            batch = _guarded(path, lambda: next(reader, None))
            if batch is None:
                return
            lines = _guarded(path, partial(_lines, batch, meta["geometry_name"], layer, counts))
            roads = lines.to_roads(to_degrees)
            counts.roads, counts.dropped = counts.roads + len(roads), counts.dropped + roads.dropped
            if len(roads) or roads.dropped:
                yield roads
    finally:
        opened.__exit__(None, None, None)


def _lines(batch: pa.RecordBatch, geometry: str, layer: RoadLayer, counts: _Counts) -> Lines:
    """The roads of a batch of features."""
    shapes = batch.column(batch.schema.get_field_index(geometry or "wkb_geometry")).to_pylist()
    columns = {known: batch.column(batch.schema.get_field_index(name)) for name, known in layer.columns.items()}
    classified = any(name in columns for name in HIGHWAY_COLUMNS)
    texts = {name: [_text(value) for value in column.to_pylist()] for name, column in columns.items()}
    lines = Lines()
    for i, shape in enumerate(shapes):
        counts.features += 1
        found = lines_of(shape) if shape else []
        counts.lines += len(found)
        tags = {name: values[i] for name, values in texts.items() if values[i]}
        if found and (kind := kind_of(tags) if classified else RoadKind.STREET) is not None:
            tags = {**other_tags(tags.get("other_tags", "")), **tags}
            if not classified or kind_of(tags) is not None:
                lines.add(found, kind, direction_of(tags))
    return lines


def _text(value: object) -> str:
    return "" if value is None else str(value).strip().lower()


def _transformer(path: Path, layer: RoadLayer) -> Transformer | None:
    """From the coordinates of a layer to longitude and latitude; None if they are that already."""
    if not layer.crs:
        return None  # degrees, as most files without a coordinate system; others are not on the globe, and refused
    try:
        crs = CRS.from_user_input(layer.crs)
        return None if crs == CRS.from_epsg(4326) else Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
    except ProjError as problem:
        raise RoadError(
            f"The coordinate system of {path} cannot be used: {layer.crs[:60]}.", "Convert the file to WGS84 degrees."
        ) from problem


def _guarded(path: Path, work: Callable[[], T]) -> T:
    """The result of some work of GDAL's; its errors become a RoadError, its warnings are dropped."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work()
    except _PROBLEMS as problem:
        raise _damaged(path, problem) from problem


def _damaged(path: Path, problem: Exception) -> RoadError:
    reason = (str(problem).splitlines() or [type(problem).__name__])[0].rstrip(". ")[:200]
    return RoadError(f"{path} is damaged or incomplete: {reason}.", "Download or export it again.")
