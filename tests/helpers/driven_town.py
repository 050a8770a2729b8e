"""A drive through the small town: its roads in a gallery, what its sensors say, and where it was."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from x2localizer.gallery import Gallery, index_roads
from x2localizer.localize.follow import follow_record
from x2localizer.localize.track.track_map import TrackMap
from x2localizer.localize.track.tracker import Tracker
from x2localizer.sources.motion import MotionRecord
from x2localizer.sources.tracks import Track
from x2localizer.town.drive import draw_drive
from x2localizer.town.folder import roads_geojson
from x2localizer.town.sensors import sensor_motion
from x2localizer.town.town import Town
from x2localizer.types import Fix


@dataclass(frozen=True, slots=True, eq=False)
class DrivenTown:
    """motion: what wheel and gyroscope say. truth: where the car was, ten times a second."""

    gallery: Gallery
    motion: MotionRecord
    truth: Track

    def follow(self, motion: MotionRecord | None = None) -> list[Fix]:
        """Live fixes on the roads alone, one a second."""
        motion = motion or self.motion
        tracker = Tracker(TrackMap.of(self.gallery), scale_sd=motion.scale_sd, bias_sd_deg_s=motion.bias_sd_deg_s)
        return list(follow_record(tracker, motion))


def write_roads(town: Town, path: Path) -> Path:
    """The roads of a town as a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(roads_geojson(town)))
    return path


def drive_through(town: Town, folder: Path, seed: int = 3, seconds: float = 240.0) -> DrivenTown:
    """A drive with the sensors of a car, and a gallery of the town's roads."""
    drive = draw_drive(town, seed, seconds)
    assert drive is not None
    times = np.arange(0.0, seconds, 0.1)
    lats, lons = town.place.to_degrees(*drive.places(times)[:2])
    return DrivenTown(
        index_roads(write_roads(town, folder / "roads.geojson"), folder / "roads-gallery"),
        sensor_motion(town.seed, drive, times), Track(times, lats, lons, None),
    )  # fmt: skip
