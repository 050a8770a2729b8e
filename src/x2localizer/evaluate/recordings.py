"""Long drives as a tracker takes them: image codes of the frames, and odometry between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Literal, get_args

import cv2
import numpy as np

from x2localizer.datasets.dataset import Dataset
from x2localizer.datasets.motion import motion_path, read_film, read_record, write_record
from x2localizer.datasets.tables import VideoRow
from x2localizer.encoders import Encoder
from x2localizer.errors import DatasetError
from x2localizer.evaluate.rides import Ride, long_rides, ride_frames
from x2localizer.evaluate.workers import in_workers
from x2localizer.files import atomic_path
from x2localizer.localize.frames import FrameGate
from x2localizer.localize.track.movements import movements_between
from x2localizer.odometry import CameraProfile, video_motion
from x2localizer.sources.motion import MotionRecord
from x2localizer.types import Codes, Movement, Progress

Source = Literal["sensors", "video"]
SOURCES: tuple[Source, ...] = get_args(Source)
FRAMES_AT_ONCE = 64


@dataclass(frozen=True, slots=True, eq=False)
class Odometry:
    """How the camera of a ride moved.

    movements: before each frame, since the one before; empty at the start and after a gap.
    scale_sd, bias_sd_deg_s: errors that all of them share; see :class:`MotionRecord`.
    """

    movements: tuple[tuple[Movement, ...], ...]
    scale_sd: float
    bias_sd_deg_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A ride and what a tracker is given of it.

    codes: image codes of the frames, (f, d); NaN for frames that show nothing.
    odometry: by source.
    """

    ride: Ride
    codes: Codes
    odometry: dict[Source, Odometry]

    @property
    def night(self) -> bool:
        """Whether it is a drive at night."""
        return self.ride.videos[0].daytime == "night"

    @property
    def area(self) -> str:
        """The area that it is in."""
        return self.ride.videos[0].area


def tracked_rides(data: Dataset, split: str) -> list[Ride]:
    """The long drives of a split; clips that were linked to rides have no odometry, and are left out."""
    return [ride for ride in long_rides(data, split) if ride.videos[0].role == "long"]


def recordings(
    data: Dataset, rides: Sequence[Ride], sources: Sequence[Source], encoder: Encoder, work: Path, report: Progress,
    *, step_s: float, workers: int = 2,
) -> list[Recording]:  # fmt: skip
    """Rides with their codes and odometry; what is missing of both is computed once and kept."""
    videos = [video for ride in rides for video in ride.videos]
    if "video" in sources:
        make_video_motion(data, videos, report, workers)
    out = []
    for number, ride in enumerate(rides):
        codes = ride_codes(data, ride, encoder, work)
        odometry = {source: ride_odometry(data, ride, source, step_s) for source in sources}
        out.append(Recording(ride, codes, odometry))
        report("codes of drives", number + 1, len(rides))
    return out


# Odometry ------------------------------------------------------------------------------------------------------------


def ride_motion(data: Dataset, video: VideoRow, source: Source) -> MotionRecord:
    """The motion of a video by the car's sensors, or by odometry on its film, which is computed if it is missing."""
    record = read_record(motion_path(data.root, video, source))
    if record is None and source == "video":
        record = _film_motion(data.root, video)
    if record is None:
        raise DatasetError(
            f"The dataset has no motion of {video.video_id}.", "Make it again with x2l town dataset --preset standard."
        )
    return record


def sources_of(data: Dataset, rides: Sequence[Ride]) -> list[Source]:
    """The kinds of odometry that all of some rides have, or that can be computed for them."""

    def known(video: VideoRow, source: Source) -> bool:
        if motion_path(data.root, video, source).is_file():
            return True
        return source == "video" and read_film(data.root, video) is not None

    return [source for source in SOURCES if all(known(video, source) for ride in rides for video in ride.videos)]


def make_video_motion(data: Dataset, videos: Sequence[VideoRow], report: Progress, workers: int = 2) -> None:
    """Compute the odometry of all films that have none yet; each is written when it is done."""
    missing = [
        (data.root, video) for video in videos if not motion_path(data.root, video, "video").is_file()
    ]  # fmt: skip
    for done, _ in enumerate(in_workers(_make_one, missing, workers, cv2.setNumThreads, (1,)), 1):
        report("odometry of films", done, len(missing))


def _make_one(task: tuple[Path, VideoRow]) -> None:
    _film_motion(*task)


def _film_motion(root: Path, video: VideoRow) -> MotionRecord:
    film = read_film(root, video)
    if film is None:
        raise DatasetError(
            f"The dataset has no film of {video.video_id}.", "Use the odometry of the sensors, or set film_fps."
        )
    record = video_motion(film.frames(), CameraProfile(fov_deg=film.fov_deg))
    write_record(motion_path(root, video, "video"), record)
    return record


def ride_odometry(data: Dataset, ride: Ride, source: Source, step_s: float) -> Odometry:
    """The movements before each frame of a ride, in steps; a gap between its videos has none."""
    movements: list[tuple[Movement, ...]] = []
    records = [ride_motion(data, video, source) for video in ride.videos]
    for video, record in zip(ride.videos, records, strict=True):
        late_s = (video.start_time - ride.videos[0].start_time).total_seconds()
        times = ride.times_s[len(movements) : len(movements) + video.frames]
        own = record.shifted(-late_s)
        movements.append(())
        movements += [tuple(movements_between(own, float(a), float(b), step_s)) for a, b in pairwise(times)]
    if len(movements) != len(ride.times_s):
        raise DatasetError(f"The frames of {ride.ride_id} are not those of its videos.", "Run `x2l check` on it.")
    scale_sd = max(record.scale_sd for record in records)
    return Odometry(tuple(movements), scale_sd, max(record.bias_sd_deg_s for record in records))


# Codes ---------------------------------------------------------------------------------------------------------------


def ride_codes(data: Dataset, ride: Ride, encoder: Encoder, work: Path, *, mirrored: bool = False) -> Codes:
    """Image codes of a ride's frames, (f, d), computed once; NaN for frames that show nothing.

    mirrored: of the frames with left and right exchanged.
    """
    what = "mirrored" if mirrored else "frames"
    path = work / f"{encoder.weights_of('frame')}-{data.contents}-{ride.ride_id}-{what}.npy"
    if not path.is_file():
        codes = _encode(data, ride, encoder, mirrored)
        with atomic_path(path) as target:
            np.save(target, codes)
    found: Codes = np.load(path)
    return found


def _encode(data: Dataset, ride: Ride, encoder: Encoder, mirrored: bool) -> Codes:
    codes = np.full((len(ride.times_s), encoder.spec.dim), np.nan, np.float32)
    gate = FrameGate(inf)
    usable = [frame for frame in ride_frames(data, ride, encoder.spec.frame_size) if gate.usable(frame)]
    for start in range(0, len(usable), FRAMES_AT_ONCE):
        frames = usable[start : start + FRAMES_AT_ONCE]
        images = np.stack([frame.image[:, ::-1] if mirrored else frame.image for frame in frames])
        codes[[frame.index for frame in frames]] = encoder.encode_frames(images)
    return codes
