"""Your own drives as a dataset: videos with recorded tracks, and imagery under them.

Each video is cut into clips of 8 keyframes. A clip gets the region of whole tiles whose middle is nearest to the middle
of its track. Train, validation and test never share ground. Clips that cannot be used are left out and counted.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from math import ceil
from pathlib import Path

import numpy as np

from x2localizer import __version__, geo
from x2localizer.config import DatasetSettings
from x2localizer.datasets.dataset import MANIFEST
from x2localizer.datasets.ground import split_ground
from x2localizer.datasets.media import write_pictures
from x2localizer.datasets.tables import (
    FORMAT,
    SCHEMAS,
    SPLITS,
    FrameRow,
    RegionRow,
    Row,
    VideoRow,
    to_table,
    write_table,
)
from x2localizer.errors import DatasetError
from x2localizer.files import holds_other_files, only_writer, write_text
from x2localizer.sources.imagery import Access, Imagery, open_imagery
from x2localizer.sources.imagery.access import LOCAL
from x2localizer.sources.tracks import Track, read_track
from x2localizer.sources.video import open_video
from x2localizer.types import Frame, Position, Region

NO_DATE = datetime(2000, 1, 1, tzinfo=UTC)
AREA = 64
"""Tiles along the side of an area."""
COVERED = 0.5
"""Share of a region that imagery must cover; otherwise the clip is left out."""
UNFINISHED = ".unfinished"
"""A file that marks a dataset as incomplete."""
TELL_EVERY = 10
"""Clips between two progress messages."""


@dataclass(frozen=True, slots=True)
class RecordedDrive:
    """A video and the track recorded with it.

    ``offset_s`` is the time from the start of the track to the start of the video: 12 for a logger that was switched on
    12 s before the camera.
    """

    video: str
    track: Path
    offset_s: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Clip:
    video_id: str
    ride_id: str
    start: datetime
    frames: list[Frame]
    places: list[Position]
    region: Region


@dataclass(frozen=True, slots=True)
class Prepared:
    """Numbers of clips by split, and of clips left out by reason."""

    clips: dict[str, int]
    left_out: dict[str, int]


def prepare_own(
    drives: Sequence[RecordedDrive],
    imagery: str | Path,
    out: Path,
    settings: DatasetSettings,
    *,
    val: float = 0.15,
    test: float = 0.15,
    zoom: int = 19,
    access: Access = LOCAL,
    progress: Callable[[str], None] = lambda _: None,
) -> Prepared:
    """Make a dataset of recorded drives in the folder ``out``; returns what is in it.

    ``val`` and ``test`` are the shares of clips for validation and testing. ``access`` says what
    the imagery may reach. ``progress`` is called with a line of text.
    """
    if not drives or min(val, test) < 0 or val + test >= 1:
        raise DatasetError(
            "There is nothing to train on.", "Give drives, and shares val and test that sum to less than 1."
        )
    if holds_other_files(out) and not _unfinished(out):
        raise DatasetError(f"{out} contains other files.", "Choose a new folder with --out.")
    with only_writer(out), open_imagery(imagery, access=access) as opened:
        _remove_unfinished(out)
        builder = _OwnBuilder(opened, out, settings, zoom)
        for number, drive in enumerate(drives):
            progress(f"{drive.video}: reading the track and the video")
            builder.look(number, drive, progress)
        split_of = builder.split({"train": 1 - val - test, "val": val, "test": test})
        write_text(out / UNFINISHED, "")
        for number, drive in enumerate(drives):
            progress(f"{drive.video}: writing clips")
            builder.add(number, drive, split_of, progress)
        return builder.finish(str(imagery), [drive.video for drive in drives])


def _unfinished(out: Path) -> bool:
    """Whether a folder contains the files of an interrupted run."""
    return (out / UNFINISHED).is_file() and not (out / MANIFEST).exists()


def _remove_unfinished(out: Path) -> None:
    """Remove the files of an interrupted run; this run may have other drives."""
    if _unfinished(out):
        for name in ("frames", "tiles", "regions"):
            shutil.rmtree(out / name, ignore_errors=True)
        for name in SCHEMAS:
            (out / f"{name}.parquet").unlink(missing_ok=True)
        (out / UNFINISHED).unlink()


def _area(split: str, region: Region) -> str:
    """The area of a region, about 4 km wide and of one split; training draws each batch from few areas."""
    return f"{split}-{region.x // AREA}-{region.y // AREA}"


class _OwnBuilder:
    """Collects the rows of a dataset and writes its media."""

    def __init__(self, imagery: Imagery, out: Path, settings: DatasetSettings, zoom: int) -> None:
        self.imagery, self.out, self.settings, self.zoom = imagery, out, settings, zoom
        self.rows: dict[str, list[Row]] = {"regions": [], "videos": [], "frames": []}
        self.regions: dict[str, Region] = {}
        self.left_out: Counter[str] = Counter()
        self.clips: Counter[str] = Counter()
        self.known: set[str] = set()

    @property
    def _clip_frames(self) -> int:
        """Frames of a clip."""
        s = self.settings
        return (s.keyframes - 1) * round(s.keyframe_spacing_s / s.frame_spacing_s) + 1

    def look(self, number: int, drive: RecordedDrive, progress: Callable[[str], None]) -> None:
        """Collect the regions of a drive's clips."""
        for count, clip in enumerate(self._clips(number, drive, count=True), 1):
            self.regions[clip.video_id] = clip.region
            if count % TELL_EVERY == 0:
                progress(f"{drive.video}: {count} clips read")

    def split(self, shares: dict[str, float]) -> dict[str, str]:
        """The split of each clip, by its id; raises if a split with a share above 0 gets no clips."""
        if not self.regions:
            why = self._left_out() or "no frame could be read"
            raise DatasetError(f"No clip could be made: {why}.", "Check the track's --offset and the imagery's bounds.")
        split_of = split_ground(self.regions, shares)
        if lost := len(self.regions) - len(split_of):
            self.left_out["on ground of another split"] = lost
        got = Counter(split_of.values())
        empty = [name for name, share in shares.items() if share > 0 and not got[name]]
        if empty:
            raise self._too_little(shares, got, empty)
        return split_of

    def _too_little(self, shares: dict[str, float], got: Counter[str], empty: list[str]) -> DatasetError:
        """The error for splits without clips: what there is, and how much more driving is needed at least."""
        s = self.settings
        asked = [name for name, share in shares.items() if share > 0]
        region = next(iter(self.regions.values()))
        apart_m = region.n * geo.tile_size_m(geo.region_centre(region).lat_deg, region.z)
        enough = ceil(1 / min(shares[name] for name in asked) - 1e-9)
        missing = max(enough - len(self.regions), len(empty))
        minutes = ceil(missing * self._clip_frames * s.frame_spacing_s / 60)
        counts = ", ".join(f"{got[name]} {name}" for name in asked)
        left = self._left_out()
        return DatasetError(
            f"{len(self.regions)} clips of {(s.keyframes - 1) * s.keyframe_spacing_s:g} s are too few, or too close "
            f"together, for splits that share no ground: {counts}." + (f" Left out: {left}." if left else ""),
            f"Record at least {minutes} more minute{'s' * (minutes > 1)} of driving, {apart_m:.0f} m or more away from "
            "the other drives. --test 0 leaves out the test split.",
        )

    def _left_out(self) -> str:
        return ", ".join(f"{count} {reason}" for reason, count in self.left_out.items())

    def add(self, number: int, drive: RecordedDrive, split_of: dict[str, str], progress: Callable[[str], None]) -> None:
        """Write the clips of a drive that have a split."""
        for count, clip in enumerate(self._clips(number, drive), 1):
            if clip.video_id in split_of:
                self._write(clip, split_of[clip.video_id])
            if count % TELL_EVERY == 0:
                progress(f"{drive.video}: {count} clips written")

    def _clips(self, number: int, drive: RecordedDrive, count: bool = False) -> Iterator[_Clip]:
        s = self.settings
        track = read_track(drive.track, offset_s=drive.offset_s, own_process=True)
        length = self._clip_frames
        size = (s.frame_height, s.frame_width)
        left = self.left_out if count else Counter[str]()
        with open_video(drive.video, size=size, spacing_s=s.frame_spacing_s, own_process=True) as video:
            start = video.info.start_time or track.start_time or NO_DATE
            k = 0
            while frames := list(islice(video, length)):
                if len(frames) < length:
                    left["shorter than a clip"] += 1
                    break
                clip = self._clip(f"drive{number:03d}-{k:04d}", f"drive{number:03d}", start, frames, track, left)
                k += 1
                if clip is not None:
                    yield clip

    def _clip(
        self, name: str, ride: str, start: datetime, frames: list[Frame], track: Track, left: Counter[str]
    ) -> _Clip | None:
        places = [track.at(frame.time_s) for frame in frames]
        known = [place for place in places if place is not None]
        if len(known) < len(places):
            left["without a recorded position"] += 1
            return None
        lats, lons = np.array([p.lat_deg for p in known]), np.array([p.lon_deg for p in known])
        x, y = geo.tile_coordinates(lats, lons, self.zoom)
        middle = geo.from_tile_coordinates((x.min() + x.max()) / 2, (y.min() + y.max()) / 2, self.zoom)
        region = geo.region_around(Position(float(middle[0]), float(middle[1])), self.zoom, self.settings.region_tiles)
        if not geo.region_contains(region, lats, lons).all():
            left["longer than a region"] += 1
            return None
        if self.imagery.region(region, 8).coverage < COVERED:
            left["without imagery"] += 1
            return None
        return _Clip(name, ride, start + timedelta(seconds=frames[0].time_s), frames, known, region)

    def _write(self, clip: _Clip, split: str) -> None:
        s = self.settings
        r = clip.region
        region_id = f"{split}-{r.x}-{r.y}"
        if region_id not in self.known:
            self.known.add(region_id)
            picture = self.imagery.region(r, s.tile_px).image
            (media,) = write_pictures(self.out, f"regions/{split}/{region_id}.jpg", [picture], s.jpeg_quality)
            middle = geo.region_centre(r)
            self.rows["regions"].append(
                RegionRow(region_id, split, _area(split, r), r.z, r.x, r.y, r.n, middle.lat_deg, middle.lon_deg,
                          media.path, 0, 0)
            )  # fmt: skip
        images = write_pictures(
            self.out, f"frames/{split}/{clip.video_id}.mjpeg", (f.image for f in clip.frames), s.jpeg_quality
        )
        side = s.tile_px + 2 * s.tile_margin_px
        tiles = write_pictures(
            self.out, f"tiles/{split}/{clip.video_id}.mjpeg",
            (self.imagery.square(p, self.zoom, side, side / s.tile_px).image for p in clip.places), s.jpeg_quality,
        )  # fmt: skip
        every = round(s.keyframe_spacing_s / s.frame_spacing_s)
        first = clip.frames[0].time_s
        for k, (frame, place, image, tile) in enumerate(zip(clip.frames, clip.places, images, tiles, strict=True)):
            self.rows["frames"].append(
                FrameRow(clip.video_id, k, frame.time_s - first, place.lat_deg, place.lon_deg, None, None,
                         k // every if k % every == 0 else -1, image.path, image.offset, image.length,
                         tile.path, tile.offset, tile.length)
            )  # fmt: skip
        duration = clip.frames[-1].time_s - first
        self.rows["videos"].append(
            VideoRow(clip.video_id, split, "clip", _area(split, r), clip.ride_id, region_id, clip.start, duration,
                     len(clip.frames), s.keyframes, None, None, None)
        )  # fmt: skip
        self.clips[split] += 1

    def finish(self, imagery: str, videos: list[str]) -> Prepared:
        """Write the tables, and at last the manifest, which marks the dataset as complete."""
        for name, rows in self.rows.items():
            write_table(self.out / f"{name}.parquet", to_table(name, rows))
        config = self.settings.model_dump(mode="json")
        digest = hashlib.sha256(json.dumps([config, imagery, videos, dict(self.clips)]).encode()).hexdigest()[:16]
        manifest = {
            "format": FORMAT, "kind": "own", "command": "x2l prepare own", "config": config, "fingerprint": digest,
            "x2localizer": __version__, "counts": {name: len(rows) for name, rows in self.rows.items()},
            "left_out": dict(self.left_out),
        }  # fmt: skip
        write_text(self.out / MANIFEST, json.dumps(manifest, indent=2) + "\n")
        (self.out / UNFINISHED).unlink()
        return Prepared({name: self.clips[name] for name in SPLITS if self.clips[name]}, dict(self.left_out))
