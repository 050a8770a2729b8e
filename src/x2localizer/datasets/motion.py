"""Motion in a dataset: the film of a long drive, many frames a second, and records of how the camera moved.

film/SPLIT/VIDEO.mjpeg and VIDEO.parquet    pictures, and the time of each with the camera's field of view
motion/SPLIT/VIDEO-SOURCE.parquet           a motion record by source, such as "sensors" or "video"
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from x2localizer.datasets.media import read_picture, write_pictures
from x2localizer.datasets.tables import Media, VideoRow, write_table
from x2localizer.errors import DatasetError
from x2localizer.sources.motion import MotionRecord
from x2localizer.types import Floats, Frame, Image

_COLUMNS = ("times_s", "distances_m", "headings_deg", "distance_vars", "heading_vars")
_ABOUT = b"x2localizer"


@dataclass(frozen=True, slots=True, eq=False)
class Film:
    """The frames of a video, many a second, and the horizontal field of view of their camera."""

    root: Path
    times_s: Floats
    places: tuple[Media, ...]
    fov_deg: float

    def frames(self) -> Iterator[Frame]:
        """The frames in order."""
        for index, (time_s, place) in enumerate(zip(self.times_s, self.places, strict=True)):
            yield Frame(index, float(time_s), read_picture(self.root, place))


def write_film(root: Path, video: VideoRow, times_s: Floats, pictures: Iterable[Image], fov_deg: float) -> None:
    """Write the film of a video; its table comes last."""
    stem = f"film/{video.split}/{video.video_id}"
    places = write_pictures(root, f"{stem}.mjpeg", pictures, quality=85)
    table = pa.table({
        "time_s": times_s, "offset": [place.offset for place in places], "length": [place.length for place in places],
    })  # fmt: skip
    write_table(root / f"{stem}.parquet", table.replace_schema_metadata({_ABOUT: json.dumps({"fov_deg": fov_deg})}))


def read_film(root: Path, video: VideoRow) -> Film | None:
    """The film of a video; None if the dataset has none."""
    stem = f"film/{video.split}/{video.video_id}"
    path = root / f"{stem}.parquet"
    if not path.is_file():
        return None
    table, about = _read(path)
    columns = table.to_pydict()
    places = tuple(Media(f"{stem}.mjpeg", o, n) for o, n in zip(columns["offset"], columns["length"], strict=True))
    return Film(root, table["time_s"].to_numpy(), places, float(about["fov_deg"]))


def motion_path(root: Path, video: VideoRow, source: str) -> Path:
    """Where the motion record of a video is kept."""
    return root / "motion" / video.split / f"{video.video_id}-{source}.parquet"


def write_record(path: Path, record: MotionRecord) -> None:
    """Write a motion record with all it knows."""
    about = {"scale_sd": record.scale_sd, "bias_sd_deg_s": record.bias_sd_deg_s}
    table = pa.table({name: getattr(record, name) for name in _COLUMNS})
    write_table(path, table.replace_schema_metadata({_ABOUT: json.dumps(about)}))


def read_record(path: Path) -> MotionRecord | None:
    """A motion record; None if there is none."""
    if not path.is_file():
        return None
    table, about = _read(path)
    try:
        times, distances, headings, distance_vars, heading_vars = (table[name].to_numpy() for name in _COLUMNS)
        return MotionRecord(
            times, distances, headings, distance_vars, heading_vars, about["scale_sd"], about["bias_sd_deg_s"]
        )
    except (KeyError, ValueError, TypeError) as problem:
        raise DatasetError(f"{path} is damaged.", "Remove it, and run the same command again.") from problem


def _read(path: Path) -> tuple[pa.Table, dict[str, float]]:
    try:
        table = pq.read_table(path)
        return table, json.loads(table.schema.metadata[_ABOUT])
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError, RecursionError) as problem:
        raise DatasetError(f"{path} is damaged.", "Remove it, and make the dataset again.") from problem
