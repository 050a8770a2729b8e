"""Towns and drives on disk, in files that any map or video program opens.

TOWN/town.json   aerial.tif   roads.geojson
TOWN/drives/1/drive.mp4   drive.gpx   drive.json
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import numpy as np

from x2localizer.config import TownSettings, validate
from x2localizer.errors import UserError
from x2localizer.files import read_json, write_text
from x2localizer.sources.imagery import write_geotiff
from x2localizer.sources.tracks import Track, write_gpx
from x2localizer.sources.video import VideoWriter
from x2localizer.town.drive import draw_drive, open_film
from x2localizer.town.noise import stream
from x2localizer.town.town import Town, build_town, georeference, paint_town, tree_count
from x2localizer.town.weather import start_time

NTSC = (Fraction(24000, 1001), Fraction(30000, 1001), Fraction(60000, 1001))
"""The exact rates behind 23.976, 29.97 and 59.94 frames per second."""


def save_town(town: Town, folder: Path) -> None:
    """Write aerial.tif, roads.geojson and town.json; the last has what it takes to build the town again."""
    west, north, pixel = georeference(town)
    write_geotiff(
        folder / "aerial.tif", paint_town(town), crs="EPSG:3857", west=west, north=north, pixel=pixel,
        tags={"town": str(town.seed), "season": town.season},
    )  # fmt: skip
    write_text(folder / "roads.geojson", json.dumps(roads_geojson(town)))
    corner_lat, corner_lon = town.place.to_degrees(
        np.array([0.0, town.place.size_m]), np.array([town.place.size_m, 0.0])
    )
    recipe = {
        "seed": town.seed,
        "settings": town.settings.model_dump(),
        "season": town.season,
        "bounds_deg": [float(v) for v in (corner_lon[0], corner_lat[0], corner_lon[1], corner_lat[1])],
        "metres_per_pixel": town.metres_per_pixel,
        "districts": [district.kind.name for district in town.plan.districts],
        "roads": len(town.plan.roads),
        "boxes": len(town.boxes),
        "trees": tree_count(town),
    }
    write_text(folder / "town.json", json.dumps(recipe, indent=2) + "\n")


def roads_geojson(town: Town) -> dict[str, object]:
    """The centre lines of the roads as GeoJSON."""
    features = []
    for road in town.plan.roads:
        lats, lons = town.place.to_degrees(road.points[:, 0], road.points[:, 1])
        features.append({
            "type": "Feature",
            "geometry": {
                "type": "LineString",
                "coordinates": [[round(float(x), 7), round(float(y), 7)] for x, y in zip(lons, lats, strict=True)],
            },
            "properties": {"arterial": road.arterial, "bridge": road.bridge, "width_m": round(2 * road.half_width, 1)},
        })  # fmt: skip
    return {"type": "FeatureCollection", "features": features}


def load_town(folder: Path) -> Town:
    """Build the town of a folder again, from its town.json."""
    path = folder / "town.json"
    try:
        recipe = read_json(path)
        seed, settings = int(recipe["seed"]), recipe["settings"]
        if not 0 <= seed < 1 << 32:
            raise ValueError("seed out of range")
    except OSError as problem:
        raise UserError(
            f"{folder} is not a town: it has no town.json.", "Build a town first: x2l town build --out DIR"
        ) from problem
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as problem:
        raise UserError(f"{path} is damaged.", f"Build the town again: x2l town build --out {folder}") from problem
    return build_town(seed, validate(TownSettings, settings))


def save_drive(
    town: Town,
    folder: Path,
    seed: int,
    seconds: float,
    *,
    fps: float = 10.0,
    height: int = 216,
    width: int = 384,
    night: bool = False,
    covered_s: tuple[float, float] = (0.0, 0.0),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Film a drive: write drive.mp4, drive.gpx with true positions at 1 Hz, and drive.json.

    Between the two times of ``covered_s`` the lens is covered: the frames are black. ``progress`` is called with the
    frames done and their number.
    """
    drive = draw_drive(town, seed, seconds, night=night)
    if drive is None:
        raise UserError(f"Town {town.seed} has no road for such a drive.", "Try another --seed or fewer --seconds.")
    rate = next((real for real in NTSC if abs(fps - real) < 0.005), Fraction(fps).limit_denominator(1000))
    times = np.arange(max(1, int(seconds * rate))) / float(rate)
    film = open_film(town, drive, height, width)
    start = start_time(drive.conditions, stream(town.seed, "clock", seed))
    with VideoWriter(folder / "drive.mp4", width, height, rate, start) as video:
        for frame in film.frames(times):
            dark = covered_s[0] <= frame.time_s < covered_s[1]
            video.write(np.zeros_like(frame.image) if dark else frame.image, frame.time_s)
            progress(frame.index + 1, len(times))
    every = np.append(np.arange(0.0, seconds, 1.0), seconds)  # the track is as long as the video
    lats, lons = town.place.to_degrees(*drive.places(every)[:2])
    write_gpx(folder / "drive.gpx", Track(every, lats, lons, start), name=f"town {town.seed}, drive {seed}")
    recipe = {
        "town": town.seed, "seed": seed, "seconds": seconds, "fps": float(rate), "height": height, "width": width,
        "length_m": round(float(np.interp(seconds, drive.times_s, drive.distances_m)), 1),
        "conditions": asdict(drive.conditions),
    }  # fmt: skip
    write_text(folder / "drive.json", json.dumps(recipe, indent=2) + "\n")
