"""Roads as rows of a gallery's table, in pieces by place.

Each row holds the pieces of roads that begin in one block (a tile of zoom 16, about 600 m at the equator) with the box
around them, so that the roads near a place are found without reading all. A piece knows its road and where it begins in
it: pieces that follow each other are joined again when they are read.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from x2localizer import geo
from x2localizer.gallery.columns import ROADS
from x2localizer.sources.roads import Roads
from x2localizer.sources.roads.roads import bounds_of
from x2localizer.types import Bools, Ints

BLOCK_ZOOM = 16
"""A block of roads is as large as a block of 8 x 8 tiles of zoom 19."""
_KINDS = {"points": "<f8", "sizes": "<i4", "kinds": "i1", "oneway": "u1", "numbers": "<i8", "firsts": "<i4"}
"""The numbers in the binary columns, the same on every machine."""


def to_rows(roads: Roads, source: int, first_number: int = 0) -> pa.Table:
    """Roads as rows of the table; ``first_number`` is the number of the first road in its source."""
    last = roads.starts[1:] - 1
    begins = np.delete(np.arange(len(roads.points_deg)), last)  # the point at which each segment begins
    owner = np.repeat(np.arange(len(roads)), np.diff(roads.starts) - 1)
    x, y = geo.tile_coordinates(roads.points_deg[begins, 0], roads.points_deg[begins, 1], BLOCK_ZOOM)
    blocks = (y.astype(np.int64) << BLOCK_ZOOM) + x.astype(np.int64)
    cut = np.flatnonzero(np.append(True, (np.diff(owner) != 0) | (np.diff(blocks) != 0))) if len(owner) else owner
    points_of = np.diff(np.append(cut, len(owner))) + 1  # points of each piece: one more than its segments
    columns: dict[str, list[object]] = {name: [] for name in ROADS.names}
    order = np.argsort(blocks[cut], kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(blocks[cut][order])) + 1) if len(order) else []:
        road = owner[cut[group]]
        points = roads.points_deg[_ranges(begins[cut[group]], points_of[group])]
        box = bounds_of(points)
        values = {
            "points": points, "sizes": points_of[group], "kinds": roads.kinds[road], "oneway": roads.oneway[road],
            "numbers": road + first_number, "firsts": begins[cut[group]] - roads.starts[road],
        }  # fmt: skip
        columns["source"].append(source)
        columns["id"].append(int(blocks[cut[group[0]]]))
        for name, degrees in zip(("west", "south", "east", "north"), box or (), strict=True):
            columns[name].append(degrees)
        for name, kind in _KINDS.items():
            columns[name].append(np.ascontiguousarray(values[name], kind).tobytes())
    return pa.table(columns, schema=ROADS)


def from_rows(table: pa.Table) -> Roads:
    """Roads from rows of the table, in the order of their files; pieces that follow each other are one road."""
    if not table.num_rows:
        return Roads.join([])
    parts = {name: [np.frombuffer(data, kind) for data in table[name].to_pylist()] for name, kind in _KINDS.items()}
    pieces = {name: np.concatenate(values) for name, values in parts.items()}
    sources = np.repeat(table["source"].to_numpy(), [len(sizes) for sizes in parts["sizes"]])
    sizes = pieces["sizes"].astype(np.int64)
    order = np.lexsort((pieces["firsts"], pieces["numbers"], sources))
    numbers, firsts, sources = pieces["numbers"][order], pieces["firsts"][order].astype(np.int64), sources[order]
    follows: Bools = np.append(
        False,
        (np.diff(numbers) == 0) & (np.diff(sources) == 0) & (firsts[1:] == firsts[:-1] + sizes[order][:-1] - 1),
    )
    begin = (np.cumsum(sizes) - sizes)[order] + follows  # the first point of a following piece is there already
    count = sizes[order] - follows
    heads = np.flatnonzero(~follows)
    starts = np.append((np.cumsum(count) - count)[heads], count.sum())
    points = pieces["points"].reshape(-1, 2)[_ranges(begin, count)]
    return Roads(points, starts, pieces["kinds"][order][heads], pieces["oneway"][order][heads] != 0)


def _ranges(begin: Ints, count: Ints) -> Ints:
    """The numbers begin, begin + 1, ... of several ranges, one after the other."""
    ends = np.cumsum(count)
    ranges: Ints = np.arange(ends[-1] if len(ends) else 0) + np.repeat(begin - (ends - count), count)
    return ranges
