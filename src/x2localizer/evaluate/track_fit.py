"""From tracked drives to a confidence: the regression, its threshold, and how well both hold on other drives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from x2localizer.config import TrackSettings
from x2localizer.errors import UserError
from x2localizer.evaluate.tables import markdown
from x2localizer.evaluate.tracked import Arm
from x2localizer.evaluate.tracking_tables import TOLD_APART_S, Interval, told_apart
from x2localizer.localize.confidence import fit, reliability
from x2localizer.localize.track.confidence import (
    TrackConfidence,
    map_features,
    reach_probability,
    track_features,
)
from x2localizer.types import Bools, Floats, Ints, TrackEvidence

Ground = Literal["all", "own", "off", "lies", "fails"]
GROUNDS: tuple[Ground, ...] = get_args(Ground)
MISLEADING: tuple[Ground, ...] = ("lies", "fails")
RIGHT_SHARE = 0.985
"""Of the positions that are stated on the map, at least this share is right."""
OFF_MAP_SHARE = 0.00125
"""Of the frames off the map, at most this share has a position. An eighth of what is promised, as few drives tell only
roughly what is so rare; larger maps have higher thresholds besides, see ``TrackConfidence.for_map``."""
MISLED_SHARE = 0.005
"""Of the frames whose odometry lies, at most this share has a position that is wrong. Half of what is promised."""
INDEPENDENT = 20.0
"""What the frames of one drive count together: neighbouring ones say the same."""
LEAST_SURE = 0.9
"""The threshold is not lower than this, however well guesses can be told apart on few drives."""
MAP_S = 80
"""Seconds from the start of a drive that tell how to know whether it is on the map; later it is seldom in doubt. There
is a frame each second."""
LEAST_RIDES = 4
NEVER = 1.0
"""The threshold if none is good enough."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A drive that was followed once.

    ride, area: its name, and where it is.
    ground: the map of all areas, of its own, or of all but its own; or its own with odometry that lies, from the start
        or from halfway on, as a sensor does that fails.
    evidence, right: behind each guess, and whether it is within 80 m; off the map none is.
    km2: the size of the map, in square kilometres.
    """

    ride: str
    area: str
    night: bool
    ground: Ground
    arm: Arm
    evidence: tuple[TrackEvidence, ...]
    right: Bools
    km2: float = 0.0

    @property
    def lying(self) -> Bools:
        """Frames by which the odometry lies."""
        frames = len(self.right)
        first = {"lies": 0, "fails": first_late(frames)}.get(self.ground, frames)
        return np.arange(frames) >= first

    @property
    def unfounded(self) -> Bools:
        """Guesses that must not be stated: off the map all, and those that a lie of the odometry made wrong."""
        return self.lying & ~self.right if self.ground != "off" else np.ones(len(self.right), np.bool_)


def first_late(frames: int) -> int:
    """The frame with which something begins halfway."""
    return frames // 2


# Fitting -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Frames of runs, one after the other.

    features: (q, f).
    reach: the factor beside the regression, see :func:`reach_probability`, (q,).
    right: (q,).
    off: whether the frame is off the map, or a lie of the odometry made its guess wrong, (q,).
    lying: whether the odometry lies, (q,).
    counts: how much each counts: runs count alike, (q,).
    area, group: numbers of the area, and of the kind of map, (q,).
    """

    features: Floats
    reach: Floats
    right: Bools
    off: Bools
    lying: Bools
    counts: Floats
    area: Ints
    group: Ints

    @staticmethod
    def of(runs: Sequence[Run]) -> Rows:
        """All frames of some runs."""
        sizes = [len(run.right) for run in runs]
        areas = {name: number for number, name in enumerate(sorted({run.area for run in runs}))}
        return Rows(
            np.array([track_features(evidence) for run in runs for evidence in run.evidence]),
            np.array([reach_probability(evidence) for run in runs for evidence in run.evidence]),
            np.concatenate([run.right for run in runs]), np.concatenate([run.unfounded for run in runs]),
            np.concatenate([run.lying for run in runs]), np.repeat([INDEPENDENT / size for size in sizes], sizes),
            np.repeat([areas[run.area] for run in runs], sizes), np.repeat([run.arm.roads for run in runs], sizes) + 0,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A confidence, and how it does on ground that it was not fitted on.

    elsewhere: the probability of each frame by a fit without its area, (q,).
    told_apart: how well drives on the map are told from those off it, see :func:`told_apart`; by the belief alone, and
        by fits without their area. None where there are no drives of one kind.
    """

    confidence: TrackConfidence
    rows: Rows
    elsewhere: Floats
    told_apart: tuple[Interval, Interval] | None


def fit_confidence(runs: Sequence[Run], settings: TrackSettings, fitted_on: str) -> Fit:
    """The confidence of all runs.

    Thresholds, one for maps with roads and one for maps without, are chosen by probabilities that each area gets from a
    fit without it.
    """
    rows = Rows.of(runs)
    elsewhere = np.zeros(len(rows.right))
    for area in np.unique(rows.area):
        others, these = rows.area != area, rows.area == area
        weights = fit(rows.features[others], rows.right[others], counts=rows.counts[others])
        elsewhere[these] = rows.reach[these] * _probability(weights, rows.features[these])
    thresholds = {True: NEVER, False: NEVER}
    for group in np.unique(rows.group):
        part = rows.group == group
        chosen = choose_threshold(
            elsewhere[part], rows.right[part], rows.off[part], rows.counts[part], rows.lying[part]
        )
        thresholds[bool(group)] = max(LEAST_SURE, chosen)
    weights = fit(rows.features, rows.right, counts=rows.counts)
    map_weights, apart = fit_map(runs)
    km2 = max(run.km2 for run in runs)
    confidence = TrackConfidence(weights, thresholds[True], thresholds[False], fitted_on, settings, map_weights, km2)
    return Fit(confidence, rows, elsewhere, apart)


def fit_map(runs: Sequence[Run]) -> tuple[tuple[float, ...], tuple[Interval, Interval] | None]:
    """Weights that say whether a camera is on the map, and how well it is told, see :class:`Fit`.

    Odometry that lies says nothing of the map, so its runs are left out.
    """
    honest = [run for run in runs if run.ground not in MISLEADING]
    on = [run for run in honest if run.ground == "all"]
    off = [run for run in honest if run.ground == "off"]
    if not on or not off:
        return (), None
    fits = {area: _map_weights([run for run in honest if run.area != area]) for area in {run.area for run in honest}}

    def after(run: Run) -> TrackEvidence:
        return run.evidence[: int(TOLD_APART_S)][-1]

    def judged(some: Sequence[Run]) -> Floats:
        return np.array([_probability(fits[run.area], map_features(after(run))) for run in some])

    believed = told_apart(*(np.array([after(run).on_map for run in some]) for some in (on, off)))
    fitted = told_apart(judged(on), judged(off))
    assert believed is not None  # neither is empty
    assert fitted is not None
    return _map_weights(honest), (believed, fitted)


def _map_weights(runs: Sequence[Run]) -> tuple[float, ...]:
    parts = [run.evidence[:MAP_S] for run in runs]
    features = np.array([map_features(evidence) for part in parts for evidence in part])
    on_map = np.concatenate([np.full(len(part), run.ground != "off") for run, part in zip(runs, parts, strict=True)])
    counts = np.concatenate([np.full(len(part), INDEPENDENT / len(part)) for part in parts])
    return fit(features, on_map, counts=counts)


def _probability(weights: Sequence[float], features: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(features @ np.asarray(weights), -500.0, 500.0))))


def choose_threshold(probability: Floats, right: Bools, off: Bools, counts: Floats, lying: Bools) -> float:
    """The lowest probability from which positions are right on the map, and seldom stated off it or misled; see above.

    off: whether no position must be stated, be it off the map or misled by odometry, (q,).
    lying: whether the odometry lies, (q,).
    """
    order = np.argsort(-probability)
    p, good, unfounded, misled, count = probability[order], right[order], off[order], lying[order], counts[order]
    stated = np.cumsum(count * ~unfounded)
    right_share = np.cumsum(count * good) / np.maximum(stated, 1e-9)
    away = unfounded & ~misled
    off_share, misled_share = (
        np.cumsum(count * unfounded * some) / max(float((count * some).sum()), 1e-9) for some in (away, misled)
    )
    honest = (right_share >= RIGHT_SHARE) & (off_share <= OFF_MAP_SHARE) & (misled_share <= MISLED_SHARE)
    last_of_equals = np.append(np.diff(p) < 0, True)
    fine = np.flatnonzero(honest & (stated > 0) & last_of_equals)
    return float(p[fine[-1]]) if len(fine) else NEVER


# Reporting -----------------------------------------------------------------------------------------------------------


def report_lines(found: Fit, runs: Sequence[Run]) -> list[str]:
    """How well a confidence holds in areas that it was not fitted on."""
    rows, p = found.rows, found.elsewhere
    with_roads, without = found.confidence.threshold, found.confidence.threshold_without_roads
    on, away = ~rows.off, rows.off & ~rows.lying
    sure = p >= np.where(rows.group == 1, with_roads, without)
    misled = (sure & ~rows.right)[rows.lying]
    ends = np.cumsum([len(run.right) for run in runs])
    arms = dict.fromkeys(run.arm for run in runs)
    table = []
    for arm in arms:
        for night in sorted({run.night for run in runs}):
            chosen = np.zeros(len(p), np.bool_)
            for run, end in zip(runs, ends, strict=True):
                chosen[end - len(run.right) : end] = run.arm == arm and run.night == night
            shares = (rows.right[on & chosen], sure[on & chosen], rows.right[sure & on & chosen], sure[away & chosen])
            table.append((f"{arm.name}, {'night' if night else 'day'}", *(_percent(share) for share in shares)))
    curve = markdown(
        ["confidence", "within 80 m", "frames"],
        ((f"{mean:.2f}", f"{share:.2f}", f"{count:,}") for mean, share, count in reliability(p, rows.right)),
    )
    apart = found.told_apart
    return [
        f"fitted on {found.confidence.fitted_on}; sure from a confidence of {with_roads:.4f} with roads, of "
        f"{without:.4f} without",
        f"each area by a fit without it: {_percent(rows.right[on])} within 80 m, {_percent(sure[on])} sure, of these "
        f"{_percent(rows.right[sure & on])} right; {_percent(sure[away])} sure off the map; {_percent(misled)} of the "
        "frames with odometry that lies sure and wrong",
        *([] if apart is None else [
            "on the map told from off it after 20 s, area under the curve: "
            f"{apart[1]}, by the belief alone {apart[0]}"
        ]),
        markdown(["odometry, map and light", "within 80 m", "sure", "of these right", "sure off the map"], table),
        "", curve,
    ]  # fmt: skip


def _percent(flags: Bools) -> str:
    return f"{100 * flags.mean():.1f}%" if len(flags) else "-"


def save_confidence(
    runs: Sequence[Run], out: Path, roads_out: Path | None, settings: TrackSettings, split: str
) -> list[str]:
    """Fit the confidence with tiles and the one of roads alone, and write both."""
    lines: list[str] = []
    for tiles, path, title in ((True, out, "with tiles"), (False, roads_out, "roads alone")):
        chosen = [run for run in runs if run.arm.tiles == tiles]
        rides = {run.ride for run in chosen}
        if len(rides) < LEAST_RIDES or len({run.area for run in chosen}) < 2:
            raise UserError(
                "There are too few drives to calibrate on.", "Use a dataset with 4 long drives or more in two areas."
            )
        found = fit_confidence(chosen, settings, f"{len(rides)} drives of a {split} split, {title}")
        if path is not None:
            found.confidence.save(path)
        lines += [f"{title}:", *report_lines(found, chosen), ""]
    return lines
