"""Columns of the tables that compiled kernels read, by name: ``boxes[i, BOX.eaves]``.

Kernels take plain arrays, one row per thing. The names are integers that numba freezes at compile time, so reading a
column by its name costs nothing. Lengths are metres, places map metres (x east, y south), colours 0 to 255.
"""

from __future__ import annotations

from typing import NamedTuple

X, Y = range(2)
"""Columns of points."""
RED, GREEN, BLUE = range(3)
"""Channels of colours and pictures."""


class BoxColumns(NamedTuple):
    """A box: an upright block with a rectangular footprint."""

    x: int  # centre of the footprint
    y: int
    axis_x: int  # unit vector along the footprint; the ridge of a pitched roof runs this way
    axis_y: int
    half_length: int  # along the axis
    half_width: int  # across the axis
    bottom: int  # above ground, as the next two
    eaves: int
    ridge: int  # as high as the eaves if the roof is flat
    kind: int  # see BUILDING and its siblings
    wall_red: int
    wall_green: int
    wall_blue: int
    roof_red: int
    roof_green: int
    roof_blue: int
    storey: int  # height of a storey
    bay: int  # distance between windows
    style: int  # of the windows; see WINDOW_STYLES
    seed: int


class TreeColumns(NamedTuple):
    """A tree: a crown on a trunk. Lamp posts are trees of shape POLE."""

    x: int
    y: int
    crown: int  # radius
    middle: int  # height of the crown's middle above ground
    half_height: int  # of the crown
    trunk: int  # radius
    shape: int  # see ROUND and its siblings
    leaf_red: int
    leaf_green: int
    leaf_blue: int
    seed: int


class RoadColumns(NamedTuple):
    """A road between two junctions, a and b."""

    half_width: int  # of the asphalt
    marking: int  # see NO_MARKING and its siblings
    length: int
    clear_a: int  # without markings at a, where the junction takes over
    clear_b: int
    pavement: int  # width of the sidewalk on either side
    arterial: int  # 0 or 1
    bridge: int  # 0 or 1


class SegmentColumns(NamedTuple):
    """A straight piece of a road's polyline."""

    x0: int
    y0: int
    x1: int
    y1: int
    start: int  # distance along the road at (x0, y0)
    half_width: int  # of the asphalt
    road: int  # index of the road


class WaveColumns(NamedTuple):
    """A wave of the field that bends the plan: it moves points by sin(vector . point + phase) times the shift."""

    vector_x: int  # radians per metre
    vector_y: int
    phase: int  # radians
    shift_x: int
    shift_y: int


BOX = BoxColumns(*range(20))
TREE = TreeColumns(*range(11))
ROAD = RoadColumns(*range(8))
SEGMENT = SegmentColumns(*range(7))
WAVE = WaveColumns(*range(5))
