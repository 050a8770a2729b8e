"""How often is a tracker sure, and wrong, when something upstream fails? One row for each fault and onset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from x2localizer.config import TrackSettings
from x2localizer.datasets.dataset import Dataset
from x2localizer.encoders import Bundle, open_bundle
from x2localizer.errors import DatasetError
from x2localizer.evaluate.faults import (
    FAULTS,
    ONSETS,
    SHIFT_M,
    Fault,
    Given,
    Onset,
    faulty,
    first_frame,
    foreign_codes,
)
from x2localizer.evaluate.recordings import Recording, recordings, ride_codes, sources_of, tracked_rides
from x2localizer.evaluate.tables import markdown
from x2localizer.evaluate.tracked import Arm, load_tracked, save_tracked, to_tracked, track_key
from x2localizer.evaluate.tracking import moved, tracking_gallery
from x2localizer.evaluate.workers import in_workers
from x2localizer.gallery import open_gallery
from x2localizer.localize.track.confidence import TrackConfidence, track_confidence
from x2localizer.localize.track.fields import RoadField
from x2localizer.localize.track.snapshot import pack, restore
from x2localizer.localize.track.track_map import TrackMap
from x2localizer.localize.track.tracker import Tracker
from x2localizer.metrics import bootstrap_interval
from x2localizer.types import Bools, Fix, Progress

TARGET_PERCENT = 1.0
"""Most frames that may be sure and wrong."""


@dataclass(frozen=True, slots=True)
class FaultRow:
    """One fault over all drives, counting the frames from its onset on.

    sure: percent of frames with a position.
    wrong: percent of frames with a position that is more than 80 m off; low and high are a 95% interval over drives.
    wrong_of_sure: percent of the positions that are wrong; None without any.
    met: whether ``wrong`` is at most the target.
    """

    fault: str
    part: str
    onset: Onset
    drives: int
    frames: int
    sure: float
    wrong: float
    wrong_low: float
    wrong_high: float
    wrong_of_sure: float | None
    met: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Faulty:
    """What a drive becomes by a fault; without the fault's function, which cannot be sent to another process."""

    name: str
    moves_roads: bool
    recording: Recording


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """A drive and what it becomes by each fault, with the frame that the faults begin with."""

    sound: Recording
    onset: Onset
    first: int
    faulty: tuple[_Faulty, ...]


def run_faults(
    bundle: Bundle, data: Dataset, split: str, work: Path, report: Progress = lambda what, done, total: None, *,
    settings: TrackSettings | None = None, workers: int = 2, most_rides: int | None = None,
    onsets: Sequence[Onset] = ONSETS, faults: Sequence[Fault] = FAULTS,
) -> list[FaultRow]:  # fmt: skip
    """Follow drives with every fault on one map of all areas, tiles and roads.

    most_rides: so many of the drives, evenly spread over the areas.
    """
    usual = settings or TrackSettings()
    gallery = tracking_gallery(data, split, bundle, work, report)
    if not gallery.manifest.roads:
        raise DatasetError(f"The dataset has no roads of its {split} split.", "Make it with the standard preset.")
    rides = tracked_rides(data, split)
    if most_rides is not None and most_rides < len(rides):
        rides = [rides[k] for k in np.linspace(0, len(rides) - 1, most_rides).round().astype(int)]
    sources = sources_of(data, rides)[:1]
    if not sources:
        raise DatasetError("The dataset has no odometry of its drives.", "Make it with the standard preset.")
    drives = recordings(data, rides, sources, bundle, work, report, step_s=usual.step_s, workers=workers)
    mirrored = [ride_codes(data, drive.ride, bundle, work, mirrored=True) for drive in drives]
    tasks = []
    for number, drive in enumerate(drives):
        for onset in onsets:
            given = Given(drive, mirrored[number], foreign_codes(drives, number), first_frame(drive, onset))
            able = [fault for fault in faults if onset == "start" or not fault.moves_roads]
            changed = tuple(_Faulty(fault.name, fault.moves_roads, faulty(fault, given)) for fault in able)
            tasks.append(_Task(drive, onset, given.first, changed))
    found: dict[tuple[str, Onset], list[tuple[Bools, Bools]]] = {}
    arguments = (gallery.address, bundle.root, usual, work / "tracked")
    for done, (number, results) in enumerate(in_workers(_follow, tasks, workers, _prepare, arguments), 1):
        for name, pair in results.items():
            found.setdefault((name, tasks[number].onset), []).append(pair)
        report("drives with faults", done, len(tasks))
    return [
        _row(fault, onset, found[fault.name, onset])
        for fault in faults for onset in onsets if (fault.name, onset) in found
    ]  # fmt: skip


def _row(fault: Fault, onset: Onset, found: Sequence[tuple[Bools, Bools]]) -> FaultRow:
    sure, wrong = (np.concatenate(parts) for parts in zip(*found, strict=True))
    by_drive = np.array([100.0 * mistakes.mean() for _, mistakes in found])
    low, high = bootstrap_interval(by_drive)
    share = 100.0 * float(wrong.mean())
    return FaultRow(
        fault.name, fault.part, onset, len(found), len(sure), 100.0 * float(sure.mean()), share, low, high,
        100.0 * float(wrong.sum() / sure.sum()) if sure.any() else None, share <= TARGET_PERCENT,
    )  # fmt: skip


# In a worker ---------------------------------------------------------------------------------------------------------


_stage: dict[str, object] = {}


def _prepare(address: str, bundle: Path, settings: TrackSettings, kept: Path) -> None:
    _stage.update(address=address, bundle=open_bundle(bundle, threads=1, verify=False), settings=settings, kept=kept)
    _map.cache_clear()


@lru_cache(maxsize=2)
def _map(moves_roads: bool) -> TrackMap:
    if not moves_roads:
        return TrackMap.of(open_gallery(str(_stage["address"])))
    sound = _map(False)
    return replace(sound, roads=RoadField.of(moved(sound.gallery.roads(), 0.0, -SHIFT_M), sound.patches))


def _follow(task: _Task) -> dict[str, tuple[Bools, Bools]]:
    """At which frames after the onset a position was stated, and at which of them a wrong one, by fault.

    Until the onset all faults are the same drive: it is followed once, and every fault goes on from there.
    """
    bundle, settings, kept = _stage["bundle"], _stage["settings"], _stage["kept"]
    assert isinstance(bundle, Bundle)
    assert isinstance(settings, TrackSettings)
    assert isinstance(kept, Path)
    arm, confidence = Arm(next(iter(task.sound.odometry))), track_confidence(bundle.root, settings)
    before: bytes | None = None
    out = {}
    for fault in task.faulty:
        recording = fault.recording
        ground = f"{Path(str(_stage['address'])).name} {fault.name if fault.moves_roads else ''} from {task.first}"
        path = kept / f"{track_key(ground, recording, arm, settings, confidence)}.npz"
        track_map = _map(fault.moves_roads)
        if not path.is_file():
            if task.first and before is None:
                first = _tracker(task.sound, arm, track_map, bundle, settings, confidence)
                _advance(first, task.sound, arm, range(task.first))
                before = pack(first)
            tracker = _tracker(recording, arm, track_map, bundle, settings, confidence)
            if before is not None:
                restore(tracker, before)
            frames = range(task.first, len(recording.codes))
            fixes = _advance(tracker, recording, arm, frames)
            save_tracked(path, to_tracked(fixes, recording.ride.truth[task.first :], 0.0, 0.0))
        followed = load_tracked(path, confidence.for_map(track_map.km2)).followed
        out[fault.name] = followed.sure, followed.sure & ~followed.right
    return out


def _tracker(
    recording: Recording, arm: Arm, track_map: TrackMap, bundle: Bundle, settings: TrackSettings,
    confidence: TrackConfidence,
) -> Tracker:  # fmt: skip
    odometry = recording.odometry[arm.source]
    return Tracker(
        track_map, bundle, settings, scale_sd=odometry.scale_sd, bias_sd_deg_s=odometry.bias_sd_deg_s,
        confidence=confidence,
    )  # fmt: skip


def _advance(tracker: Tracker, recording: Recording, arm: Arm, frames: range) -> list[Fix]:
    fixes = []
    for number in frames:
        code, time_s = recording.codes[number], float(recording.ride.times_s[number])
        seen = bool(np.isfinite(code).all())
        movements = recording.odometry[arm.source].movements[number]
        fixes.append(tracker.advance(number, time_s, movements, code if seen else None))
    return fixes


# As text -------------------------------------------------------------------------------------------------------------


def table_text(rows: Sequence[FaultRow]) -> str:
    """As a Markdown table, and a line that says which rows miss the target."""
    cells = (
        (row.fault, row.onset, f"{row.frames:,}", f"{row.sure:.1f}%",
         f"{row.wrong:.2f}% ({row.wrong_low:.2f} to {row.wrong_high:.2f})", "yes" if row.met else "**no**")
        for row in rows
    )  # fmt: skip
    head = ["fault", "from", "frames", "sure", "sure and wrong (95%)", f"at most {TARGET_PERCENT:g}%"]
    missed = sum(not row.met for row in rows)
    return f"{markdown(head, cells)}\n\n{len(rows) - missed} of {len(rows)} rows meet the target."


def to_values(rows: Sequence[FaultRow]) -> dict[str, object]:
    """For the results file."""
    return {
        "target_percent": TARGET_PERCENT,
        "missed": sum(not row.met for row in rows),
        "rows": [asdict(row) for row in rows],
    }
