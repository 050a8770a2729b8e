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
from x2localizer.evaluate.tracking import Arm
from x2localizer.localize.confidence import fit, reliability
from x2localizer.localize.track.confidence import TrackConfidence, track_features
from x2localizer.types import Bools, Floats, Ints, TrackEvidence

Ground = Literal["all", "own", "off"]
GROUNDS: tuple[Ground, ...] = get_args(Ground)
RIGHT_SHARE = 0.985
"""Of the positions that are stated on the map, at least this share is right."""
OFF_MAP_SHARE = 0.005
"""Of the frames off the map, at most this share has a position."""
INDEPENDENT = 20.0
"""What the frames of one drive count together: neighbouring ones say the same."""
LEAST_SURE = 0.9
"""The threshold is not lower than this, however well guesses can be told apart on few drives."""
NEVER = 1.0
"""The threshold if none is good enough."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A drive that was followed once.

    ride: its name.
    held_out: whether it is kept for measuring.
    evidence, right: behind each guess, and whether it is within 80 m; off the map none is.
    """

    ride: str
    held_out: bool
    night: bool
    ground: Ground
    arm: Arm
    evidence: tuple[TrackEvidence, ...]
    right: Bools


# Fitting -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Frames of runs, one after the other.

    features: (q, f).
    right: (q,).
    off: whether the frame is off the map, (q,).
    counts: how much each counts: runs count alike, (q,).
    ride, group: numbers of the ride, and of the kind of map, (q,).
    """

    features: Floats
    right: Bools
    off: Bools
    counts: Floats
    ride: Ints
    group: Ints

    @staticmethod
    def of(runs: Sequence[Run]) -> Rows:
        """All frames of some runs."""
        sizes = [len(run.right) for run in runs]
        rides = {name: number for number, name in enumerate(sorted({run.ride for run in runs}))}
        return Rows(
            np.array([track_features(evidence) for run in runs for evidence in run.evidence]),
            np.concatenate([run.right for run in runs]), np.repeat([run.ground == "off" for run in runs], sizes),
            np.repeat([INDEPENDENT / size for size in sizes], sizes),
            np.repeat([rides[run.ride] for run in runs], sizes), np.repeat([run.arm.roads for run in runs], sizes) + 0,
        )  # fmt: skip


def fit_confidence(runs: Sequence[Run], settings: TrackSettings, fitted_on: str) -> TrackConfidence:
    """The confidence of runs that are not held out.

    The threshold is chosen by probabilities that each ride gets from a fit without it, and holds for maps with roads
    and for maps without.
    """
    rows = Rows.of([run for run in runs if not run.held_out])
    own = np.zeros(len(rows.right))
    for ride in np.unique(rows.ride):
        others, these = rows.ride != ride, rows.ride == ride
        own[these] = _probability(
            fit(rows.features[others], rows.right[others], counts=rows.counts[others]), rows.features[these]
        )
    thresholds = [
        choose_threshold(own[part], rows.right[part], rows.off[part], rows.counts[part])
        for part in (rows.group == group for group in np.unique(rows.group))
    ]
    weights = fit(rows.features, rows.right, counts=rows.counts)
    return TrackConfidence(weights, max(LEAST_SURE, *thresholds), fitted_on, settings)


def _probability(weights: Sequence[float], features: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(features @ np.asarray(weights), -500.0, 500.0))))


def choose_threshold(probability: Floats, right: Bools, off: Bools, counts: Floats) -> float:
    """The lowest probability from which positions on the map are right, and frames off the map have none; see above."""
    order = np.argsort(-probability)
    p, good, away, count = probability[order], right[order], off[order], counts[order]
    stated = np.cumsum(count * ~away)
    right_share = np.cumsum(count * good) / np.maximum(stated, 1e-9)
    off_share = np.cumsum(count * away) / max(float((count * away).sum()), 1e-9)
    last_of_equals = np.append(np.diff(p) < 0, True)
    fine = np.flatnonzero((right_share >= RIGHT_SHARE) & (off_share <= OFF_MAP_SHARE) & (stated > 0) & last_of_equals)
    return float(p[fine[-1]]) if len(fine) else NEVER


# Reporting -----------------------------------------------------------------------------------------------------------


def held_out_lines(confidence: TrackConfidence, runs: Sequence[Run]) -> list[str]:
    """How well a confidence holds on rides that it was not fitted on."""
    held = [run for run in runs if run.held_out]
    rows = Rows.of(held)
    p = _probability(confidence.weights, rows.features)
    on = ~rows.off
    text = markdown(
        ["odometry, map and light", "within 80 m", "sure", "of these right", "sure off the map"],
        (_line(confidence, [run for run in held if (run.arm, run.night) == (arm, night)], arm, night)
         for arm in dict.fromkeys(run.arm for run in held) for night in sorted({run.night for run in held})),
    )  # fmt: skip
    curve = markdown(
        ["confidence", "within 80 m", "frames"],
        ((f"{mean:.2f}", f"{share:.2f}", f"{count:,}") for mean, share, count in reliability(p, rows.right)),
    )
    sure = p >= confidence.threshold
    return [
        f"fitted on {confidence.fitted_on}; sure from a confidence of {confidence.threshold:.4f}",
        f"on {len({run.ride for run in held})} other drives: {_percent(rows.right[on])} within 80 m, "
        f"{_percent(sure[on])} sure, of these {_percent(rows.right[sure & on])} right; "
        f"{_percent(sure[~on])} sure off the map",
        text, "", curve,
    ]  # fmt: skip


def _line(confidence: TrackConfidence, runs: Sequence[Run], arm: Arm, night: bool) -> tuple[str, ...]:
    if not runs:
        return (f"{arm.name}, {'night' if night else 'day'}", *["-"] * 4)
    rows = Rows.of(runs)
    on, sure = ~rows.off, _probability(confidence.weights, rows.features) >= confidence.threshold
    shares = (rows.right[on], sure[on], rows.right[sure & on], sure[~on])
    return (f"{arm.name}, {'night' if night else 'day'}", *(_percent(share) for share in shares))


def _percent(flags: Bools) -> str:
    return f"{100 * flags.mean():.1f}%" if len(flags) else "-"


def save_confidence(
    runs: Sequence[Run], out: Path, roads_out: Path | None, settings: TrackSettings, split: str
) -> list[str]:
    """Fit the confidence with tiles and the one of roads alone, and write both."""
    lines: list[str] = []
    for tiles, path, title in ((True, out, "with tiles"), (False, roads_out, "roads alone")):
        chosen = [run for run in runs if run.arm.tiles == tiles]
        rides = {held_out: {run.ride for run in chosen if run.held_out == held_out} for held_out in (False, True)}
        if len(rides[False]) < 2 or not rides[True]:
            raise UserError("There are too few drives to calibrate on.", "Use a dataset with 4 long drives or more.")
        confidence = fit_confidence(chosen, settings, f"{len(rides[False])} drives of a {split} split, {title}")
        if path is not None:
            confidence.save(path)
        lines += [f"{title}:", *held_out_lines(confidence, chosen), ""]
    return lines
