"""Datasets of synthetic towns. Every town is written completely or not at all, so that a killed run can resume."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from datetime import datetime, timedelta
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from x2localizer import __version__, geo
from x2localizer.config import DatasetSettings, SplitSettings
from x2localizer.datasets.dataset import MANIFEST
from x2localizer.datasets.media import write_pictures
from x2localizer.datasets.motion import motion_path, write_film, write_record
from x2localizer.datasets.tables import FORMAT, SPLITS, FrameRow, RegionRow, Row, VideoRow, to_table, write_table
from x2localizer.errors import DatasetError
from x2localizer.files import LOCK, only_writer, remove_unfinished, write_text
from x2localizer.sources.imagery import write_geotiff
from x2localizer.town.drive import FOV_DEG, Drive, draw_drive, open_film, region_bounds, with_camera
from x2localizer.town.folder import roads_geojson
from x2localizer.town.noise import stream
from x2localizer.town.place import ZOOM, core_regions, place_for
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


def jobs_of(settings: DatasetSettings) -> list[Job]:
    """The towns of a dataset, small splits first, so that wrong settings show early."""
    jobs = [
        Job(name, getattr(settings, name).first_seed + i, getattr(settings, name))
        for name in ("val", "test", "train")
        for i in range(getattr(settings, name).towns)
    ]
    seeds = [job.seed for job in jobs]
    if len(set(seeds)) < len(seeds):
        raise DatasetError("Two splits share a town.", "Set train, val and test.first_seed further apart.")
    _refuse_shared_ground(jobs, settings.town.tiles)
    return jobs


def _refuse_shared_ground(jobs: list[Job], tiles: int) -> None:
    """Raise if two towns overlap: they are placed at random, so it may happen among hundreds."""
    places = [place_for(job.seed, tiles) for job in jobs]
    for i, a in enumerate(places):
        for k, b in enumerate(places[:i]):
            if abs(a.x - b.x) < tiles and abs(a.y - b.y) < tiles:
                raise DatasetError(
                    f"The towns {jobs[k].name} and {jobs[i].name} would share ground.",
                    "Set another first_seed for one of their splits.",
                )


def make_dataset(
    settings: DatasetSettings,
    out: Path,
    command: str,
    workers: int = 2,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Make a dataset of towns in the folder ``out``, or resume one; returns the folder.

    ``progress`` is called with the number of towns done and the number of all towns.
    """
    fingerprint = hashlib.sha256((settings.model_dump_json() + f"|{FORMAT}").encode()).hexdigest()[:16]
    _refuse_foreign(out, fingerprint)  # before anything is written to the folder
    with only_writer(out):
        return _make(settings, out, command, workers, progress, fingerprint)


def _make(
    settings: DatasetSettings,
    out: Path,
    command: str,
    workers: int,
    progress: Callable[[int, int], None],
    fingerprint: str,
) -> Path:
    _refuse_foreign(out, fingerprint)  # another run may have started before the lock was taken
    jobs = jobs_of(settings)
    if (out / MANIFEST).is_file():
        progress(len(jobs), len(jobs))
        return out
    write_text(out / PARTS / "fingerprint", fingerprint + "\n")
    for name in (PARTS, "frames", "tiles", "regions", "imagery", "roads", "film", "motion"):
        remove_unfinished(out / name)
    missing = [job for job in jobs if not _part_done(out, job)]
    progress(len(jobs) - len(missing), len(jobs))
    for done, _ in enumerate(_run(settings, out, missing, workers), 1):
        progress(len(jobs) - len(missing) + done, len(jobs))
    _join(settings, out, jobs, command, fingerprint)
    return out


def _refuse_foreign(out: Path, fingerprint: str) -> None:
    """Raise if a folder contains other files, or a dataset with another config; changes nothing."""
    stamp, manifest = out / PARTS / "fingerprint", out / MANIFEST
    known = fingerprint
    try:
        if manifest.is_file():
            known = json.loads(manifest.read_text(encoding="utf-8"))["fingerprint"]
        elif stamp.is_file():
            known = stamp.read_text(encoding="utf-8").strip()
        elif out.exists() and any(path.name != LOCK for path in out.iterdir()):
            raise DatasetError(f"{out} contains other files.", "Choose a new folder with --out.")
    except NotADirectoryError as problem:
        raise DatasetError(f"{out} is a file.", "Choose a new folder with --out.") from problem
    except (ValueError, KeyError, TypeError) as problem:
        raise DatasetError(f"{manifest} is damaged.", "Remove it to resume, or choose a new folder.") from problem
    if known != fingerprint:
        raise DatasetError(f"{out} was started with another config.", "Choose a new folder with --out, or remove it.")


def _part_done(out: Path, job: Job) -> bool:
    return (out / PARTS / job.name / "done").is_file()


def _run(settings: DatasetSettings, out: Path, jobs: list[Job], workers: int) -> Iterator[str]:
    """Make the parts in worker processes; yields their names as they are done."""
    if workers <= 1 or len(jobs) <= 1:
        for job in jobs:
            yield make_part(settings, out, job)
        return
    pool = ProcessPoolExecutor(min(workers, len(jobs)), get_context("spawn"), _end_with_parent, (os.getpid(),))
    futures = [pool.submit(make_part, settings, out, job) for job in jobs]
    try:
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool as problem:
        raise DatasetError(
            "A worker was killed, perhaps for lack of memory.", "Run the same command again to resume."
        ) from problem
    finally:  # also on Ctrl-C and if a town fails: no worker may write after the lock is released
        unfinished = [future for future in futures if not future.done()]
        for future in unfinished:
            future.cancel()
        if unfinished:
            for process in list((pool._processes or {}).values()):
                process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def _end_with_parent(parent: int) -> None:
    """Make a worker exit soon after its parent was killed, and leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


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


def _join(settings: DatasetSettings, out: Path, jobs: list[Job], command: str, fingerprint: str) -> None:
    """Join the parts to the tables of the dataset, and write the manifest, which marks it as complete."""
    counts: dict[str, int] = {}
    order = sorted(jobs, key=lambda job: (SPLITS.index(job.split), job.seed))
    for name in ("regions", "videos", "frames"):
        table = pa.concat_tables([pq.read_table(out / PARTS / job.name / f"{name}.parquet") for job in order])
        write_table(out / f"{name}.parquet", table)
        counts[name] = table.num_rows
    manifest = {
        "format": FORMAT,
        "kind": "town",
        "command": command,
        "seeds": {name: [job.seed for job in order if job.split == name] for name in SPLITS},
        "config": settings.model_dump(mode="json"),
        "fingerprint": fingerprint,
        "x2localizer": __version__,
        "counts": counts,
    }
    write_text(out / MANIFEST, json.dumps(manifest, indent=2) + "\n")
    shutil.rmtree(out / PARTS, ignore_errors=True)
