"""Road files: every format against the same ways, which ways count, other coordinate systems, and bad files."""

from __future__ import annotations

import bz2
import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyogrio.raw
import pytest
from pyproj import Transformer

from helpers.road_files import Point, Way, osm_text, write_osm, write_pbf
from x2localizer.errors import RoadError
from x2localizer.sources.roads import RoadKind, Roads, read_roads, road_batches
from x2localizer.sources.roads.wkb import lines_of

A, B, C, D = (48.1, 11.5), (48.101, 11.5), (48.101, 11.502), (48.1, 11.502)
WAYS: list[Way] = [
    ([A, B, C], {"highway": "residential", "name": 'A "quoted" name'}),
    ([C, D], {"highway": "primary", "oneway": "yes"}),
    ([D, A], {"highway": "service", "oneway": "-1", "service": "driveway"}),
    ([A, C], {"highway": "footway"}),
    ([B, D], {"railway": "rail"}),
]
EXPECTED = [([A, B, C], RoadKind.STREET, False), ([C, D], RoadKind.MAIN, True), ([A, D], RoadKind.SERVICE, True)]
Rows = list[tuple[list[Point], RoadKind, bool]]


def _rows(roads: Roads, digits: int = 7) -> Rows:
    return [
        (
            [(round(float(lat), digits), round(float(lon), digits)) for lat, lon in roads.line(i)],
            RoadKind(roads.kinds[i]), bool(roads.oneway[i]),
        )
        for i in range(len(roads))
    ]  # fmt: skip


def _line(points: list[Point], to: Transformer | None = None) -> bytes:
    """A line as little-endian WKB."""
    xy = [(lon, lat) if to is None else to.transform(lon, lat) for lat, lon in points]
    return struct.pack(f"<BII{2 * len(xy)}d", 1, 2, len(xy), *(v for pair in xy for v in pair))


def _write(
    path: Path,
    ways: list[Way],
    *,
    driver: str,
    crs: str | None = "EPSG:4326",
    tags: tuple[str, ...] = (),
    **more: object,
) -> Path:
    """Write ways by GDAL, with some of their tags as columns."""
    to = None if crs in (None, "EPSG:4326") else Transformer.from_crs("EPSG:4326", crs, always_xy=True)
    geometry = np.array([_line(list(points), to) for points, _ in ways], object)
    columns = [np.array([way_tags.get(tag) for _, way_tags in ways], object) for tag in tags]
    pyogrio.raw.write(
        path, geometry, columns, list(tags), geometry_type="LineString", crs=crs, driver=driver, **more
    )  # fmt: skip
    return path


def _geojson(path: Path, *features: tuple[dict[str, object], str, object]) -> Path:
    rows = [
        {"type": "Feature", "properties": properties, "geometry": {"type": kind, "coordinates": coordinates}}
        for properties, kind, coordinates in features
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": rows}))
    return path


TAGS = ("highway", "oneway")
FORMATS: dict[str, Callable[[Path], Path]] = {
    "osm": lambda folder: write_osm(folder / "a.osm", WAYS),
    "pbf": lambda folder: write_pbf(folder / "a.osm.pbf", WAYS),
    "gpkg": lambda folder: _write(folder / "a.gpkg", WAYS, driver="GPKG", tags=TAGS),
    "shp": lambda folder: _write(folder / "a.shp", WAYS, driver="ESRI Shapefile", tags=TAGS),
    "geojson": lambda folder: _write(folder / "a.geojson", WAYS, driver="GeoJSON", tags=TAGS),
    "fgb": lambda folder: _write(folder / "a.fgb", WAYS, driver="FlatGeobuf", tags=TAGS, SPATIAL_INDEX="NO"),
    "utm": lambda folder: _write(folder / "a.gpkg", WAYS, driver="GPKG", tags=TAGS, crs="EPSG:32632"),
    "mercator": lambda folder: _write(folder / "a.shp", WAYS, driver="ESRI Shapefile", tags=TAGS, crs="EPSG:3857"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_roads(name: str, tmp_path: Path) -> None:
    roads = read_roads(FORMATS[name](tmp_path))
    assert _rows(roads) == EXPECTED
    assert roads.dropped == 0
    assert roads.points_deg.dtype == np.float64
    assert not roads.points_deg.flags.writeable


def test_packed_files_are_unpacked(tmp_path: Path) -> None:
    text = osm_text(WAYS).encode()
    (tmp_path / "a.osm.bz2").write_bytes(bz2.compress(text))
    (tmp_path / "a.osm.gz").write_bytes(gzip.compress(text))
    (tmp_path / "cut.osm.bz2").write_bytes(bz2.compress(text)[:-20])
    assert _rows(read_roads(tmp_path / "a.osm.bz2")) == EXPECTED
    assert _rows(read_roads(str(tmp_path / "a.osm.gz"))) == EXPECTED
    with pytest.raises(RoadError, match="damaged or incomplete"):
        read_roads(tmp_path / "cut.osm.bz2")


@pytest.mark.parametrize(
    ("tags", "kind"),
    [
        ({"highway": "motorway_link"}, RoadKind.MAIN), ({"highway": "tertiary"}, RoadKind.MAIN),
        ({"highway": "unclassified"}, RoadKind.STREET), ({"highway": "living_street"}, RoadKind.STREET),
        ({"highway": "track"}, RoadKind.SERVICE), ({"highway": "cycleway"}, None), ({"highway": "steps"}, None),
        ({"highway": "path"}, None), ({"highway": "pedestrian"}, None), ({"highway": "construction"}, None),
        ({"waterway": "river"}, None), ({"route": "ferry"}, None), ({"highway": "primary", "route": "ferry"}, None),
        ({"highway": "service", "area": "yes"}, None),
    ],
)  # fmt: skip
def test_only_ways_for_cars_count(tags: dict[str, str], kind: RoadKind | None, tmp_path: Path) -> None:
    roads = read_roads(write_osm(tmp_path / "a.osm", [WAYS[0], ([A, D], tags)]))
    assert roads.kinds.tolist() == [RoadKind.STREET, *([] if kind is None else [kind])]


def test_a_closed_way_is_a_road_unless_it_is_an_area(tmp_path: Path) -> None:
    ring = [A, B, C, D, A]
    ways: list[Way] = [(ring, {"highway": "residential"}), (ring, {"highway": "service", "area": "yes"})]
    assert _rows(read_roads(write_osm(tmp_path / "a.osm", ways))) == [(ring, RoadKind.STREET, False)]


@pytest.mark.parametrize(
    ("tags", "oneway", "turned"),
    [
        ({"oneway": "yes"}, True, False), ({"oneway": "1"}, True, False), ({"oneway": "no"}, False, False),
        ({"oneway": "-1"}, True, True), ({"junction": "roundabout"}, True, False),
        ({"highway": "motorway"}, True, False), ({"highway": "motorway", "oneway": "no"}, False, False),
    ],
)  # fmt: skip
def test_one_way_roads_run_along_their_points(tags: dict[str, str], oneway: bool, turned: bool, tmp_path: Path) -> None:
    roads = read_roads(write_osm(tmp_path / "a.osm", [([A, B, C], {"highway": "residential", **tags})]))
    ((points, _, one),) = _rows(roads)
    assert one == oneway
    assert points == ([C, B, A] if turned else [A, B, C])


def test_geofabriks_columns_are_understood(tmp_path: Path) -> None:
    ways: list[Way] = [
        ([A, B], {"fclass": "residential", "oneway": "T"}), ([B, C], {"fclass": "footway", "oneway": "B"}),
        ([C, D], {"fclass": "track_grade2", "oneway": "B"}), ([D, A], {"fclass": "trunk", "oneway": "F"}),
    ]  # fmt: skip
    roads = read_roads(_write(tmp_path / "a.shp", ways, driver="ESRI Shapefile", tags=("fclass", "oneway")))
    assert _rows(roads) == [
        ([B, A], RoadKind.STREET, True), ([C, D], RoadKind.SERVICE, False), ([D, A], RoadKind.MAIN, True),
    ]  # fmt: skip


def test_without_a_road_class_every_line_is_a_street(tmp_path: Path) -> None:
    path = _geojson(
        tmp_path / "a.geojson",
        ({"width_m": 7.0}, "LineString", [[11.5, 48.1, 520.0], [11.5, 48.101, 521.0]]),
        ({"width_m": 5.0}, "MultiLineString", [[[11.5, 48.1], [11.501, 48.1]], [[11.502, 48.1], [11.503, 48.1]]]),
        ({"width_m": 5.0}, "Point", [11.5, 48.1]),
        ({"oneway": True}, "LineString", [[11.5, 48.1], [11.5, 48.1], [11.5, 48.2]]),
        ({}, "LineString", [[11.5, 48.1], [11.5, 48.1]]),
    )
    assert _rows(read_roads(path)) == [
        ([A, B], RoadKind.STREET, False), ([A, (48.1, 11.501)], RoadKind.STREET, False),
        ([D, (48.1, 11.503)], RoadKind.STREET, False), ([A, (48.2, 11.5)], RoadKind.STREET, True),
    ]  # fmt: skip


def test_impossible_lines_are_dropped_and_counted(tmp_path: Path) -> None:
    path = _geojson(
        tmp_path / "a.geojson", ({}, "LineString", [[11.5, 48.1], [11.5, 48.101]]),
        ({}, "LineString", [[11.5, 48.1], [1e9, 48.101]]), ({}, "LineString", [[0.0, 0.0], [11.5, 48.101]]),
        ({}, "LineString", [[11.5, 89.9], [11.5, 48.101]]),
    )  # fmt: skip
    roads = read_roads(path)
    assert (len(roads), roads.dropped) == (1, 3)
    bad = _geojson(tmp_path / "b.geojson", ({}, "LineString", [[690000.0, 5330000.0], [690100.0, 5330000.0]]))
    with pytest.raises(RoadError, match=r"no road with possible coordinates .*: 1\)"):
        read_roads(bad)


def test_large_files_come_in_batches(tmp_path: Path) -> None:
    ways: list[Way] = [
        ([(48.0 + i * 1e-4, 11.0), (48.0 + i * 1e-4, 11.001)], {"highway": "residential"}) for i in range(50)
    ]
    path = write_osm(tmp_path / "a.osm", ways)
    batches = list(road_batches(path, lines_at_once=7))
    assert [len(batch) for batch in batches] == [7] * 7 + [1]
    assert _rows(Roads.join(batches)) == _rows(read_roads(path))


def test_a_layer_can_be_chosen_and_must_be_clear(tmp_path: Path) -> None:
    path = tmp_path / "a.gpkg"
    _write(path, WAYS[:2], driver="GPKG", layer="streets")
    _write(path, WAYS[2:3], driver="GPKG", layer="rivers", append=True)
    with pytest.raises(RoadError, match=r"several layers of lines, and none says .* 'streets', 'rivers'"):
        read_roads(path)
    assert len(read_roads(path, layer="streets")) == 2
    with pytest.raises(RoadError, match="Did you mean 'streets'"):
        read_roads(path, layer="street")
    _write(path, WAYS, driver="GPKG", layer="classified", tags=TAGS, append=True)
    assert _rows(read_roads(path)) == EXPECTED


def test_bad_files_are_clear_errors(tmp_path: Path) -> None:
    def refuse(match: str, path: Path) -> None:
        with pytest.raises(RoadError, match=match):
            read_roads(path)

    refuse("does not exist", tmp_path / "none.osm")
    refuse("is a folder", tmp_path)
    (tmp_path / "junk.osm").write_text("hello")
    refuse("not a file of roads", tmp_path / "junk.osm")
    (tmp_path / "empty.gpkg").write_text("")
    refuse("not a file of roads", tmp_path / "empty.gpkg")
    refuse("is empty", write_osm(tmp_path / "empty.osm", []))
    refuse("no road for cars", write_osm(tmp_path / "walk.osm", [WAYS[3]]))
    refuse("holds Point, not lines", _geojson(tmp_path / "p.geojson", ({}, "Point", [11.5, 48.1])))
    mixed = _geojson(
        tmp_path / "m.geojson", ({}, "Point", [11.5, 48.1]), ({}, "Polygon", [[[11, 48], [12, 48], [11, 49], [11, 48]]])
    )
    refuse("points or areas, not lines", mixed)
    pyogrio.raw.write(
        tmp_path / "p.shp", np.array([struct.pack("<BIdd", 1, 1, 11.5, 48.1)], object), [], [], geometry_type="Point",
        crs="EPSG:4326", driver="ESRI Shapefile",
    )  # fmt: skip
    refuse("holds Point, not lines", tmp_path / "p.shp")
    (tmp_path / "a.csv").write_text('WKT,id\n"LINESTRING (11 48,11 48.1)",1\n')
    refuse("not", tmp_path / "a.csv")
    (tmp_path / "a.vrt").write_text(
        f'<OGRVRTDataSource><OGRVRTLayer name="a"><SrcDataSource>{tmp_path}/none.shp</SrcDataSource>'
        "<GeometryType>wkbLineString</GeometryType></OGRVRTLayer></OGRVRTDataSource>"
    )
    refuse("not", tmp_path / "a.vrt")


@pytest.mark.parametrize("share", [0.3, 0.7, 0.97])
@pytest.mark.parametrize("name", ["osm", "pbf", "geojson", "gpkg", "fgb"])
def test_a_truncated_file_is_never_taken_for_a_whole_one(name: str, share: float, tmp_path: Path) -> None:
    path = FORMATS[name](tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(RoadError):
        read_roads(path)


@pytest.mark.parametrize("name", ["osm", "pbf", "gpkg", "shp", "fgb", "geojson"])
def test_damaged_bytes_are_an_error_or_roads_but_never_a_crash(name: str, tmp_path: Path) -> None:
    path = FORMATS[name](tmp_path)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(20):
        flipped = np.frombuffer(data, np.uint8).copy()
        flipped[rng.integers(0, len(flipped), 20)] = rng.integers(0, 256, 20)
        path.write_bytes(flipped.tobytes())
        try:
            read_roads(path)
        except RoadError as problem:
            assert str(path) in str(problem)


def test_wkb_of_both_byte_orders_and_all_dimensions() -> None:
    points = [(1.0, 2.0), (3.0, 4.0)]
    for order, mark in (("<", 1), (">", 0)):
        for code, width in ((2, 2), (1002, 3), (2002, 3), (3002, 4), (0x80000002, 3)):
            numbers = [v for x, y in points for v in (x, y, *([9.0] * (width - 2)))]
            data = struct.pack(f"{order}BII{len(numbers)}d", mark, code, 2, *numbers)
            assert [line.tolist() for line in lines_of(data)] == [[[1.0, 2.0], [3.0, 4.0]]]
            several = struct.pack(f"{order}BII", mark, code + 3, 2) + data + data
            assert len(lines_of(several)) == 2
            with pytest.raises(ValueError, match="too early"):
                lines_of(several[:-1])
    assert lines_of(struct.pack("<BIdd", 1, 1, 1.0, 2.0)) == []


def test_lines_that_are_nested_without_end_are_damage() -> None:
    with pytest.raises(ValueError, match="nested"):
        lines_of(struct.pack("<BII", 1, 5, 1) * 5000)
