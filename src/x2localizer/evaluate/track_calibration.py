"""Fit how sure a tracker is, on the long drives of a dataset.

Each drive is followed on five grounds: the map of all areas, that of its own area alone, that of all areas but its own,
where no position is right, and twice more that of its own with odometry that lies: from the start, and from halfway on.
Odometry comes from sensors and from video, the map has tiles, roads, or both, in turn. How well the confidence holds is
measured on each area by a fit without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from x2localizer import geo
from x2localizer.config import TrackSettings
from x2localizer.datasets.dataset import Dataset
from x2localizer.encoders import Bundle, open_bundle
from x2localizer.errors import DatasetError
from x2localizer.evaluate.recordings import Recording, recordings, sources_of, tracked_rides
from x2localizer.evaluate.track_fit import GROUNDS, MISLEADING, Ground, Run, first_late, save_confidence
from x2localizer.evaluate.tracked import Arm, kept_track
from x2localizer.evaluate.tracking import tracking_gallery
from x2localizer.evaluate.workers import in_workers
from x2localizer.gallery import Gallery, open_gallery
from x2localizer.gallery.grid import BLOCK
from x2localizer.gallery.regions import RegionTable
from x2localizer.localize.track.confidence import FILE, UNFITTED
from x2localizer.localize.track.track_map import TrackMap
from x2localizer.search.prior import BoxPrior
from x2localizer.types import Bools, Floats, Movement, Progress


@dataclass(frozen=True, slots=True)
class OutsidePrior:
    """The camera may be everywhere but in a box."""

    box: BoxPrior

    def allowed(self, regions: RegionTable) -> Bools:
        """Regions whose middle is not in the box."""
        return ~self.box.allowed(regions)

    def contains(self, lats_deg: Floats, lons_deg: Floats) -> Bools:
        """Places outside of the box."""
        return ~self.box.contains(lats_deg, lons_deg)


# Following -----------------------------------------------------------------------------------------------------------


def calibration_runs(
    bundle: Bundle, data: Dataset, split: str, work: Path, report: Progress = lambda what, done, total: None, *,
    settings: TrackSettings | None = None, workers: int = 2, most_rides: int | None = None,
) -> list[Run]:  # fmt: skip
    """Follow the drives of a split on all grounds with all kinds of odometry and maps."""
    usual = settings or TrackSettings()
    gallery = tracking_gallery(data, split, bundle, work, report)
    if not gallery.manifest.roads:
        raise DatasetError(f"The dataset has no roads of its {split} split.", "Make it again with this version.")
    if len(gallery.manifest.sources) < 2:
        raise DatasetError("Calibration needs two areas or more: one to be off the map.", "Use another --split.")
    rides = tracked_rides(data, split)[:most_rides]
    drives = recordings(
        data, rides, sources_of(data, rides), bundle, work, report, step_s=usual.step_s, workers=workers
    )
    areas = sorted({recording.area for recording in drives})
    tasks = [
        (recording, ground, arm)
        for area in ["", *areas] for shift, ground in enumerate(GROUNDS) for number, recording in enumerate(drives)
        if (ground == "all" and not area) or (ground != "all" and recording.area == area)
        for arm in _arms_in_turn(recording, number + shift)
    ]  # fmt: skip
    out: dict[int, Run] = {}
    arguments = (gallery.address, bundle.root, usual, work / "tracked")
    for done, (number, run) in enumerate(in_workers(_follow, tasks, workers, _prepare, arguments), 1):
        out[number] = run
        report("drives", done, len(tasks))
    return [out[number] for number in sorted(out)]


_stage: dict[str, object] = {}


def _prepare(address: str, bundle: Path, settings: TrackSettings, kept: Path) -> None:
    encoder = open_bundle(bundle, threads=1, verify=False)
    _stage.update(gallery=open_gallery(address), bundle=encoder, settings=settings, kept=kept)
    _map.cache_clear()


@lru_cache(maxsize=2)
def _map(ground: Ground, area: str) -> TrackMap:
    gallery = _stage["gallery"]
    assert isinstance(gallery, Gallery)
    if ground == "all":
        return TrackMap.of(gallery)
    box = area_box(gallery, area)
    return TrackMap.of(gallery, OutsidePrior(box) if ground == "off" else box)


def area_box(gallery: Gallery, area: str) -> BoxPrior:
    """The bounds of an area's imagery and a block of tiles around it, so that none of its blocks is cut."""
    zoom = gallery.manifest.zoom
    for source in gallery.manifest.sources:
        if Path(source.imagery).stem == area:
            west, south, east, north = source.bounds
            x, y = geo.tile_coordinates(np.array([north, south]), np.array([west, east]), zoom)
            lats, lons = geo.from_tile_coordinates(x + np.array([-BLOCK, BLOCK]), y + np.array([-BLOCK, BLOCK]), zoom)
            lons = geo.wrap_longitude(lons)
            return BoxPrior(float(lons[0]), float(lats[1]), float(lons[1]), float(lats[0]))
    raise DatasetError(f"The imagery of {area} is not in the gallery.", "Remove the work folder, and run this again.")


def _follow(task: tuple[Recording, Ground, Arm]) -> Run:
    recording, ground, arm = task
    gallery, bundle, settings, kept = (_stage[name] for name in ("gallery", "bundle", "settings", "kept"))
    assert isinstance(gallery, Gallery)
    assert isinstance(bundle, Bundle)
    assert isinstance(settings, TrackSettings)
    assert isinstance(kept, Path)
    area = "" if ground == "all" else recording.area
    name = f"{Path(gallery.address).name}{'' if ground == 'all' else f' {ground} {area}'}"
    track_map = _map("own" if ground in MISLEADING else ground, area)
    if ground in MISLEADING:
        recording = with_lies(recording, 0 if ground == "lies" else first_late(len(recording.codes)))
    (tracked,) = kept_track(kept, name, recording, arm, track_map, bundle, settings, UNFITTED).values()
    right = tracked.followed.right & (ground != "off")
    return Run(
        recording.ride.ride_id, recording.area, recording.night, ground, arm, tracked.evidence, right, track_map.km2
    )  # fmt: skip


LIES: tuple[Callable[[Movement], Movement], ...] = (
    lambda m: replace(m, distance_m=3.0 * m.distance_m),
    lambda m: replace(m, turn_deg=0.0),
    lambda m: replace(m, distance_m=0.4 * m.distance_m),
    lambda m: replace(m, turn_deg=-m.turn_deg),
)
"""What odometry may do without knowing it: a scale of 3, a stuck gyroscope, a scale of 0.4, turns mirrored."""


def with_lies(recording: Recording, first: int = 0) -> Recording:
    """A recording whose odometry lies from a frame on, in one of the ways of LIES by the name of the ride."""
    lie = LIES[sum(recording.ride.ride_id.encode()) % len(LIES)]
    odometry = {
        source: replace(record, movements=(
            *record.movements[:first], *(tuple(lie(m) for m in movements) for movements in record.movements[first:])
        ))
        for source, record in recording.odometry.items()
    }  # fmt: skip
    return replace(recording, odometry=odometry)


def _arms_in_turn(recording: Recording, number: int) -> list[Arm]:
    """What a drive is followed with: tiles and roads, and tiles or roads in turn; all on all grounds would take hours.

    Where there are several kinds of odometry, they take turns as well.
    """
    # Every fourth drive is at night: the two take turns among those, too.
    one = Arm(tiles=False) if (number + number // 4) % 2 else Arm(roads=False)
    sources = list(recording.odometry)
    first, second = sources[number % len(sources)], sources[number // 2 % len(sources)]
    return [Arm(first), replace(one, source=second)]


def calibrate_track(
    root: Path, data: Dataset, split: str, work: Path, report: Progress = lambda what, done, total: None, *,
    roads_out: Path | None = None, settings: TrackSettings | None = None, workers: int = 2,
    most_rides: int | None = None,
) -> list[str]:  # fmt: skip
    """Fit the confidence of tracking and store it in the bundle; returns lines that say how well it holds.

    roads_out: a file for the confidence of roads alone, which needs no bundle; not written if None.
    """
    bundle, usual = open_bundle(root), settings or TrackSettings()
    runs = calibration_runs(bundle, data, split, work, report, settings=usual, workers=workers, most_rides=most_rides)
    return save_confidence(runs, bundle.root / FILE, roads_out, usual, split)
