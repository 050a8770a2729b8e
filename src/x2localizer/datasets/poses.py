"""How the cameras of a video stand to each other: relative poses, without a place or a compass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from x2localizer.datasets.tables import FrameRow
from x2localizer.types import Floats

METRES_PER_DEGREE = 111_320.0


def relative_poses(frames: Sequence[FrameRow]) -> Floats:
    """Poses of the frames as the camera of the first one sees them, (s, 3): metres right, metres ahead, turn.

    The turn is in radians clockwise. Where a frame has no heading, the direction of travel stands for it. What is left
    out, place and compass direction of the first camera, is what a localizer is asked for.
    """
    lat = np.array([row.lat_deg for row in frames])
    lon = np.array([row.lon_deg for row in frames])
    north = (lat - lat[0]) * METRES_PER_DEGREE
    east = ((lon - lon[0] + 180.0) % 360.0 - 180.0) * METRES_PER_DEGREE * np.cos(np.radians(lat[0]))
    heading = np.array([np.nan if row.heading_deg is None else row.heading_deg for row in frames], np.float64)
    heading = np.where(np.isnan(heading), _travel(east, north), np.radians(heading))
    turn = (heading - heading[0] + np.pi) % (2 * np.pi) - np.pi
    right = east * np.cos(heading[0]) - north * np.sin(heading[0])
    ahead = east * np.sin(heading[0]) + north * np.cos(heading[0])
    return np.stack([right, ahead, turn], 1)


def _travel(east: Floats, north: Floats) -> Floats:
    """Directions of travel in radians clockwise from north, (s,); 0 for a camera that never moves."""
    if len(east) < 2:
        return np.zeros(len(east))
    return np.arctan2(np.gradient(east), np.gradient(north))
