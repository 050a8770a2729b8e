"""One town of a dataset: its pictures on disk, and the rows of its tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from x2localizer import geo
from x2localizer.config import DatasetSettings, SplitSettings
from x2localizer.datasets.media import write_pictures
from x2localizer.datasets.motion import motion_path, write_film, write_record
from x2localizer.datasets.tables import FrameRow, RegionRow, Row, VideoRow, to_table, write_table
from x2localizer.files import write_text
from x2localizer.sources.imagery import write_geotiff
from x2localizer.town.drive import FOV_DEG, Drive, draw_drive, open_film, region_bounds, with_camera
from x2localizer.town.folder import roads_geojson
from x2localizer.town.noise import stream
from x2localizer.town.place import ZOOM, core_regions
from x2localizer.town.sensors import sensor_motion
from x2localizer.town.town import Town, build_town, crop_region, crop_square, georeference, paint_town, shrink
from x2localizer.town.weather import start_time
from x2localizer.types import Floats, Image, Region

PARTS = "parts"


@dataclass(frozen=True, slots=True)
class Job:
    """One town of a split."""

    split: str
    seed: int
    settings: SplitSettings

    @property
    def name(self) -> str:
        """The name of the job and of its part on disk."""
        return f"{self.split}-{self.seed}"


def make_part(settings: DatasetSettings, out: Path, job: Job) -> str:
    """Build one town and write its regions, videos and frames; returns the name of the part."""
    town = build_town(job.seed, settings.town)
    aerial = paint_town(town)
    part = _Part(settings, out, job, town, aerial)
    if job.settings.grid:
        part.add_imagery()
        for number, region in enumerate(core_regions(town.place, settings.region_tiles)):
            for drive in range(job.settings.videos_per_region):
                part.add_clip(region, number * 100 + drive)
    else:
        part.add_scattered()
    for number in range(job.settings.long_drives_per_town):
        part.add_long(number)
    part.finish()
    return job.name


class _Part:
    """Collects the rows of one town and writes its media."""

    def __init__(self, settings: DatasetSettings, out: Path, job: Job, town: Town, aerial: Image) -> None:
        self.settings, self.out, self.job, self.town, self.aerial = settings, out, job, town, aerial
        self.rows: dict[str, list[Row]] = {"regions": [], "videos": [], "frames": []}
        self.known: set[Region] = set()
        self.area = f"town{job.seed}"

    def add_imagery(self) -> None:
        """Write the town's aerial picture at the resolution of the dataset's tiles as a GeoTIFF, and its roads."""
        write_text(self.out / "roads" / self.job.split / f"{self.area}.geojson", json.dumps(roads_geojson(self.town)))
        west, north, pixel = georeference(self.town)
        factor = self.town.settings.pixels_per_tile // self.settings.tile_px
        write_geotiff(
            self.out / "imagery" / self.job.split / f"{self.area}.tif", shrink(self.aerial, factor),
            crs="EPSG:3857", west=west, north=north, pixel=pixel * factor, tags={"town": str(self.job.seed)},
        )  # fmt: skip

    def add_scattered(self) -> None:
        """Add videos with one region each, anywhere in the town."""
        rng = stream(self.job.seed, "scatter")
        free = self.town.place.tiles - 2 - self.settings.region_tiles
        made = 0
        for number in range(4 * self.job.settings.videos_per_town):
            x, y = (int(v) for v in rng.integers(1, free + 2, 2))
            region = Region(ZOOM, self.town.place.x + x, self.town.place.y + y, self.settings.region_tiles)
            made += self.add_clip(region, number)
            if made == self.job.settings.videos_per_town:
                break

    def add_clip(self, region: Region, number: int) -> bool:
        """Add one video inside a region; returns False if no road there is long enough."""
        last = (self.settings.keyframes - 1) * self.settings.keyframe_spacing_s
        rng = stream(self.job.seed, "clip", number)
        night = bool(rng.uniform() < self.job.settings.night_share)
        bounds = region_bounds(self.town, region)
        drive = draw_drive(self.town, number, last, bounds, night=night, fair=self.settings.fair)
        if drive is None:
            return False
        if self.settings.varied_cameras and rng.uniform() < self.settings.varied_cameras:
            drive = with_camera(drive, rng)
        times = np.arange(0.0, last + 1e-6, self.settings.frame_spacing_s)
        video_id = f"{self.area}-{number:04d}"
        start = start_time(drive.conditions, stream(self.job.seed, "clock", number))
        self._add_video(video_id, video_id, "clip", self._add_region(region), drive, times, start)
        return True

    def add_long(self, number: int) -> None:
        """Add one long drive that leaves its first region; every second has a gap, every fourth is at night."""
        rng = stream(self.job.seed, "long", number)
        longest = self.settings.longest_gap_s
        gap = float(rng.uniform(min(20.0, longest), longest)) if number % 2 else 0.0
        total = self.settings.long_drive_s + gap
        regions = core_regions(self.town.place, self.settings.region_tiles)
        for attempt in range(40):
            drive = draw_drive(
                self.town, 50_000 + number * 100 + attempt, total, night=number % 4 == 2, fov_deg=self._fov_deg(number)
            )
            if drive is None or drive.route.length_m < 5.0 * total:
                continue
            times = np.arange(0.0, total + 1e-6, self.settings.frame_spacing_s)
            visited = self._visited(drive, times, regions)
            if visited is not None and len(set(visited)) > 1:
                break
        else:
            return
        start = start_time(drive.conditions, stream(self.job.seed, "clock", 50_000 + number))
        ride = f"{self.area}-ride{number:02d}"
        cut = 0.5 * self.settings.long_drive_s
        pieces = [times] if not gap else [times[times <= cut], times[times >= cut + gap]]
        for k, piece in enumerate(pieces):
            first = visited[int(np.searchsorted(times, piece[0]))]
            self._add_video(f"{ride}-{k}", ride, "long", self._add_region(first), drive, piece, start)
            video = self.rows["videos"][-1]
            assert isinstance(video, VideoRow)
            self._add_motion(video, drive, piece)

    def _fov_deg(self, number: int) -> float:
        """The field of view of a long drive's camera: the usual one or, if asked for, another on every second drive."""
        if not self.settings.other_cameras or number % 2 == 0:
            return FOV_DEG
        return float(stream(self.job.seed, "camera", number).uniform(45.0, 95.0))

    def _add_motion(self, video: VideoRow, drive: Drive, times: Floats) -> None:
        """Write what the car's sensors say, and film the drive for odometry if the settings ask for it."""
        record = sensor_motion(self.town.seed, drive, times)
        write_record(motion_path(self.out, video, "sensors"), record)
        s = self.settings
        if s.film_fps:
            film = open_film(self.town, drive, s.film_height, s.film_width)
            at = np.arange(0.0, times[-1] - times[0] + 1e-6, 1.0 / s.film_fps)
            pictures = (film.image(float(times[0] + t)) for t in at)
            write_film(self.out, video, at, pictures, drive.fov_deg)

    def _visited(self, drive: Drive, times: Floats, regions: list[Region]) -> list[Region] | None:
        """The region of the grid at each time; None if the drive leaves the grid."""
        lats, lons = self.town.place.to_degrees(*drive.places(times)[:2])
        inside = np.array([geo.region_contains(region, lats, lons) for region in regions])
        return [regions[int(k)] for k in inside.argmax(0)] if inside.any(0).all() else None

    def _add_region(self, region: Region) -> str:
        region_id = f"{self.area}-{region.x}-{region.y}"
        if region not in self.known:
            self.known.add(region)
            picture = crop_region(self.town, self.aerial, region, self.settings.tile_px)
            (place,) = write_pictures(
                self.out, f"regions/{self.job.split}/{region_id}.jpg", [picture], self.settings.jpeg_quality
            )
            middle = geo.region_centre(region)
            self.rows["regions"].append(
                RegionRow(region_id, self.job.split, self.area, region.z, region.x, region.y, region.n,
                          middle.lat_deg, middle.lon_deg, place.path, 0, 0)
            )  # fmt: skip
        return region_id

    def _add_video(
        self, video_id: str, ride_id: str, role: str, region_id: str, drive: Drive, times: Floats, start: datetime
    ) -> None:
        """Render the frames of a drive at some times, cut the tiles, and add the rows."""
        s = self.settings
        film = open_film(self.town, drive, s.frame_height, s.frame_width)
        x, y, heading = drive.places(times)
        lats, lons = self.town.place.to_degrees(x, y)
        speeds = drive.speeds(times)
        images = write_pictures(
            self.out, f"frames/{self.job.split}/{video_id}.mjpeg", (film.image(float(t)) for t in times), s.jpeg_quality
        )
        tiles = write_pictures(
            self.out, f"tiles/{self.job.split}/{video_id}.mjpeg",
            (
                crop_square(self.town, self.aerial, float(a), float(b), s.tile_px, s.tile_margin_px)
                for a, b in zip(x, y, strict=True)
            ),
            s.jpeg_quality,
        )  # fmt: skip
        own = times - times[0]
        every = round(s.keyframe_spacing_s / s.frame_spacing_s)
        keys = [k // every if k % every == 0 else -1 for k in range(len(times))]
        self.rows["frames"] += [
            FrameRow(video_id, k, float(own[k]), float(lats[k]), float(lons[k]), float(np.degrees(heading[k]) % 360),
                     float(speeds[k]), keys[k], image.path, image.offset, image.length,
                     tile.path, tile.offset, tile.length)
            for k, (image, tile) in enumerate(zip(images, tiles, strict=True))
        ]  # fmt: skip
        c = drive.conditions
        self.rows["videos"].append(
            VideoRow(video_id, self.job.split, role, self.area, ride_id, region_id,
                     start + timedelta(seconds=float(times[0])), float(own[-1]), len(times),
                     max(keys) + 1, c.season, c.weather, c.daytime)
        )  # fmt: skip

    def finish(self) -> None:
        """Write the part's tables, and at last the file ``done``."""
        folder = self.out / PARTS / self.job.name
        for name, rows in self.rows.items():
            write_table(folder / f"{name}.parquet", to_table(name, rows))
        write_text(folder / "done", "")
