"""One long drive, followed by the tracker in one way, and kept for the next run.

Following all drives in all ways takes an hour. What one drive gave is kept in a file that is named after everything it
follows from: the drive, the map, the settings, the sources of the tracker, and its confidence. Fitting one needs
drives that were followed without any; these are kept, too.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import cache
from pathlib import Path

import numpy as np

from x2localizer.config import TrackSettings
from x2localizer.encoders import Encoder
from x2localizer.errors import ConfigError
from x2localizer.evaluate.recordings import SOURCES, Recording, Source
from x2localizer.evaluate.rides import Followed
from x2localizer.files import atomic_path
from x2localizer.localize import track as track_package
from x2localizer.localize.summary import error_m
from x2localizer.localize.track.confidence import TrackConfidence
from x2localizer.localize.track.second_pass import second_pass
from x2localizer.localize.track.track_map import TrackMap
from x2localizer.localize.track.tracker import Tracker
from x2localizer.types import Fix, Floats, Position, TrackEvidence

SMOOTHED = ", smoothed"


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to follow a drive.

    source: of the odometry.
    tiles, roads: what of the map is used.
    degraded: some roads are missing, and all are moved.
    smoothed: fixes know the whole drive, by a second pass that goes back from its end.
    """

    source: Source = "sensors"
    tiles: bool = True
    roads: bool = True
    degraded: bool = False
    smoothed: bool = False

    @property
    def name(self) -> str:
        """As in the tables."""
        ground = "tiles and roads" if self.tiles and self.roads else "tiles" if self.tiles else "roads"
        if self.degraded:
            ground = ground.replace("roads", "degraded roads")
        return f"{self.source}, {ground}{SMOOTHED if self.smoothed else ''}"

    def settings(self, usual: TrackSettings) -> TrackSettings:
        """The tracker's settings."""
        return usual.model_copy(update={"use_tiles": self.tiles, "use_roads": self.roads})


ARMS = (
    *(Arm(source, tiles, roads) for tiles, roads in ((True, True), (True, False), (False, True)) for source in SOURCES),
    Arm(degraded=True),
    Arm(smoothed=True),
)


def arms_named(names: Sequence[str] = ()) -> tuple[Arm, ...]:
    """The arms of some names, or that have a text such as "video" in their name; all of them without names."""
    chosen: set[Arm] = set()
    for name in names:
        exact = {arm for arm in ARMS if arm.name == name}
        found = exact or {arm for arm in ARMS if name in arm.name}
        if not found:
            raise ConfigError(f"There is no arm '{name}'.", f"They are: {'; '.join(arm.name for arm in ARMS)}.")
        chosen |= found
    return tuple(arm for arm in ARMS if arm in chosen or not names)


@dataclass(frozen=True, slots=True, eq=False)
class Tracked:
    """A ride as a tracker followed it.

    followed: errors, confidence and whether it was sure, by frame.
    evidence: behind each fix.
    ms_per_step: processor time for one second of driving; without encoding.
    poses: in the belief, the median over frames.
    searches: of the whole map, the first included.
    on_map: probability of being on the map, by frame, (f,).
    """

    followed: Followed
    evidence: tuple[TrackEvidence, ...]
    ms_per_step: float
    poses: float
    searches: int
    on_map: Floats


# Following -----------------------------------------------------------------------------------------------------------


def track(
    recording: Recording, arm: Arm, track_map: TrackMap, encoder: Encoder | None, settings: TrackSettings,
    confidence: TrackConfidence | None = None, *, smooth: bool = False,
) -> dict[str, Tracked]:  # fmt: skip
    """A ride by one arm, by name of the arm; with ``smooth`` also by the arm that is smoothed."""
    odometry = recording.odometry[arm.source]
    tracker = Tracker(
        track_map, encoder if arm.tiles else None, arm.settings(settings), scale_sd=odometry.scale_sd,
        bias_sd_deg_s=odometry.bias_sd_deg_s, confidence=confidence, keeps_steps=smooth,
    )  # fmt: skip
    fixes, poses = [], []
    start = time.process_time()
    for number, (time_s, movements) in enumerate(zip(recording.ride.times_s, odometry.movements, strict=True)):
        code = recording.codes[number]
        seen = arm.tiles and bool(np.isfinite(code).all())
        fixes.append(tracker.advance(number, float(time_s), movements, code if seen else None))
        poses.append(tracker.belief.poses.shape[1])
    ms = 1000 * (time.process_time() - start) / len(fixes)
    truth, middle = recording.ride.truth, float(np.median(poses))
    out = {arm.name: to_tracked(fixes, truth, ms, middle)}
    if smooth:
        both = second_pass(tracker, fixes)
        ms = 1000 * (time.process_time() - start) / len(fixes)
        out[replace(arm, smoothed=True).name] = to_tracked(both, truth, ms, middle)
    return out


def to_tracked(fixes: Sequence[Fix], truth: Sequence[Position], ms: float, poses: float) -> Tracked:
    """Fixes compared with the truth."""
    errors = np.array([error_m(fix, place) for fix, place in zip(fixes, truth, strict=True)])
    confidence = np.array([fix.confidence for fix in fixes])
    sure = np.array([fix.position is not None for fix in fixes], np.bool_)
    evidence = tuple(fix.evidence for fix in fixes if isinstance(fix.evidence, TrackEvidence))
    on_map = np.array([np.nan if fix.on_map is None else fix.on_map for fix in fixes])
    searches = sum(fix.refreshed for fix in fixes)
    return Tracked(Followed(errors, confidence, sure), evidence, ms, poses, searches, on_map)


# Keeping -------------------------------------------------------------------------------------------------------------


def kept_track(
    folder: Path, ground: str, recording: Recording, arm: Arm, track_map: TrackMap, encoder: Encoder | None,
    settings: TrackSettings, confidence: TrackConfidence, *, smooth: bool = False,
) -> dict[str, Tracked]:  # fmt: skip
    """The same as :func:`track`, read from a file in the folder if this was done before.

    ground: a name for the map and everything on it.
    """
    arms = [arm, *([replace(arm, smoothed=True)] if smooth else [])]
    confidence = confidence.for_map(track_map.km2)
    paths = {one.name: folder / f"{track_key(ground, recording, one, settings, confidence)}.npz" for one in arms}
    if not all(path.is_file() for path in paths.values()):
        for name, tracked in track(recording, arm, track_map, encoder, settings, confidence, smooth=smooth).items():
            save_tracked(paths[name], tracked)
    return {name: load_tracked(path, confidence) for name, path in paths.items()}


def track_key(ground: str, recording: Recording, arm: Arm, settings: TrackSettings, confidence: TrackConfidence) -> str:
    """A short name for everything that a followed drive depends on."""
    parts = [ground, recording.ride.ride_id, arm.name, settings.model_dump_json(), _sources()]
    if confidence.calibrated:  # what a tracker doubts, and which of two fixes counts, depends on it
        parts.append(repr((confidence.weights, confidence.threshold, confidence.threshold_without_roads)))
    digest = hashlib.sha256("|".join(parts).encode())
    if arm.tiles:
        digest.update(np.nan_to_num(recording.codes).tobytes())
    odometry = recording.odometry[arm.source]
    moved = [astuple(movement) for movements in odometry.movements for movement in movements]
    digest.update(np.array(moved, np.float64).tobytes())
    digest.update(np.array([odometry.scale_sd, odometry.bias_sd_deg_s]).tobytes())
    return digest.hexdigest()[:20]


@cache
def _sources() -> str:
    """A short name for the sources of the tracker: another tracker follows a drive in another way."""
    files = sorted(Path(track_package.__path__[0]).glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def save_tracked(path: Path, tracked: Tracked) -> None:
    """Keep what a drive gave."""
    evidence = np.array([astuple(one) for one in tracked.evidence], np.float64)
    cost = [tracked.ms_per_step, tracked.poses, tracked.searches]
    with atomic_path(path) as target, target.open("wb") as file:
        np.savez(file, errors_m=tracked.followed.errors_m, evidence=evidence, cost=cost)


def load_tracked(path: Path, confidence: TrackConfidence) -> Tracked:
    """What a drive gave, by a confidence that may be another than then."""
    with np.load(path, allow_pickle=False) as arrays:
        errors, rows, (ms, poses, searches) = arrays["errors_m"], arrays["evidence"], arrays["cost"]
    evidence = tuple(_evidence(row) for row in rows)
    probability = np.array([confidence.probability(one) for one in evidence])
    sure = [confidence.is_sure(one, p) for one, p in zip(evidence, probability.tolist(), strict=True)]
    on_map = [confidence.on_map(one, p) for one, p in zip(evidence, probability.tolist(), strict=True)]
    followed = Followed(errors, probability, np.array(sure, np.bool_))
    return Tracked(followed, evidence, float(ms), float(poses), int(searches), np.array(on_map))


def _evidence(row: Floats) -> TrackEvidence:
    values = dict(zip((one.name for one in fields(TrackEvidence)), row.tolist(), strict=True))
    flags = {name: bool(values[name]) for name in ("has_tiles", "has_roads", "doubtful")}
    return TrackEvidence(**{**values, **flags})
