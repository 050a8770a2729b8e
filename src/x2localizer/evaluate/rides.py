"""Long drives of a dataset, the gallery they are localized in, and what a localizer made of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from x2localizer import geo
from x2localizer.datasets.dataset import Dataset
from x2localizer.datasets.rides import linked
from x2localizer.datasets.tables import VideoRow
from x2localizer.encoders import Bundle
from x2localizer.errors import DatasetError
from x2localizer.gallery import Gallery, index
from x2localizer.similarity import CodeKind
from x2localizer.types import Bools, Floats, Frame, Position, Progress, Region


@dataclass(frozen=True, slots=True, eq=False)
class Ride:
    """A long drive on one clock.

    videos: its parts, perhaps with gaps between them.
    times_s, truth: of every frame: seconds from the first one, and where the camera was.
    """

    ride_id: str
    first_region: Region
    videos: tuple[VideoRow, ...]
    times_s: Floats
    truth: tuple[Position, ...]
    has_gap: bool

    @property
    def left(self) -> Bools:
        """At which frames the first region has been left for the first time, (f,)."""
        lats, lons = (np.array([getattr(place, name) for place in self.truth]) for name in ("lat_deg", "lon_deg"))
        return np.asarray(np.maximum.accumulate(~geo.region_contains(self.first_region, lats, lons)), np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """One arm on one ride, by frame, (f,) each.

    errors_m: of the guess, in metres; NaN without one.
    confidence: of the fix.
    sure: whether a position was stated.
    """

    errors_m: Floats
    confidence: Floats
    sure: Bools

    @property
    def right(self) -> Bools:
        """Whether the guess is within 80 m."""
        return np.asarray(np.nan_to_num(self.errors_m, nan=np.inf) <= geo.RIGHT_WITHIN_M, np.bool_)


def long_rides(data: Dataset, split: str) -> list[Ride]:
    """The long drives of a split, and clips of one ride that follow each other within two minutes."""
    regions = {row.region_id: row.region for row in data.regions(split)}
    by_ride: dict[str, list[VideoRow]] = {}
    for video in data.videos(split, role="long"):
        by_ride.setdefault(video.ride_id, []).append(video)
    chains = [tuple(sorted(found, key=lambda row: row.start_time)) for found in by_ride.values()]
    rides = [_ride(data, videos, regions) for videos in chains + linked(data.videos(split))]
    if not rides:
        raise DatasetError(
            f"The dataset has no long drives in its {split} split.", "Make one with the standard preset."
        )
    return rides


def _ride(data: Dataset, videos: tuple[VideoRow, ...], regions: dict[str, Region]) -> Ride:
    times, places = [], []
    for video in videos:
        late = (video.start_time - videos[0].start_time).total_seconds()
        for row in data.frames(video.video_id):
            times.append(late + row.time_s)
            places.append(row.position)
    name, first = videos[0].ride_id, regions[videos[0].region_id]
    return Ride(name, first, videos, np.array(times), tuple(places), len(videos) > 1)


def imagery_of(data: Dataset, split: str) -> list[Path]:
    """The imagery of a split's areas; empty for datasets that have none, such as GAMa."""
    return sorted((data.root / "imagery" / split).glob("*.tif"))


def split_gallery(
    data: Dataset, split: str, bundle: Bundle, work: Path, report: Progress,
    codes: Sequence[CodeKind] = ("tiles", "regions"),
) -> Gallery:  # fmt: skip
    """One gallery of the imagery of all areas of a split, made once for each bundle."""
    files = imagery_of(data, split)
    if not files:
        raise DatasetError(
            f"The dataset has no imagery of its {split} split.",
            f"Use its own regions with --gallery dataset, or put GeoTIFFs into {data.root / 'imagery' / split}.",
        )
    address = work / f"{split}-{data.contents[:8]}-{bundle.fingerprint[:8]}"
    for number, file in enumerate(files):
        report(f"indexing {file.name}", number + 1, len(files))
        gallery = index(file, bundle, address, codes=codes)
    return gallery


def ride_frames(data: Dataset, ride: Ride, size: tuple[int, int] | None = None) -> Iterator[Frame]:
    """The frames of a ride on its own clock, at a size (height, width)."""
    at = 0
    for video in ride.videos:
        for row in data.frames(video.video_id):
            yield Frame(at, float(ride.times_s[at]), data.picture(row.image, size))
            at += 1
