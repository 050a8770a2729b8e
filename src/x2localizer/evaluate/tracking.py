"""Long drives followed by the tracker: odometry and frames in, on a map of tiles, of roads, or of both.

One gallery of all areas of a split; the tracker does not know in which area a drive is. Arms differ in where odometry
comes from, in what the map holds, and in whether fixes are live or know the whole drive. Drives of another dataset,
whose ground is not in the gallery, show how often a tracker is sure where it cannot be right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from x2localizer import geo
from x2localizer.config import TrackSettings
from x2localizer.datasets.dataset import Dataset
from x2localizer.encoders import Bundle, open_bundle
from x2localizer.errors import DatasetError
from x2localizer.evaluate.recordings import Recording, Source, recordings, sources_of, tracked_rides
from x2localizer.evaluate.rides import Ride, split_gallery
from x2localizer.evaluate.tracked import ARMS, Arm, Tracked, kept_track
from x2localizer.evaluate.workers import in_workers
from x2localizer.gallery import Gallery, index_roads, open_gallery
from x2localizer.localize.track.confidence import track_confidence
from x2localizer.localize.track.fields import RoadField
from x2localizer.localize.track.track_map import TrackMap
from x2localizer.sources.roads import Roads
from x2localizer.types import Progress

MISSING_SHARE = 0.1
"""Share of the roads that a degraded map lacks."""
MOVED_M = 5.0
"""How far the roads of a degraded map are moved, all in the same direction."""
SEED = 42


# The map -------------------------------------------------------------------------------------------------------------


def tracking_gallery(data: Dataset, split: str, bundle: Bundle, work: Path, report: Progress) -> Gallery:
    """One gallery of the imagery and the roads of all areas of a split, made once for each bundle."""
    gallery = split_gallery(data, split, bundle, work, report, codes=("tiles",))
    roads = sorted((data.root / "roads" / split).glob("*.geojson"))
    return index_roads(roads, gallery.address, progress=report) if roads else gallery


def degraded(roads: Roads) -> Roads:
    """Roads as on a poor map: a tenth of them missing, and all moved by 5 m; always the same ones and the same way."""
    rng = np.random.default_rng(SEED)
    angle = rng.uniform(0.0, 2.0 * np.pi)
    kept = roads.take(np.sort(rng.permutation(len(roads))[round(MISSING_SHARE * len(roads)) :]))
    return moved(kept, MOVED_M * np.cos(angle), MOVED_M * np.sin(angle))


def moved(roads: Roads, north_m: float, east_m: float) -> Roads:
    """The same roads somewhere else."""
    lats, lons = roads.points_deg.T
    metres_per_degree = np.radians(geo.WEB_MERCATOR_RADIUS_M)
    lats, lons = lats + north_m / metres_per_degree, lons + east_m / metres_per_degree / np.cos(np.radians(lats))
    return replace(roads, points_deg=np.stack([lats, geo.wrap_longitude(lons)], 1))


def degraded_map(track_map: TrackMap) -> TrackMap:
    """The same map with degraded roads."""
    roads = RoadField.of(degraded(track_map.gallery.roads()), track_map.patches)
    return replace(track_map, roads=roads)


# All rides -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """What was measured.

    rides, night: the rides, and which of them are at night.
    found: every arm on every ride.
    foreign_night, foreign: the same off the map; an arm that was not followed there has no results.
    """

    rides: list[Ride]
    night: list[bool]
    found: dict[str, list[Tracked]]
    foreign_night: list[bool]
    foreign: dict[str, list[Tracked]]


def run_tracking(
    bundle: Bundle, data: Dataset, split: str, work: Path, report: Progress = lambda what, done, total: None, *,
    foreign: Dataset | None = None, arms: Sequence[Arm] = ARMS, foreign_arms: Sequence[Arm] | None = None,
    settings: TrackSettings | None = None, workers: int = 2,
    most_rides: int | None = None,
) -> Results:  # fmt: skip
    """Follow the long drives of a split by every arm.

    foreign: a dataset of other ground: all of its drives are followed on the same map.
    foreign_arms: by which of the arms these are followed; all by default.
    most_rides: of each dataset, to try something out.
    """
    usual = settings or TrackSettings()
    gallery = tracking_gallery(data, split, bundle, work, report)
    parts = [(data, split), *([] if foreign is None else [(foreign, foreign_split(foreign))])]
    chosen = [tracked_rides(dataset, part)[:most_rides] for dataset, part in parts]
    arms = _possible(
        arms, gallery, [sources_of(dataset, found) for (dataset, _), found in zip(parts, chosen, strict=True)]
    )
    sources = sorted({arm.source for arm in arms})
    own, *off = (
        recordings(dataset, found, sources, bundle, work, report, step_s=usual.step_s, workers=workers)
        for (dataset, _), found in zip(parts, chosen, strict=True)
    )
    others = [recording for found in off for recording in found]
    every = [*own, *others]
    away = arms if foreign_arms is None else [arm for arm in arms if arm in foreign_arms]
    tasks = [
        *(task for recording in own for task in _tasks(recording, arms)),
        *(task for recording in others for task in _tasks(recording, away)),
    ]
    out: dict[str, list[Tracked | None]] = {arm.name: [None] * len(every) for arm in ARMS}
    place = {id(recording): number for number, recording in enumerate(every)}
    arguments = (gallery.address, bundle.root, usual, work / "tracked")
    for done, (number, tracked) in enumerate(in_workers(_follow, tasks, workers, _prepare, arguments), 1):
        for name, result in tracked.items():
            out[name][place[id(tasks[number].recording)]] = result
        report("drives", done, len(tasks))
    measured = {
        arm.name: (
            [r for r in out[arm.name][: len(own)] if r is not None],
            [r for r in out[arm.name][len(own) :] if r is not None and arm in away],
        )
        for arm in arms
    }
    return Results(
        [recording.ride for recording in own], [recording.night for recording in own],
        {name: here for name, (here, _) in measured.items()}, [recording.night for recording in others],
        {name: there for name, (_, there) in measured.items()},
    )  # fmt: skip


def _possible(arms: Sequence[Arm], gallery: Gallery, sources: Sequence[Sequence[Source]]) -> list[Arm]:
    """The arms for which all datasets have odometry and the gallery has roads."""
    out = [
        arm for arm in arms
        if (gallery.manifest.roads or not arm.roads) and all(arm.source in known for known in sources)
    ]  # fmt: skip
    if not out:
        raise DatasetError(
            "The dataset has no odometry or no roads for any of these arms.",
            "Make it with the standard preset, or choose other --arms.",
        )
    return out


def foreign_split(data: Dataset) -> str:
    """The split of a dataset that has long drives: test before val before train."""
    for split in ("test", "val"):
        if data.videos(split, role="long"):
            return split
    return "train"


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    recording: Recording
    arm: Arm
    smooth: bool


def _tasks(recording: Recording, arms: Sequence[Arm]) -> list[_Task]:
    """What there is to follow by some arms; one that is smoothed comes with the plain one."""
    plain = sorted({replace(arm, smoothed=False) for arm in arms}, key=lambda arm: arm.name)
    return [_Task(recording, arm, replace(arm, smoothed=True) in arms) for arm in plain]


@dataclass
class _Stage:
    """What a worker keeps between its tasks."""

    address: str = ""
    bundle: Path = Path()
    settings: TrackSettings | None = None
    kept: Path = Path()


_stage = _Stage()


def _prepare(address: str, bundle: Path, settings: TrackSettings, kept: Path) -> None:
    _stage.address, _stage.bundle, _stage.settings, _stage.kept = address, bundle, settings, kept
    _maps.cache_clear()
    _encoder.cache_clear()


@lru_cache(maxsize=2)
def _maps(poor: bool) -> TrackMap:
    return degraded_map(_maps(False)) if poor else TrackMap.of(open_gallery(_stage.address))


@lru_cache(maxsize=1)
def _encoder() -> Bundle:
    return open_bundle(_stage.bundle, threads=1, verify=False)


def _follow(task: _Task) -> dict[str, Tracked]:
    arm, usual = task.arm, _stage.settings
    assert usual is not None
    confidence = track_confidence(_stage.bundle if arm.tiles else None, arm.settings(usual))
    return kept_track(
        _stage.kept, Path(_stage.address).name, task.recording, arm, _maps(arm.degraded), _encoder(), usual, confidence,
        smooth=task.smooth,
    )  # fmt: skip
