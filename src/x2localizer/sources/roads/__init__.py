"""Road centre lines from OpenStreetMap, GeoPackage, Shapefile, GeoJSON and FlatGeobuf files."""

from x2localizer.sources.roads.read import ROAD_SUFFIXES, read_roads, road_batches
from x2localizer.sources.roads.roads import RoadKind, Roads

__all__ = ["ROAD_SUFFIXES", "RoadKind", "Roads", "read_roads", "road_batches"]
