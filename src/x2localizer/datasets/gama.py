"""GAMa as a dataset, from the public folders of GAMa and BDD100K. Pictures are linked, not copied.

    GAMA/Ground/{train,val}/VIDEO/INDEX_LAT_LON.jpg    frames, about one per second
    GAMA/Aerial/{train,val}/VIDEO/INDEX_LAT_LON.jpg    the tile centred on each
    GAMA/GAMa/{train,val}_hr/VIDEO.jpeg                regions of 7 x 7 tiles
    BDD/info/{train,val}/VIDEO.json                    ride, times, positions

GAMa's val is our test. Part of the ground of GAMa's train is held out as our val, for choosing models: some cells of
Web-Mercator zoom 13 (about 4 km). Videos near the border of such a cell are in neither split, so that train and val
share no ground. Nothing is dropped silently: whatever is missing or irregular is counted and reported.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from x2localizer import __version__, geo
from x2localizer.datasets.dataset import MANIFEST
from x2localizer.datasets.gama_lists import ZOOM, Lists, find_lists, read_lists
from x2localizer.datasets.rides import linked
from x2localizer.datasets.tables import FORMAT, FrameRow, RegionRow, Row, VideoRow, to_table, write_table
from x2localizer.errors import DatasetError
from x2localizer.files import holds_other_files, only_writer, read_json, write_text
from x2localizer.types import Position, Region

N = 7
KEYFRAMES = 8
EVERY = 5
NAME = re.compile(r"(\d+)_(-?\d+(?:\.\d+)?)_(-?\d+(?:\.\d+)?)\.jpe?g", re.IGNORECASE)
NO_DATE = datetime(2000, 1, 1, tzinfo=UTC)
CELL = 64
"""Tiles along the side of a cell, the unit of ground that is held out."""
AREA = 512
"""Tiles along the side of an area; batches are drawn from few areas."""
EXAMPLES = 3


@dataclass(slots=True)
class GamaReport:
    """Counts of what there is, and of everything irregular, with examples."""

    counts: dict[str, int] = field(default_factory=dict)
    ragged: dict[str, list[str]] = field(default_factory=dict)
    found: Counter[str] = field(default_factory=Counter)

    def note(self, what: str, where: str) -> None:
        """Count something irregular, and keep a few examples."""
        self.found[what] += 1
        examples = self.ragged.setdefault(what, [])
        if len(examples) < EXAMPLES:
            examples.append(where)

    def to_text(self) -> str:
        """The report as text."""
        lines = [f"  {name:<44}{count:>10,}" for name, count in self.counts.items()]
        for what, count in self.found.items():
            lines.append(f"  {what}: {count:,}, such as {', '.join(self.ragged[what])}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Shot:
    """A frame by its file: the index and the position in its name."""

    index: int
    place: Position
    file: str


@dataclass(frozen=True, slots=True)
class _Info:
    """What BDD100K knows about a video: its start, and timed positions with speed and course if known."""

    start: datetime
    points: tuple[tuple[float, float, float, float | None, float | None], ...]  # s, lat, lon, m/s, degrees


def report_lists(lists: Lists) -> GamaReport:
    """A report on the lists alone."""
    report = GamaReport()
    spans = lists.spans()
    fitting = [video for video, (across, down) in spans.items() if across <= N and down <= N]
    report.counts = {
        "train videos": len(lists.train), "val videos": len(lists.val), "val frames": len(lists.seconds),
        "gallery tiles": len(lists.gallery), f"val trajectories that fit {N} x {N} tiles": len(fitting),
    }  # fmt: skip
    for video in spans.keys() - set(fitting):
        report.note(f"val trajectories wider than {N} tiles", video)
    for video in sorted(set(lists.val) - spans.keys()):
        report.note("val videos without a second", video)
    for video in sorted(spans.keys() - set(lists.val)):
        report.note("seconds of a video that is not in val", video)
    for video in sorted(set(lists.val) & lists.train.keys()):
        report.note("videos in train and in val", video)
    seen: set[tuple[str, int]] = set()
    per_video: Counter[str] = Counter()
    for row in lists.seconds:
        if (row.video, row.second) in seen:
            report.note("seconds that are listed twice", f"{row.video} {row.second}")
        seen.add((row.video, row.second))
        per_video[row.video] += 1
    for video, count in per_video.items():
        if -(-count // EVERY) != KEYFRAMES:
            report.note(f"val videos of which every {EVERY}th frame does not give {KEYFRAMES}", f"{video} ({count})")
    return report


def prepare_gama(
    bdd: Path,
    gama: Path,
    out: Path,
    *,
    lists: Path | None = None,
    held_out: float = 0.08,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> GamaReport:
    """Make a dataset that links to the pictures of GAMa; returns a report of what was found.

    ``held_out`` is the share of the training ground that becomes val.
    """
    if not 0 < held_out <= 0.5:
        raise DatasetError(f"A share of {held_out} of the ground cannot be held out.", "Use a share between 0 and 0.5.")
    if holds_other_files(out):
        raise DatasetError(f"{out} contains other files.", "Choose a new folder with --out.")
    found = read_lists(lists or find_lists(gama, bdd))
    report = report_lists(found)
    with only_writer(out):
        listed: dict[str, set[int]] = {}
        for row in found.seconds:
            listed.setdefault(row.video, set()).add(row.second)
        builder = _GamaBuilder(bdd, gama, out, report, {video: len(seconds) for video, seconds in listed.items()})
        work = [("train", video) for video in found.train] + [("val", video) for video in found.val]
        for number, (side, video) in enumerate(work):
            builder.add(side, video, held_out)
            progress(number + 1, len(work))
        builder.finish(held_out)
    return report


def train_split(region: Region, share: float) -> str | None:
    """The split of a training video by its region: train, val if well inside a held-out cell, or None."""
    middle_x, middle_y = region.x + N / 2, region.y + N / 2
    cell = (int(middle_x) // CELL, int(middle_y) // CELL)
    digest = hashlib.sha256(f"{cell[0]} {cell[1]}".encode()).digest()
    if int.from_bytes(digest[:8], "big") >= share * 2**64:
        return "train"
    depth = min(min(v % CELL, CELL - v % CELL) for v in (middle_x, middle_y))
    return "val" if depth >= N else None


def ride_of(video: str) -> str:
    """The ride of a video: the part of its name before the dash."""
    return video.partition("-")[0]


def keyframe_numbers(frames: int) -> list[int]:
    """Indices of the keyframes: every 5th if that gives 8, otherwise 8 spread evenly, or all if there are fewer."""
    if -(-frames // EVERY) == KEYFRAMES:
        return list(range(0, frames, EVERY))
    if frames <= KEYFRAMES:
        return list(range(frames))
    return [round(i * (frames - 1) / (KEYFRAMES - 1)) for i in range(KEYFRAMES)]


class _GamaBuilder:
    """Collects the rows of the dataset."""

    def __init__(self, bdd: Path, gama: Path, out: Path, report: GamaReport, listed: dict[str, int]) -> None:
        self.bdd, self.gama, self.out, self.report, self.listed = bdd, gama, out, report, listed
        self.rows: dict[str, list[Row]] = {"regions": [], "videos": [], "frames": []}
        self.counts: Counter[str] = Counter()

    def add(self, side: str, video: str, held_out: float) -> None:
        """Add one video with its region; anything irregular is noted in the report."""
        shots = self._shots(side, video)
        if not shots:
            self.report.note("videos without frames", video)
            return
        if side == "val" and len(shots) < self.listed.get(video, 0):
            self.report.note("val videos with fewer frames than the list has", f"{video} ({len(shots)})")
        picture = self._region_file(side, video)
        if picture is None:
            self.report.note("videos without a region", video)
            return
        lats, lons = (np.array([getattr(shot.place, name) for shot in shots]) for name in ("lat_deg", "lon_deg"))
        region = region_of_track(lats, lons)
        if not geo.region_contains(region, lats, lons).all():
            self.report.note("videos that leave their region", video)
        split = "test" if side == "val" else train_split(region, held_out)
        if split is None:
            self.report.note("training videos between train and val, left out of both", video)
            return
        area = f"{split}-{region.x // AREA}-{region.y // AREA}"
        info = self._info(side, video)
        times, motion = _times(shots, info)
        if info is None:
            self.report.note("videos without BDD100K's info: one frame per second is assumed", video)
        if len(shots) < KEYFRAMES:
            self.report.note(f"videos of fewer than {KEYFRAMES} frames: not trained on", video)
        middle = geo.region_centre(region)
        self.rows["regions"].append(
            RegionRow(video, split, area, ZOOM, region.x, region.y, N, middle.lat_deg, middle.lon_deg, picture, 0, 0)
        )
        keys = {number: k for k, number in enumerate(keyframe_numbers(len(shots)))}
        for k, shot in enumerate(shots):
            tile = f"tiles/{side}/{video}/{shot.file}"
            if not (self.gama / "Aerial" / side / video / shot.file).is_file():
                self.report.note("frames without a tile", f"{video}/{shot.file}")
                tile = ""
            self.rows["frames"].append(
                FrameRow(video, k, times[k], shot.place.lat_deg, shot.place.lon_deg, *motion[k], keys.get(k, -1),
                         f"frames/{side}/{video}/{shot.file}", 0, 0, tile, 0, 0)
            )  # fmt: skip
        self.rows["videos"].append(
            VideoRow(video, split, "clip", area, ride_of(video), video, NO_DATE if info is None else info.start,
                     times[-1], len(shots), len(keys), None, None, None)
        )  # fmt: skip
        self.counts[split] += 1

    def _shots(self, side: str, video: str) -> list[_Shot]:
        """The frames of a video, ordered by the number in their names, which is not zero-padded."""
        folder = self.gama / "Ground" / side / video
        shots: dict[int, _Shot] = {}
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            match = NAME.fullmatch(path.name)
            if match is None:
                self.report.note("files whose name is not INDEX_LAT_LON.jpg", f"{video}/{path.name}")
                continue
            lat, lon = float(match[2]), float(match[3])
            if not (abs(lat) <= 85 and abs(lon) <= 180) or lat == lon == 0:
                self.report.note("frames at an impossible position", f"{video}/{path.name}")
                continue
            if int(match[1]) in shots:
                self.report.note("frames with the number of another", f"{video}/{path.name}")
                continue
            shots[int(match[1])] = _Shot(int(match[1]), Position(lat, lon), path.name)
        return [shots[index] for index in sorted(shots)]

    def _region_file(self, side: str, video: str) -> str | None:
        for ending in ("jpeg", "jpg", "png"):
            if (self.gama / "GAMa" / f"{side}_hr" / f"{video}.{ending}").is_file():
                return f"regions/{side}_hr/{video}.{ending}"
        return None

    def _info(self, side: str, video: str) -> _Info | None:
        path = self.bdd / "info" / side / f"{video}.json"
        if not path.is_file():
            return None
        try:
            info: dict[str, Any] = read_json(path)
            start_ms = float(info["startTime"])
            points = tuple(
                ((float(p["timestamp"]) - start_ms) / 1000, float(p["latitude"]), float(p["longitude"]),
                 _known(p.get("speed")), _known(p.get("course")))
                for p in info.get("locations") or []
            )  # fmt: skip
            return _Info(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=start_ms), points)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            self.report.note("damaged info files of BDD100K", f"{side}/{video}.json")
            return None

    def finish(self, held_out: float) -> None:
        """Link the pictures and write the tables, and at last the manifest."""
        if not self.counts:
            raise DatasetError(
                f"No video of the lists has frames and a region below {self.gama}.",
                "It must contain Ground/, Aerial/ and GAMa/; `x2l prepare gama --report` shows what the lists contain.",
            )
        for name, target in (("frames", "Ground"), ("tiles", "Aerial"), ("regions", "GAMa")):
            if (self.gama / target).is_dir():
                (self.out / name).unlink(missing_ok=True)
                (self.out / name).symlink_to((self.gama / target).resolve(), target_is_directory=True)
        for name, rows in self.rows.items():
            write_table(self.out / f"{name}.parquet", to_table(name, rows))
        self.report.counts |= {f"videos in our {split}": self.counts[split] for split in ("train", "val", "test")}
        self.report.counts["frames"] = len(self.rows["frames"])
        self.report.counts["linked long-range sequences in our test"] = len(
            linked([row for row in self.rows["videos"] if isinstance(row, VideoRow) and row.split == "test"])
        )
        digest = hashlib.sha256(json.dumps([held_out, sorted(self.counts.items())]).encode())
        for row in self.rows["videos"]:
            assert isinstance(row, VideoRow)
            digest.update(f"{row.video_id} {row.split} {row.frames}\n".encode())
        manifest = {
            "format": FORMAT, "kind": "gama", "command": "x2l prepare gama", "config": {"held_out": held_out},
            "fingerprint": digest.hexdigest()[:16], "x2localizer": __version__,
            "counts": {name: len(rows) for name, rows in self.rows.items()}, "ragged": dict(self.report.found),
        }  # fmt: skip
        write_text(self.out / MANIFEST, json.dumps(manifest, indent=2) + "\n")


def region_of_track(lats: np.ndarray, lons: np.ndarray) -> Region:
    """The region of 7 x 7 tiles around the tiles that a track touches."""
    x, y = geo.tile_coordinates(lats, lons, ZOOM)
    west, north = (math.floor((np.floor(v).min() + np.floor(v).max() + 1 - N) / 2) for v in (x, y))
    return Region(ZOOM, west % (1 << ZOOM), north, N)


def _times(shots: list[_Shot], info: _Info | None) -> tuple[list[float], list[tuple[float | None, float | None]]]:
    """Times in seconds from the first frame, and (course, speed), of each frame; BDD100K's if its positions agree."""
    first = shots[0].index
    plain = [float(shot.index - first) for shot in shots]
    nothing: list[tuple[float | None, float | None]] = [(None, None)] * len(shots)
    if info is None or not info.points:
        return plain, nothing
    shift = _shift(shots, info)
    if shift is None:
        return plain, nothing
    rows = [info.points[shot.index + shift] for shot in shots]
    times = [row[0] - rows[0][0] for row in rows]
    if any(b <= a for a, b in pairwise(times)):
        return plain, nothing
    return times, [(row[4], row[3]) for row in rows]


def _shift(shots: list[_Shot], info: _Info) -> int | None:
    """The offset from frame numbers to indices of the info, -1 or 0, whichever agrees to a metre; None if neither."""
    for shift in (-1, 0):
        inside = all(0 <= shot.index + shift < len(info.points) for shot in shots)
        if inside and all(_same(shot.place, info.points[shot.index + shift]) for shot in shots):
            return shift
    return None


def _same(place: Position, point: tuple[float, float, float, float | None, float | None]) -> bool:
    return abs(place.lat_deg - point[1]) < 1e-5 and abs(place.lon_deg - point[2]) < 1e-5


def _known(value: object) -> float | None:
    """A number of BDD100K, which writes -1 for unknown values; None in that case."""
    number = float(value) if isinstance(value, int | float) else -1.0
    return number if number >= 0 and math.isfinite(number) else None
