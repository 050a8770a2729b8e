"""Recorded drives and imagery made on the spot: straight roads over a field of noise."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from helpers.video_files import HEIGHT, WIDTH, picture
from x2localizer import geo
from x2localizer.sources.imagery import write_geotiff
from x2localizer.sources.video import VideoWriter
from x2localizer.types import Position

SPEED_M_S = 8.0
WEST, SOUTH = 11.5, 48.1
"""Degrees: the corner that drives are counted from."""
_DEGREE_M = 111_195.0


def place(east_m: float, north_m: float) -> Position:
    """A position by its metres from the south-west corner of the city."""
    return Position(SOUTH + north_m / _DEGREE_M, WEST + east_m / _DEGREE_M / math.cos(math.radians(SOUTH)))


def city(path: Path, side_m: float = 6000.0, margin_m: float = 400.0) -> Path:
    """Imagery of a square city, about 4 m per pixel."""
    corner, far = place(-margin_m, side_m + margin_m), place(side_m + margin_m, -margin_m)
    x, y = geo.tile_coordinates(np.array([corner.lat_deg, far.lat_deg]), np.array([corner.lon_deg, far.lon_deg]), 19)
    west, _, east, north = geo.mercator_bounds(float(x[0]), float(y[0]), 19, float(x[1] - x[0]))
    pixels = round((east - west) / 4.0)
    image = np.random.default_rng(3).integers(0, 256, (pixels, pixels, 3), dtype=np.uint8)
    write_geotiff(path, image, crs="EPSG:3857", west=west, north=north, pixel=(east - west) / pixels, tags={})
    return path


def drive(folder: Path, name: str, east_m: float, north_m: float, seconds: int, *, late_s: int = 0) -> tuple[str, Path]:
    """A video and its track: a road due east at 8 m/s from a place where the track starts, the video ``late_s`` later.

    The track goes on for 5 s after the video.
    """
    folder.mkdir(parents=True, exist_ok=True)
    video, track = folder / f"{name}.mp4", folder / f"{name}.csv"
    with VideoWriter(video, WIDTH, HEIGHT, 1) as writer:
        for second in range(seconds):
            writer.write(picture(second))
    rows = ["time_s,lat,lon"]
    for second in range(late_s + seconds + 5):
        here = place(east_m + SPEED_M_S * second, north_m)
        rows.append(f"{second},{here.lat_deg:.9f},{here.lon_deg:.9f}")
    track.write_text("\n".join(rows) + "\n")
    return str(video), track
